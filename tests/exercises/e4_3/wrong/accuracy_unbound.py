# mistake: Only rank 0 has given this name a value. Give it one on all ranks, and send
#   the number: dist.broadcast of a tensor from rank 0.
def evaluate_and_save(rank, model, data, path):
    device = next(model.parameters()).device
    if rank == 0:
        model.module.eval()
        with torch.no_grad():
            images, labels = data.tensors
            right = (model.module(images.to(device)).argmax(1).cpu() == labels).sum()
        accuracy = right.item() / len(data)
        torch.save(model.module.state_dict(), path)
    dist.barrier()
    model.module.load_state_dict(torch.load(path, map_location=device))
    return accuracy
