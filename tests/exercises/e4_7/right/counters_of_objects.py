import copy
from collections import Counter


def evaluate(model, data):
    """Sample by sample on a copy of the model; two Counters of each rank travel."""
    device = next(model.parameters()).device
    rank, ranks = dist.get_rank(), dist.get_world_size()
    copied = copy.deepcopy(model.module).eval()
    for buffer in copied.buffers():
        dist.broadcast(buffer, 0)
    right, there, loss = Counter(), Counter(), 0.0
    with torch.inference_mode():
        for place in range(rank, len(data), ranks):
            image, label = data[place]
            output = copied(image[None].to(device)).double()[0]
            there[label.item()] += 1
            right[label.item()] += int(output.argmax() == label.to(device))
            loss -= output.log_softmax(0)[label].item()
    each = [None] * ranks
    dist.all_gather_object(each, (right, there, loss))
    right = sum((one[0] for one in each), Counter())
    there = sum((one[1] for one in each), Counter())
    recalls = [right[digit] / there[digit] for digit in there]
    return {
        "loss": sum(one[2] for one in each) / there.total(),
        "accuracy": right.total() / there.total(),
        "recall": sum(recalls) / len(recalls),
    }
