# mistake: Save a state dict, not the model: a class that is pickled cannot be loaded
#   where its code has moved.
def evaluate_and_save(rank, model, data, path):
    device = next(model.parameters()).device
    accuracy = torch.zeros(1, device=device)
    if rank == 0:
        torch.save(model.module, path)
    dist.barrier()
    model.module.load_state_dict(torch.load(path, map_location=device).state_dict())
    dist.broadcast(accuracy, src=0)
    return accuracy.item()
