# run by: ranks
# says: Mesh should not be bigger than default world size
import torch.distributed as dist

dist.init_process_group("gloo")
mesh = dist.init_device_mesh("cpu", (1, dist.get_world_size()))
assert mesh.size() == 2
dist.init_device_mesh("cpu", (2, 2))
