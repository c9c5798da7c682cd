# hint: Every rank loads the file
def evaluate_and_save(rank, model, data, path):
    device = next(model.parameters()).device
    accuracy = torch.zeros(1, device=device)
    if rank == 0:
        model.module.eval()
        right = 0
        with torch.no_grad():
            for images, labels in DataLoader(data, batch_size=50):
                predicted = model.module(images.to(device)).argmax(1)
                right += (predicted == labels.to(device)).sum().item()
        accuracy[0] = right / len(data)
        torch.save(model.module.state_dict(), path)
        model.module.load_state_dict(torch.load(path, map_location=device))
    dist.barrier()
    dist.broadcast(accuracy, src=0)
    return accuracy.item()
