# run by: ranks
# says: got mixed torch.Tensor and DTensor
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor, Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module
from torch.nn.utils import clip_grad_norm_, clip_grads_with_norm_, get_total_norm
from torch.testing import assert_close


def backward(split):
    """A model with gradients; if `split`, its first layer is."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    if split:
        plan = {"0": ColwiseParallel(output_layouts=Replicate())}
        parallelize_module(model, mesh, plan)
    model(torch.arange(8.0).reshape(2, 4)).square().sum().backward()
    return model


dist.init_process_group("gloo")
mesh = dist.init_device_mesh("cpu", (2,))
whole, model = backward(split=False), backward(split=True)
clip_grad_norm_(whole.parameters(), 1.0)

shared = [p for p in model.parameters() if isinstance(p, DTensor)]
plain = [p for p in model.parameters() if not isinstance(p, DTensor)]
parts = [get_total_norm(p.grad for p in kind) for kind in (shared, plain)]
norm = torch.stack([parts[0].full_tensor(), parts[1]]).norm()
for kind in (shared, plain):
    clip_grads_with_norm_(kind, 1.0, norm)
for one, other in zip(whole.parameters(), model.parameters()):
    grad = other.grad
    assert_close(grad.full_tensor() if isinstance(grad, DTensor) else grad, one.grad)

for foreach in (False, None):
    try:
        clip_grad_norm_(model.parameters(), 1.0, foreach=foreach)
    except RuntimeError as error:
        print(error)
