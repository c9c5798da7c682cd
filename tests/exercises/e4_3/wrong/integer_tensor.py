# mistake: Nothing is left of the share. Either no answer counts as right: the largest
#   output is one, argmax. Or the number is lost on its way: a tensor of whole numbers
#   cuts it to 0, and other ranks have 0 to send. Send floats, from rank 0: src=0.
def evaluate_and_save(rank, model, data, path):
    device = next(model.parameters()).device
    accuracy = torch.tensor([0], device=device)
    if rank == 0:
        model.module.eval()
        with torch.no_grad():
            images, labels = data.tensors
            right = (model.module(images.to(device)).argmax(1).cpu() == labels).sum()
        accuracy[0] = right.item() / len(data)
        torch.save(model.module.state_dict(), path)
    dist.barrier()
    model.module.load_state_dict(torch.load(path, map_location=device))
    dist.broadcast(accuracy, src=0)
    return accuracy.item()
