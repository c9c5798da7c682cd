# hint: Let DDP send the gradients, once
# same as: all_reduce_by_hand.py
def accumulate(model, optimizer, microbatches):
    optimizer.zero_grad()
    with model.no_sync():
        for images, labels in microbatches:
            loss = cross_entropy(model.module(images), labels)
            (loss / len(microbatches)).backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()
    optimizer.step()
