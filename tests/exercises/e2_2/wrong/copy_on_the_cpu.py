# hint: [less work]
import copy


def accumulate(model, microbatches):
    plain = copy.deepcopy(model).cpu()
    total = sum(len(labels) for _, labels in microbatches)
    for images, labels in microbatches:
        loss = cross_entropy(plain(images.cpu()), labels.cpu())
        (loss * len(labels) / total).backward()
    for parameter, other in zip(model.parameters(), plain.parameters()):
        parameter.grad = other.grad.to(parameter.device)
