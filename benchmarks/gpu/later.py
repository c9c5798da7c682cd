"""`python -m benchmarks.gpu.later FOLDER`: steps that no constant was fitted to.

Other networks, batches and lengths than truth.py has, measured once the constants of
virtual GPUs were fixed and committed: what `compare` says of them is a prediction.
"""

import itertools
import sys

import torch

from benchmarks.gpu import truth
from benchmarks.gpu.keeping import Findings

PRECISIONS = ("amp-bf16", "float32", "tfloat32", "amp16")
SIZES = [
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
]
WIDE = [(512, 64), (4096, 256), (8192, 64), (2048, 4096)]  # width, batch


def main(out: str) -> None:
    """Measure all of them, each precision in its turn."""
    findings = Findings(out, "later")
    device = "cuda" if torch.cuda.device_count() else "cpu"
    sizes, wide = (SIZES, WIDE) if device == "cuda" else ([("GPT-2", 1, 16)], WIDE[:1])
    for width, batch in wide:
        row = truth.small_network(truth.wide(width).to(device), (batch, 64), device)
        findings.keep(f"wide {width}, batch {batch}", row)
    for batch in (4, 1024) if device == "cuda" else (1,):
        model = truth.convolutions().to(device)
        row = truth.small_network(model, (batch, 1, 8, 8), device)
        findings.keep(f"convolutions, batch {batch}", row)
    for precision, (name, *shape) in itertools.product(PRECISIONS, sizes):
        label = f"{name} {shape[0]}x{shape[1]} {precision}"
        with findings.attempt(label):
            row = truth.network(name, shape, (precision, False, device))
            findings.keep(label, row)


if __name__ == "__main__":
    main(sys.argv[1])
