# hint: [work]
# same as: whole_batch_on_every_rank
def train_agreeing(rank, world_size, make_model, batches):
    dist.init_process_group("gloo")
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for images, labels in batches if rank == 0 else ():
        optimizer.zero_grad()
        cross_entropy(model(images), labels).backward()
        optimizer.step()
    for parameter in model.parameters():
        dist.broadcast(parameter.data, src=0)
    dist.destroy_process_group()
    return model.state_dict()
