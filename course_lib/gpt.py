"""The small GPT that lessons train, as 02b and 02c show it: tests/test_gpt.py compares.

A. Radford et al., 2019, Language Models are Unsupervised Multitask Learners, without
dropout. Its tables start larger than there: so small a model then learns faster.
"""

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    """A layer: tokens look back, then each is changed alone; f32[n, length, width]."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def attention(self, x):
        """Return what each token takes from itself and those before it."""
        heads = self.qkv(x).unflatten(-1, (3, self.heads, -1))
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        found = scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(found.transpose(1, 2).flatten(2))

    def forward(self, x):
        """Return the rows of all tokens with what both steps add."""
        x = x + self.attention(self.norm_1(x))
        return x + self.mlp(self.norm_2(x))


class GPT(nn.Module):
    """Codes of characters, i64[n, length], to f32[n, length, 96]: what comes next."""

    def __init__(self, context=64, width=64, heads=4, layers=4):
        super().__init__()
        self.tokens = nn.Embedding(96, width)
        self.places = nn.Embedding(context, width)
        for table in (self.tokens, self.places):
            nn.init.normal_(table.weight, std=0.1)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.last = nn.Linear(width, 96, bias=False)
        self.last.weight = self.tokens.weight  # tied: one tensor, two uses

    def forward(self, tokens):
        """Return the logits of the token that follows each."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.places(places)
        for block in self.blocks:
            x = block(x)
        return self.last(self.norm(x))


class Recomputed(nn.Module):
    """A part of a model of which forward keeps the input; backward runs it again."""

    def __init__(self, part):
        super().__init__()
        self.part = part

    def forward(self, x):
        """Return what the part gives."""
        return checkpoint(self.part, x, use_reentrant=False)
