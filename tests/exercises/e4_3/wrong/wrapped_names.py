# hint: [other names]
# same as: parameters_saved.py
def evaluate_and_save(rank, model, data, path):
    device = next(model.parameters()).device
    accuracy = torch.zeros(1, device=device)
    if rank == 0:
        model.module.eval()
        with torch.no_grad():
            images, labels = data.tensors
            right = (model.module(images.to(device)).argmax(1).cpu() == labels).sum()
        accuracy[0] = right.item() / len(data)
        torch.save(model.state_dict(), path)
    dist.barrier()
    model.load_state_dict(torch.load(path, map_location=device))
    dist.broadcast(accuracy, src=0)
    return accuracy.item()
