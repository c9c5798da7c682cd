# hint: [no file]
# same as: nothing_saved.py
import os


def evaluate_and_save(rank, model, data, path):
    device = next(model.parameters()).device
    accuracy = torch.zeros(1, device=device)
    name = os.path.join(os.path.dirname(path), "model.pt")
    if rank == 0:
        model.module.eval()
        with torch.no_grad():
            images, labels = data.tensors
            right = (model.module(images.to(device)).argmax(1).cpu() == labels).sum()
        accuracy[0] = right.item() / len(data)
        torch.save(model.module.state_dict(), name)
    dist.barrier()
    model.module.load_state_dict(torch.load(name, map_location=device))
    dist.broadcast(accuracy, src=0)
    return accuracy.item()
