"""Seeds and generators."""

import torch
from torch import nn
from torch.utils.data import DataLoader, RandomSampler

from tests.capabilities.rows import absent, alike, works


@works(
    "`torch.manual_seed`, `torch.randn(…, device=…)`, dropout",
    "A seed gives the numbers that it gives on the CPU; CUDA gives others.",
)
def seeds(devs):
    alike(lambda device: torch.randn(9, device=device), devs)
    alike(lambda device: nn.functional.dropout(torch.ones(9, device=device)), devs)
    with torch.random.fork_rng(devices=[1], device_type="vgpu"):
        inside = torch.rand(1, device=devs[1])
    assert torch.rand(1, device=devs[1]).item() == inside.item()


@works(
    "`torch.Generator(device=…)`",
    "Factories, `normal_`, `bernoulli`, `multinomial`, `nn.init`, samplers and loaders"
    " take it.",
)
def generators(devs):
    def draw(device):
        generator = torch.Generator(device=device).manual_seed(3)
        x = torch.full((4,), 0.5, device=device)
        parts = [
            torch.randn(4, generator=generator, device=device),
            torch.randperm(4, generator=generator, device=device),
            torch.bernoulli(x, generator=generator),
            torch.multinomial(x, 4, generator=generator),
            x.clone().normal_(generator=generator),
            nn.init.kaiming_uniform_(
                torch.ones(2, 2, device=device), generator=generator
            ),
        ]
        return torch.cat([part.flatten().float() for part in parts])

    alike(draw, devs)
    generator = torch.Generator(device="vgpu:1")
    assert generator.device == devs[1] and isinstance(generator, torch.Generator)
    state = generator.get_state()
    batches = DataLoader(range(4), shuffle=True, generator=generator)
    assert sorted(batch.item() for batch in batches) == [0, 1, 2, 3]
    generator.set_state(state)
    again = generator.clone_state()
    assert list(RandomSampler(range(9), generator=generator)) == list(
        RandomSampler(range(9), generator=again)
    )


@absent(
    "a generator of another device than the tensor",
    "It is taken, also in `torch.randperm` as samplers call it; CUDA refuses it.",
)
def other_generator(devs):
    generator = torch.Generator()
    assert torch.randn(2, generator=generator, device=devs[1]).device == devs[1]
    generator = torch.Generator(device=devs[0])
    assert torch.randperm(3, generator=generator).device.type == "cpu"
