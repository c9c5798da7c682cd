"""Networks that others have timed, in plain PyTorch: ResNet-50, BERT, GPT-2, MPT."""

import torch
from torch import nn
from torch.nn import functional as F


class HalfNorm(nn.LayerNorm):
    """LLM Foundry's norm, which autocast leaves in half precision."""

    def forward(self, x):
        """(…, width) → the same."""
        with torch.autocast(x.device.type, enabled=False):
            return super().forward(x)


class Bottleneck(nn.Module):
    """1 × 1, 3 × 3 and 1 × 1 convolutions beside a shortcut; v1.5: 3 × 3 strides."""

    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs, layers = 4 * width, []
        for sizes, kernel, step in (
            ((inputs, width), 1, 1),
            ((width, width), 3, stride),
            ((width, outputs), 1, 1),
        ):
            options = {"stride": step, "padding": kernel // 2, "bias": False}
            layers += [nn.Conv2d(*sizes, kernel, **options), nn.BatchNorm2d(sizes[1])]
            layers += [nn.ReLU(inplace=True)]
        self.layers = nn.Sequential(*layers[:-1])
        self.shortcut = nn.Identity()
        if inputs != outputs:
            short = nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False)
            self.shortcut = nn.Sequential(short, nn.BatchNorm2d(outputs))

    def forward(self, x):
        """(batch, inputs, height, width) → (batch, 4 · width, …), strided."""
        return F.relu(self.layers(x) + self.shortcut(x), inplace=True)


def resnet50():
    """ResNet-50 v1.5 for 1,000 classes (He et al., 2015)."""
    layers = [nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False), nn.BatchNorm2d(64)]
    layers += [nn.ReLU(inplace=True), nn.MaxPool2d(3, stride=2, padding=1)]
    inputs = 64
    for width, depth in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(depth):
            stride = 2 if block == 0 and width > 64 else 1
            layers.append(Bottleneck(inputs, width, stride))
            inputs = 4 * width
    head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000)
    return nn.Sequential(*layers, *head)


class Block(nn.Module):
    """Attention and two linear layers, each beside a shortcut.

    `plain` attention is a sequence of operators, as before PyTorch 2; else it is
    F.scaled_dot_product_attention. BERT has its norms after the sums, GPT before.
    """

    def __init__(self, width, heads, *, causal, plain, dropout=0.0):
        super().__init__()
        self.heads, self.causal, self.plain = heads, causal, plain
        norm = nn.LayerNorm if plain else HalfNorm
        self.norms = nn.ModuleList(norm(width) for _ in range(2))
        self.inner, self.joined = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)
        self.dropout = dropout

    def forward(self, x, mask):
        """(batch, sequence, width) → the same shape."""
        first, second = self.norms
        if self.causal:
            x = x + self._drop(self._attend(first(x), mask))
            wide = F.gelu(self.wide(second(x)), approximate="tanh")
            return x + self._drop(self.narrow(wide))
        x = first(x + self._drop(self._attend(x, mask)))
        return second(x + self._drop(self.narrow(F.gelu(self.wide(x)))))

    def _drop(self, x):
        return F.dropout(x, self.dropout) if self.dropout else x

    def _attend(self, x, mask):
        parts = self.inner(x).chunk(3, -1)
        query, key, value = (
            p.unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in parts
        )
        if self.plain:
            out = self._weights(query, key, mask) @ value
        else:
            out = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.joined(out.transpose(1, 2).flatten(2))

    def _weights(self, query, key, mask):
        scores = (query @ key.transpose(-2, -1)) * query.shape[-1] ** -0.5
        if self.causal:
            scores = scores.masked_fill(mask, float("-inf"))
        else:
            scores = scores + mask
        return self._drop(F.softmax(scores, -1))


class Transformer(nn.Module):
    """BERT (Devlin et al., 2018), GPT-2 (Radford et al., 2019) or MPT, by its sizes.

    `masked` is how many tokens of a sequence BERT predicts (0: SQuAD's two numbers per
    token); GPT predicts all, with the weights of its embedding.
    """

    def __init__(self, sizes, *, causal, plain, dropout=0.0, masked=None):
        super().__init__()
        depth, width, heads, words, positions = sizes
        self.causal, self.masked, self.dropout = causal, masked, dropout
        self.words = nn.Embedding(words, width)
        self.positions = nn.Embedding(positions, width)
        self.norm = nn.LayerNorm(width) if plain else HalfNorm(width)
        options = {"causal": causal, "plain": plain, "dropout": dropout}
        self.blocks = nn.ModuleList(
            Block(width, heads, **options) for _ in range(depth)
        )
        if not causal:
            self.kinds = nn.Embedding(2, width)
            self.head = nn.Linear(width, width if masked else 2)
            self.last = nn.LayerNorm(width) if masked else None

    def forward(self, tokens):
        """(batch, sequence) of numbers → (rows, classes), a row per prediction."""
        length = tokens.shape[1]
        x = self.words(tokens) + self.positions(
            torch.arange(length, device=tokens.device)
        )
        if self.causal:
            mask = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        else:
            x = x + self.kinds(torch.zeros_like(tokens))
            x = F.dropout(self.norm(x), self.dropout)
            mask = torch.zeros(len(tokens), 1, 1, length, device=x.device)
        for block in self.blocks:
            x = block(x, mask)
        return self._predict(x)

    def _predict(self, x):
        if self.causal:
            return F.linear(self.norm(x), self.words.weight).flatten(0, 1)
        if not self.masked:
            return self.head(x).transpose(1, 2).flatten(0, 1)
        x = x[:, : self.masked].flatten(0, 1)
        return F.linear(self.last(F.gelu(self.head(x))), self.words.weight)


_BERT = {"causal": False, "plain": True, "dropout": 0.1}
_MPT = {"causal": True, "plain": False}


def network(name: str, sequence: int) -> nn.Module:
    """One of the networks, for sequences (or images) of this length."""
    if name == "ResNet-50":
        return resnet50()
    masked = 20 if sequence == 128 else 0
    sizes, options = {
        "BERT-base": ((12, 768, 12, 30528, 512), _BERT | {"masked": masked}),
        "BERT-large": ((24, 1024, 16, 30528, 512), _BERT | {"masked": masked}),
        "GPT-2": ((12, 768, 12, 50257, 1024), {"causal": True, "plain": True}),
        "MPT-125m": ((12, 768, 12, 50368, sequence), _MPT),
        "MPT-760m": ((24, 1536, 12, 50368, sequence), _MPT),
        "MPT-1b": ((24, 2048, 16, 50368, sequence), _MPT),
    }[name]
    return Transformer(sizes, **options)


def batch(name: str, shape: tuple[int, int], device) -> torch.Tensor:
    """Inputs of a network: samples of a sequence, or of images with this side."""
    samples, length = shape
    if name == "ResNet-50":
        return torch.empty(samples, 3, length, length, device=device)
    return torch.zeros(samples, length, dtype=torch.int64, device=device)
