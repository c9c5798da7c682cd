"""A step of a sharded training on many GPUs, modelled: computing, and what is sent."""

from __future__ import annotations

import math
from dataclasses import dataclass

from course_lib.accelerators.hardware import achievable, find_link
from course_lib.clusters.scaling import Network
from course_lib.errors import UsageError


@dataclass(frozen=True)
class ShardedTraining:
    """A dense model, and the tokens of a step on all GPUs; each layer is fetched alone.

    All tokens of a GPU go through it at once, and backward runs no forward again. A
    parameter costs 6 FLOPs for each token: 2 in forward, 4 in backward (Kaplan et al.,
    2020, Scaling Laws for Neural Language Models, section 2.1; the products of tokens
    with tokens in attention are left out), at the rates that training with bfloat16
    reaches on `gpu`. Weights and gradients are sent in `bytes` bytes each; links have
    the bandwidth of their data sheets, and the latency of NCCL's protocol Simple.
    """

    parameters: float
    layers: int
    tokens: float
    gpu: str = "H100"
    bytes: int = 2

    def __post_init__(self):
        for name in ("parameters", "layers", "tokens", "bytes"):
            number = getattr(self, name)
            if not 0 < number < math.inf:
                raise UsageError(f"{name} must be more than 0; found {number!r:.40}")

    def compute(self, gpus: int) -> float:
        """Return the seconds in which a GPU computes its share of the tokens."""
        rate = achievable(self.gpu).flops["bfloat16"]
        return 6 * self.parameters * self.tokens / gpus / rate

    def sent(
        self, gpus: int, network: Network, *, hybrid: bool = False
    ) -> tuple[float, float]:
        """Return the seconds of all that is sent in forward and in backward of a step.

        By FSDP an all-gather of all weights in each, and in backward a reduce-scatter
        of all gradients, in rings over all GPUs, as many as a node has ports; with
        `hybrid` (HSDP) in rings inside each node, and beside those of backward an
        all-reduce of each GPU's share between nodes.

        Errors: `UsageError` for GPUs that do not fill their nodes.
        """
        inner, nodes = network.levels(gpus)
        inside, between = find_link(network.inside), find_link(network.between)
        whole = self.parameters * self.bytes
        if hybrid or nodes == 1:
            near = self._ring(whole, inner, inside.bandwidth, inside.latency)
            share = whole / inner / self.layers
            return near, max(2 * near, self.layers * network.across(share, nodes))
        hop = ((inner - 1) * inside.latency + between.latency) / inner
        speed = min(inside.bandwidth, network.into_node)
        ring = self._ring(whole, gpus, speed, hop)
        return ring, 2 * ring

    def _ring(self, size, ranks, bandwidth, latency):
        """Seconds of an all-gather or a reduce-scatter of `size` bytes, by layers."""
        return (ranks - 1) * (size / ranks / bandwidth + self.layers * latency)

    def step(self, gpus: int, network: Network, *, hybrid: bool = False) -> float:
        """Return the seconds of a step in which all that can be hidden is hidden.

        What a pass sends hides beside what it computes, a third of all in forward. So a
        pass takes the longer of both: nothing is late, no layer waits for the first.
        """
        forward, backward = self.sent(gpus, network, hybrid=hybrid)
        third = self.compute(gpus) / 3
        return max(forward, third) + max(backward, 2 * third)
