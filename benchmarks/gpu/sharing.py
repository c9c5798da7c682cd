"""What libraries of PyTorch do in ranks that share one GPU over gloo."""

import os
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel as DDP

from course_lib.text import many


def join(rank: int, backend: str, **options) -> torch.device:
    """Join the group, and return the GPU of the rank."""
    device = torch.device("cuda", rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    dist.init_process_group(backend, **options)
    return device


def fsdp2(rank, world_size, backend, half=False):
    """Three steps of a sharded network: losses, the gradients' norm, peak bytes."""
    device = join(rank, backend)
    torch.manual_seed(0)
    parts = [
        nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 512))
        for _ in range(4)
    ]
    model = nn.Sequential(*parts).to(device)
    types = {"param_dtype": torch.bfloat16, "reduce_dtype": torch.float32}
    policy = MixedPrecisionPolicy(**types) if half else MixedPrecisionPolicy()
    for part in (*model, model):
        fully_shard(part, mp_policy=policy)
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(64, 512, device=device)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(x).float().square().mean()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses, norm.full_tensor().item(), torch.cuda.max_memory_allocated()


def checkpoint(rank, world_size, backend, folder):
    """A sharded model and its optimizer, saved and loaded; the files."""
    device = join(rank, backend)
    model = fully_shard(nn.Linear(512, 512).to(device))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(8, 512, device=device)).sum().backward()
    optimizer.step()
    states = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer)))
    dcp.save(states, checkpoint_id=folder)
    dcp.load(states, checkpoint_id=folder)
    return sorted(os.listdir(folder))


def tensor_parallel(rank, world_size, backend):
    """A layer by columns, the next by rows; the sum of what comes out."""
    device = join(rank, backend)
    mesh = dist.init_device_mesh("cuda", (world_size,))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 512))
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    parallelize_module(model.to(device), mesh, plan)
    out = model(torch.randn(64, 512, device=device))
    out.sum().backward()
    return out.sum().item()


def pipeline(rank, world_size, backend):
    """A stage in each rank; the losses of four micro-batches."""
    device = join(rank, backend)
    layer = nn.Linear(64, 64).to(device)
    stage = PipelineStage(layer, rank, world_size, device)
    schedule = ScheduleGPipe(stage, 4, loss_fn=nn.functional.mse_loss)
    x = torch.randn(32, 64, device=device)
    losses = []
    if rank == 0:
        schedule.step(x)
    else:
        schedule.step(target=x, losses=losses)
    return [loss.item() for loss in losses]


def synchronized_norm(rank, world_size, backend):
    """Statistics over the batches of all ranks: the running mean."""
    device = join(rank, backend)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8))
    model = nn.SyncBatchNorm.convert_sync_batchnorm(model).to(device)
    model = DDP(model, device_ids=[device.index])
    torch.manual_seed(rank)
    model(torch.randn(16, 8, device=device)).square().sum().backward()
    return model.module[1].running_mean[:3].tolist()


def scaler(rank, world_size, backend):
    """Infinite gradients in rank 0 at the second step: the scale after each."""
    device = join(rank, backend)
    model = DDP(nn.Linear(64, 64).to(device), device_ids=[device.index])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler, scales = torch.amp.GradScaler("cuda"), []
    for step in range(3):
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.float16):
            loss = model(torch.randn(8, 64, device=device)).square().mean()
        if step == 1 and rank == 0:
            loss = loss * float("inf")
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    return scales


def cases() -> list:
    """Each with one rank on nccl, and with two on one GPU over gloo."""
    found = []
    for ranks, backend in ((1, "nccl"), (2, "gloo")):
        how = {"backend": backend, "timeout": 40}
        label = f"{backend}, {many(ranks, 'rank')}"
        folder = tempfile.mkdtemp()
        rows = [
            ("FSDP2", fsdp2, {}),
            ("FSDP2 in bf16", fsdp2, {"half": True}),
            ("distributed.checkpoint", checkpoint, {"folder": folder}),
            ("tensor parallel", tensor_parallel, {}),
            ("SyncBatchNorm", synchronized_norm, {}),
            ("GradScaler", scaler, {}),
        ]
        if ranks > 1:
            rows.append(("pipeline", pipeline, {}))
        for name, call, more in rows:
            found.append((f"{name}: {label}", call, ranks, {**how, **more}))
    return found
