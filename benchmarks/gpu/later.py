"""`python -m benchmarks.gpu.later FOLDER [sets]`: more steps than truth.py measures.

The second set was timed beside constants that had been fitted to the steps of truth.py
alone: half of the modelled times of that day were off by more than 25 %. The constants
were then fitted to halves of both. The third set was timed after that, and no constant
was fitted to it: what `compare` says of it is a prediction.
"""

import itertools
import sys

import torch

from benchmarks.gpu import truth
from benchmarks.gpu.keeping import Findings

PRECISIONS = ("amp-bf16", "float32", "tfloat32", "amp16")
# network, batch, sequence or side of an image
SIZES = {
    "second": [
        ("GPT-2", 1, 64),
        ("ResNet-50", 1, 64),
        ("BERT-base", 1, 64),
        ("BERT-large", 16, 128),
        ("BERT-large", 8, 384),
        ("BERT-base", 16, 512),
        ("ResNet-50", 128, 224),
        ("ResNet-50", 32, 160),
        ("GPT-2", 16, 512),
        ("MPT-125m", 4, 2048),
        ("MPT-760m", 4, 1024),
        ("MPT-1b", 2, 2048),
    ],
    "third": [
        ("GPT-2", 4, 256),
        ("GPT-2", 12, 768),
        ("BERT-base", 64, 128),
        ("BERT-large", 4, 512),
        ("ResNet-50", 16, 192),
        ("ResNet-50", 192, 224),
        ("MPT-125m", 32, 256),
        ("MPT-760m", 3, 2048),
        ("MPT-1b", 8, 512),
    ],
}
WIDE = {  # width, batch
    "second": [(512, 64), (4096, 256), (8192, 64), (2048, 4096)],
    "third": [(1024, 8), (3072, 512), (6144, 2048)],
}
CONVOLUTIONS = {"second": (4, 1024), "third": (32, 512)}  # batch


def main(out: str, *sets: str) -> None:
    """Measure the sets, each precision in its turn."""
    findings = Findings(out, "later")
    device = "cuda" if torch.cuda.device_count() else "cpu"
    for name in sets or SIZES:
        small(findings, name, device)
        for row in itertools.product(PRECISIONS, SIZES[name]):
            if device == "cuda":
                large(findings, *row)


def small(findings, name, device):
    """The networks of lessons 01 and 02, in float32."""
    for width, batch in WIDE[name] if device == "cuda" else [(512, 8)]:
        model = truth.wide(width).to(device)
        row = truth.small_network(model, (batch, 64), device)
        findings.keep(f"wide {width}, batch {batch}", row)
    for batch in CONVOLUTIONS[name] if device == "cuda" else [1]:
        model = truth.convolutions().to(device)
        row = truth.small_network(model, (batch, 1, 8, 8), device)
        findings.keep(f"convolutions, batch {batch}", row)


def large(findings, precision, size):
    """A network that others have timed, in one of the precisions."""
    name, batch, length = size
    label = f"{name} {batch}x{length} {precision}"
    with findings.attempt(label):
        row = truth.network(name, (batch, length), (precision, False, "cuda"))
        findings.keep(label, row)


if __name__ == "__main__":
    main(*sys.argv[1:])
