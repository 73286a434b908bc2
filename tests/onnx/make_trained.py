#!/usr/bin/env python3
"""Writes tests/onnx/trained: small networks as ONNX files, and the losses that PyTorch computes.

    make_trained.py [NAMES]   all networks, or these; needs torch 2.15.0, onnx 1.23.2, onnxscript, numpy

NAME_default.onnx and NAME_older.onnx are two exports of one network (docs/onnx.md).  NAME.f32 holds float32 numbers:
8 samples, channels last, or their ids, and then the losses of 20 steps of SGD (tests/train/test_onnx.c).  Networks
with several inputs are in tests/onnx/several; NAME.npz has their samples; some of them give their own loss.  The networks of tests/onnx/random drop
blocks by chance.  That of tests/onnx/frozen has batch-norms in evaluation mode, and that of tests/onnx/reused
has batch-norms that are used twice.
"""
import copy
import os
import sys

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn
from torch.nn import functional as F

COUNT, STEPS, CLASSES, PLACES = 8, 20, 3, 6
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "trained")
SEVERAL, RANDOM = (os.path.join(os.path.dirname(FOLDER), name) for name in ("several", "random"))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.n, self.q = nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 24)
        self.o, self.pos, self.h = nn.Linear(8, 8), nn.Parameter(torch.randn(1, 5, 8) * 0.1), nn.Linear(8, 3)

    def forward(self, x):
        x = self.a(x) + self.pos
        q, k, v = self.q(self.n(x)).reshape(-1, 5, 3, 2, 4).permute(2, 0, 3, 1, 4)
        w = (q @ k.transpose(-1, -2) / 2).softmax(-1)
        x = x + self.o((w @ v).transpose(1, 2).reshape(-1, 5, 8))
        return self.h(F.gelu(x).mean(1))


class Joined(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.n = nn.Conv2d(2, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.b, self.g = nn.Conv2d(2, 3, (3, 2), padding=(1, 1)), nn.Parameter(torch.rand(7, 1, 1))
        self.h = nn.Linear(28, 3)

    def forward(self, x):
        a, b = torch.relu(self.n(self.a(x))), F.leaky_relu(self.b(x)[..., :-1], 0.2)
        y = F.max_pool2d(F.interpolate(torch.cat([a, b], 1) * self.g, scale_factor=2), 4)
        return self.h((y - y.amax((2, 3), keepdim=True) * 0.1).flatten(1))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.l, self.h = nn.Linear(6, 6, bias=False), nn.Linear(6, 3)

    def forward(self, x):
        return self.h(torch.tanh(self.l(torch.tanh(self.l(x)))))


class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.e, self.h = nn.Embedding(20, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.h(self.e(x).mean(1))


class Encoder(nn.Module):
    """BERT with padding masks, as arguments, as addends and as factors: id 0 is padding.  Token, position and type
    embeddings; the first token and the mean of all classify."""

    def __init__(self):
        super().__init__()
        self.word, self.place, self.kind = nn.Embedding(17, 8), nn.Embedding(6, 8), nn.Embedding(2, 8)
        self.norm, self.h, self.q = nn.LayerNorm(8), nn.Linear(8, 3), nn.Parameter(torch.randn(8, 1))
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, activation="gelu", batch_first=True)

    def forward(self, x):
        place = torch.arange(x.shape[1], device=x.device)
        y = self.norm(self.word(x) + self.place(place) + self.kind(torch.zeros_like(x)))
        y = self.layer(y, src_key_padding_mask=x == 0)
        mask = (x != 0).float()
        scores = (y @ self.q).transpose(1, 2) + (1 - mask)[:, None, :] * torch.finfo(torch.float32).min
        mean = (y * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)
        return self.h(torch.tanh(y[:, 0] + mean) + (scores.softmax(-1) @ y)[:, 0])


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.n1, self.n2, self.heads = nn.LayerNorm(width), nn.LayerNorm(width), heads
        self.q, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        n, t, w = x.shape
        q, k, v = (a.view(n, t, self.heads, w // self.heads).transpose(1, 2)
                   for a in self.q(self.n1(x)).split(w, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(n, t, w))
        return x + self.down(F.gelu(self.up(self.n2(x)), approximate="tanh"))


class Gpt(nn.Module):
    """Two blocks, learned positions, and a head that is the table of the tokens."""

    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(11, 8), nn.Embedding(6, 8)
        self.blocks, self.norm = nn.ModuleList([Block(8, 2), Block(8, 2)]), nn.LayerNorm(8)
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, x):
        y = self.wte(x) + self.wpe(torch.arange(x.shape[1], device=x.device))
        for block in self.blocks:
            y = block(y)
        return self.head(self.norm(y))


class Unet(nn.Module):
    """Two steps down and up; transposed convolutions with and without rows that no window reaches."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.m = self.layer(2, 4), self.layer(4, 6), self.layer(6, 8)
        self.u, self.d = nn.ConvTranspose2d(8, 6, 2, 2), self.layer(12, 6)
        self.v = nn.ConvTranspose2d(6, 4, 3, 2, padding=1, output_padding=1, groups=2)
        self.e, self.h = self.layer(8, 4), nn.Linear(4, 3)

    @staticmethod
    def layer(before, after):
        return nn.Sequential(nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU())

    def forward(self, x):
        a = self.a(x)
        b = self.b(F.max_pool2d(a, 2))
        m = self.m(F.max_pool2d(b, 2))
        d = self.d(torch.cat([self.u(m), b], 1))
        return self.h(self.e(torch.cat([self.v(d), a], 1)).mean((2, 3)))


class Norms(nn.Module):
    """Group-, instance- and RMS-norm, and an average that leaves the padding out."""

    def __init__(self):
        super().__init__()
        self.a, self.g = nn.Conv2d(2, 8, 3, padding=1), nn.GroupNorm(4, 8)
        self.i, self.j = nn.InstanceNorm2d(8, affine=True), nn.InstanceNorm2d(8)
        self.r, self.h = nn.Parameter(torch.rand(8) + 0.5), nn.Linear(8, 3)

    def forward(self, x):
        x = self.i(torch.relu(self.g(self.a(x))))
        counted, left_out = (F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=c) for c in (True, False))
        x = self.j(left_out + counted)
        x = x.amax((2, 3))
        return self.h(x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * self.r)


class Capsules(nn.Module):
    """Routing by agreement; the transformations are a parameter with five axes."""

    def __init__(self):
        super().__init__()
        self.c, self.t = nn.Conv2d(2, 8, 2, 2), nn.Parameter(torch.randn(1, 3, 8, 6, 4) * 0.3)

    @staticmethod
    def squash(x):
        n = (x * x).sum(-1, keepdim=True)
        return x * n / (1 + n) / torch.sqrt(n + 1e-8)

    def forward(self, x):
        u = self.squash(self.c(x).reshape(-1, 2, 4, 2, 2).permute(0, 1, 3, 4, 2).reshape(-1, 8, 4))
        votes = (self.t @ u[:, None, :, :, None])[..., 0]
        b = votes.sum(-1, keepdim=True) * 0
        for step in range(3):
            v = self.squash((torch.softmax(b, 1) * votes).sum(2, keepdim=True))
            b = b + (votes * v).sum(-1, keepdim=True) if step < 2 else b
        return (v[:, :, 0] ** 2).sum(-1).sqrt() * 4


class Masked(nn.Module):
    """Ids with a padding mask as a second input and kinds, whose table is smaller, as a third: integers, bool."""

    def __init__(self):
        super().__init__()
        self.word, self.kind, self.norm = nn.Embedding(17, 8), nn.Embedding(2, 8), nn.LayerNorm(8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, activation="gelu", batch_first=True)
        self.h = nn.Linear(8, 3)

    def forward(self, ids, mask, kinds):
        y = self.layer(self.norm(self.word(ids) + self.kind(kinds)), src_key_padding_mask=mask == 0)
        m = mask.float().unsqueeze(-1)
        return self.h((y * m).sum(1) / m.sum(1))


class Paired(nn.Module):
    """An image and a vector."""

    def __init__(self):
        super().__init__()
        self.c, self.n, self.l = nn.Conv2d(2, 6, 3, padding=1), nn.BatchNorm2d(6), nn.Linear(5, 6)
        self.h = nn.Linear(12, 3)

    def forward(self, image, vector):
        x = torch.relu(self.n(self.c(image)))
        return self.h(torch.cat([x.mean((2, 3)), torch.tanh(self.l(vector))], 1))


class Tagged(nn.Module):
    """Ids, real numbers and a mask of bool."""

    def __init__(self):
        super().__init__()
        self.e, self.l, self.h = nn.Embedding(11, 8), nn.Linear(3, 8), nn.Linear(8, 3)

    def forward(self, ids, numbers, keep):
        y = torch.where(keep.unsqueeze(-1), self.e(ids), torch.zeros(())).sum(1)
        return self.h(torch.tanh(y + self.l(numbers)))


class Lstm(nn.Module):
    """Two layers in both directions over embeddings; all outputs and the last states classify."""

    def __init__(self):
        super().__init__()
        self.e, self.h = nn.Embedding(13, 5), nn.Linear(8, 3)
        self.r = nn.LSTM(5, 4, 2, batch_first=True, bidirectional=True)

    def forward(self, x):
        y, (h, c) = self.r(self.e(x))
        return self.h(y.mean(1) + torch.cat([h[-2], h[-1]], 1) + 0.5 * torch.cat([c[0], c[3]], 1))


class Gru(nn.Module):
    """Time is the first axis; the initial state is computed."""

    def __init__(self):
        super().__init__()
        self.a, self.r, self.h = nn.Linear(4, 6), nn.GRU(4, 6, batch_first=False), nn.Linear(6, 3)

    def forward(self, x):
        y, h = self.r(x.transpose(0, 1), torch.tanh(self.a(x[:, 0]))[None])
        return self.h(y[2] + h[0])


class Rnn(nn.Module):
    """Without biases, in both directions; then rectified, with an initial state that is trained."""

    def __init__(self):
        super().__init__()
        self.a = nn.RNN(4, 5, bias=False, batch_first=True, bidirectional=True)
        self.b = nn.RNN(10, 6, batch_first=True, nonlinearity="relu")
        self.s, self.h = nn.Parameter(torch.randn(1, 1, 6) * 0.3), nn.Linear(6, 3)

    def forward(self, x):
        y = self.b(self.a(x)[0], self.s.expand(1, x.shape[0], 6).contiguous())[0]
        return self.h(y[:, -1])


class MixerBlock(nn.Module):
    def __init__(self, places, width):
        super().__init__()
        self.n, self.m = nn.LayerNorm(width), nn.LayerNorm(width)
        self.a, self.b = nn.Linear(places, 6), nn.Linear(6, places)
        self.c, self.d = nn.Linear(width, 12), nn.Linear(12, width)

    def forward(self, x):
        x = x + self.b(F.gelu(self.a(self.n(x).transpose(1, 2)))).transpose(1, 2)
        return x + self.d(F.gelu(self.c(self.m(x))))


class Mixer(nn.Module):
    """Two blocks that mix the places of patches, and their channels."""

    def __init__(self):
        super().__init__()
        self.e, self.n, self.h = nn.Conv2d(2, 8, 2, 2), nn.LayerNorm(8), nn.Linear(8, 3)
        self.b = nn.Sequential(MixerBlock(16, 8), MixerBlock(16, 8))

    def forward(self, x):
        return self.h(self.n(self.b(self.e(x).flatten(2).transpose(1, 2))).mean(1))


class ConvNextBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.d, self.n = nn.Conv2d(width, width, 3, padding=1, groups=width), nn.LayerNorm(width)
        self.a, self.b = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.scale = nn.Parameter(torch.full((width, 1, 1), 0.5))

    def forward(self, x):
        y = self.b(F.gelu(self.a(self.n(self.d(x).permute(0, 2, 3, 1))))).permute(0, 3, 1, 2)
        return x + self.scale * y


class ConvNext(nn.Module):
    def __init__(self):
        super().__init__()
        self.e, self.n, self.h = nn.Conv2d(2, 8, 2, 2), nn.LayerNorm(8), nn.Linear(8, 3)
        self.b = nn.Sequential(ConvNextBlock(8), ConvNextBlock(8))

    def forward(self, x):
        return self.h(self.n(self.b(self.e(x)).mean((2, 3))))


class Dense(nn.Module):
    """Two blocks whose layers take all that is before them."""

    def __init__(self):
        super().__init__()
        self.e, self.h = nn.Conv2d(2, 4, 3, padding=1, bias=False), nn.Linear(8, 3)
        self.a, self.b = nn.ModuleList(self.layer(4 + 2 * i, 2) for i in range(2)), nn.ModuleList(
            self.layer(4 + 2 * i, 2) for i in range(2))
        self.t, self.n = self.layer(8, 4, 1), nn.BatchNorm2d(8)

    @staticmethod
    def layer(before, after, kernel=3):
        return nn.Sequential(nn.BatchNorm2d(before), nn.ReLU(),
                             nn.Conv2d(before, after, kernel, padding=kernel // 2, bias=False))

    def forward(self, x):
        x = self.e(x)
        for layer in self.a:
            x = torch.cat([x, layer(x)], 1)
        x = F.avg_pool2d(self.t(x), 2)
        for layer in self.b:
            x = torch.cat([x, layer(x)], 1)
        return self.h(torch.relu(self.n(x)).mean((2, 3)))


class Squeeze(nn.Module):
    """The block of RegNet and EfficientNet: depthwise or grouped, with squeeze and excitation."""

    def __init__(self, width, wide, groups, activation):
        super().__init__()
        self.a, self.n = nn.Conv2d(width, wide, 1, bias=False), nn.BatchNorm2d(wide)
        self.d, self.m = nn.Conv2d(wide, wide, 3, padding=1, groups=groups, bias=False), nn.BatchNorm2d(wide)
        self.s, self.r = nn.Conv2d(wide, 2, 1), nn.Conv2d(2, wide, 1)
        self.p, self.o, self.f = nn.Conv2d(wide, width, 1, bias=False), nn.BatchNorm2d(width), activation

    def forward(self, x):
        y = self.f(self.m(self.d(self.f(self.n(self.a(x))))))
        y = y * torch.sigmoid(self.r(self.f(self.s(F.adaptive_avg_pool2d(y, 1)))))
        return x + self.o(self.p(y))


def squeezed(*block):
    return nn.Sequential(nn.Conv2d(2, 6, 3, 2, 1, bias=False), nn.BatchNorm2d(6), nn.SiLU(), Squeeze(6, *block),
                         Squeeze(6, *block), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 3))


class Fire(nn.Module):
    def __init__(self, before, inner):
        super().__init__()
        self.s, self.a = nn.Conv2d(before, inner, 1), nn.Conv2d(inner, 4, 1)
        self.b = nn.Conv2d(inner, 4, 3, padding=1)

    def forward(self, x):
        x = torch.relu(self.s(x))
        return torch.cat([torch.relu(self.a(x)), torch.relu(self.b(x))], 1)


def squeezenet():
    return nn.Sequential(nn.Conv2d(2, 6, 3), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True), Fire(6, 3), Fire(8, 3),
                         nn.Conv2d(8, 3, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten())


def vgg():
    return nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(4, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2),
                         nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(24, 8), nn.ReLU(), nn.Linear(8, 3))


class Vit(nn.Module):
    def __init__(self):
        super().__init__()
        self.e, self.n, self.h = nn.Conv2d(2, 8, 4, 4), nn.LayerNorm(8), nn.Linear(8, 3)
        self.token, self.place = nn.Parameter(torch.randn(1, 1, 8)), nn.Parameter(torch.randn(1, 5, 8) * 0.1)
        self.b = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, activation="gelu", batch_first=True,
                                            norm_first=True)

    def forward(self, x):
        x = self.e(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.place
        return self.h(self.n(self.b(x))[:, 0])


def pixels():
    return nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 3, 1))


class Composed(nn.Module):
    """Pixels between channels and plane, sums along an axis, products with zeros, and Einsum as attention takes it."""

    def __init__(self):
        super().__init__()
        self.a, self.q, self.h = nn.Conv2d(8, 16, 1), nn.Linear(4, 24), nn.Linear(8, 3)
        self.o = nn.Parameter(torch.randn(2, 4, 8) * 0.3)

    def forward(self, x):
        x = F.pixel_shuffle(torch.relu(self.a(F.pixel_unshuffle(x, 2))), 2)  # (N, 4, 4, 4)
        x = torch.cumsum(x, 3) * 0.5 + torch.prod(x * 2, 2, keepdim=True)
        q, k, v = self.q(x.flatten(2).transpose(1, 2)).view(-1, 16, 3, 2, 4).unbind(2)
        w = torch.softmax(torch.einsum("bqhd,bkhd->bhqk", q, k) * 0.5, -1)
        y = torch.einsum("bhqk,bkhd->bqhd", w, v)
        return self.h(torch.tanh(torch.einsum("bqhd,hde->bqe", y, self.o)).mean(1))


class Chosen(nn.Module):
    """The best places of a sequence: TopK, GatherElements, ScatterElements, ArgMax with OneHot, Trilu, and a codebook
    whose nearest row (ArgMin) is taken."""

    def __init__(self):
        super().__init__()
        self.a, self.s = nn.Linear(4, 8), nn.Linear(8, 1, bias=False)
        self.o, self.h = nn.Linear(8, 8), nn.Linear(8, 3)
        self.rows = nn.Parameter(torch.randn(7, 8) * 0.5)

    def forward(self, x):
        t = torch.tanh(self.a(x))
        mix = torch.tril(torch.softmax(t @ t.transpose(1, 2), -1))
        t = t + mix @ self.o(t)
        score = self.s(t).squeeze(-1)
        best, at = torch.topk(score, 3, dim=1)
        taken = torch.gather(t, 1, at.unsqueeze(-1).expand(-1, -1, 8))
        weights = torch.softmax(best, 1)
        y = (taken * weights.unsqueeze(-1)).sum(1)
        spread = torch.zeros_like(score).scatter(1, at, weights)
        spread = spread + 0.3 * score.scatter_add(1, torch.fmod(at + 1, 5), best)
        spread = spread * (1 + 0.5 * F.one_hot(score.argmax(1), 5).float())
        y = y + (t * spread.unsqueeze(-1)).sum(1)
        near = (y.unsqueeze(1) - self.rows).pow(2).sum(-1).argmin(1)
        return self.h(torch.tanh(y + self.rows[near]))


class Written(nn.Module):
    """Parts of a value that are written: a row, a range of columns, single elements to which something is added."""

    def __init__(self):
        super().__init__()
        self.a, self.h = nn.Linear(4, 6), nn.Linear(30, 3)
        self.row, self.part = nn.Parameter(torch.randn(6)), nn.Linear(6, 2)

    def forward(self, x):
        y = torch.tanh(self.a(x))
        z = y.clone()
        z[:, 1] = y[:, 3] * self.row
        z[:, :, 2:4] = self.part(y)
        z = z.index_add(1, torch.tensor([4, 2, 0]), y[:, 2:5])
        return self.h(z.flatten(1))


class Embedded(nn.Module):
    """Tables and weights that are used as they are and transposed, in formulas, and as rows."""

    def __init__(self):
        super().__init__()
        self.e, self.l, self.w = nn.Embedding(11, 8), nn.Linear(8, 8), nn.Parameter(torch.randn(8, 6) * 0.4)

    def forward(self, x):
        y = torch.tanh(self.l(self.e(x)))
        y = y + torch.tanh(y @ self.w) @ self.w.T + 0.1 * (self.w * self.w).sum(1)
        return y @ self.e.weight.T + y @ self.l.weight @ self.e.weight[:8].T.contiguous().sum(1, keepdim=True)


class Learned(nn.Module):
    """Layers over values that are the same for all samples, of parameters and of numbers: positions that a convolution
    makes of sines, a learned image and learned queries.  Rows of a sample are the batch of a batch-norm."""

    def __init__(self):
        super().__init__()
        self.image, self.queries = nn.Parameter(torch.randn(1, 4, 6, 6)), nn.Parameter(torch.randn(1, 5, 4))
        self.positions, self.a, self.d = nn.Conv2d(8, 4, 1), nn.Conv2d(4, 6, 3), nn.Conv2d(6, 6, 3, padding=1, groups=6)
        self.t, self.b, self.c = nn.ConvTranspose2d(6, 4, 2, 2), nn.BatchNorm2d(4), nn.Conv1d(4, 4, 2)
        self.rows, self.again, self.l = nn.BatchNorm1d(4), nn.BatchNorm1d(4), nn.LSTM(4, 4, batch_first=True)
        self.h = nn.Linear(16, 3)

    def forward(self, x):
        angles = torch.arange(1.0, 21.0)[:, None] / 2.0 ** torch.arange(4)
        table = torch.stack([angles.sin(), angles.cos()], 2).flatten(1).T.reshape(1, 8, 5, 4)
        places = self.positions(table).mean(3).repeat(x.shape[0], 1, 1).transpose(1, 2)
        y = F.gelu(self.d(torch.relu(self.a(self.image))))
        y = torch.cat([F.max_pool2d(y, 2).flatten(2), F.avg_pool2d(self.b(self.t(y))[:, :2], 4).flatten(2).repeat(1, 3, 1)], 2)
        z = torch.sigmoid(self.c(self.queries.transpose(1, 2))).transpose(1, 2)
        z = torch.cat([self.rows(z.reshape(4, 4)).reshape(1, 4, 4), self.l(self.queries)[0]], 1)
        x = self.again((x + places).reshape(-1, 4)).reshape(-1, 5, 4)
        x = torch.cat([torch.tanh(x).mean(1), (x @ z.transpose(1, 2)).mean(1), (x * y.mean()).amax(1)], 1)
        return self.h(x[:, :16])


class Swin(nn.Module):
    """Two blocks of attention in windows, the second of which are shifted; the masks are computed in `forward`."""

    def __init__(self):
        super().__init__()
        self.e, self.n, self.h = nn.Conv2d(2, 8, 2, 2), nn.LayerNorm(8), nn.Linear(8, 3)
        self.b = nn.Sequential(Window(8, 2, False), Window(8, 2, True))

    def forward(self, x):
        return self.h(self.n(self.b(self.e(x).permute(0, 2, 3, 1))).flatten(1, 2).mean(1))


class Window(nn.Module):
    """Attention in windows of 2x2 of an image of 4x4, with biases of relative positions."""

    def __init__(self, width, heads, shifted):
        super().__init__()
        self.heads, self.shifted, self.n, self.m = heads, shifted, nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.table = nn.Parameter(torch.randn(9, heads) * 0.2)
        at = torch.stack(torch.meshgrid(torch.arange(2), torch.arange(2), indexing="ij")).flatten(1)
        between = at[:, :, None] - at[:, None, :] + 1
        self.register_buffer("place", (between[0] * 3 + between[1]).flatten())

    @staticmethod
    def windows(x):
        """(N, 4, 4, width) as (N * 4 windows, 4 places, width)."""
        n, _, _, width = x.shape
        return x.view(n, 2, 2, 2, 2, width).permute(0, 1, 3, 2, 4, 5).reshape(n * 4, 4, width)

    def mask(self, x):
        region = x.new_zeros((4, 4))
        for i, rows in enumerate((slice(0, -2), slice(-2, -1), slice(-1, None))):
            for j, columns in enumerate((slice(0, -2), slice(-2, -1), slice(-1, None))):
                region[rows, columns] = 3 * i + j
        region = region.view(2, 2, 2, 2).permute(0, 2, 1, 3).reshape(4, 4)
        region = region.unsqueeze(1) - region.unsqueeze(2)
        return region.masked_fill(region != 0, -100.0).masked_fill(region == 0, 0.0)

    def attend(self, x):
        n, width = x.shape[0], x.shape[3]
        y = self.windows(torch.roll(x, (-1, -1), (1, 2)) if self.shifted else x)
        q, k, v = self.q(y).reshape(n * 4, 4, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) * 0.5 + self.table[self.place].view(4, 4, -1).permute(2, 0, 1)
        if self.shifted:
            scores = scores.view(n, 4, self.heads, 4, 4) + self.mask(x)[None, :, None]
            scores = scores.view(-1, self.heads, 4, 4)
        y = self.o((scores.softmax(-1) @ v).transpose(1, 2).reshape(n * 4, 4, width))
        y = y.view(n, 2, 2, 2, 2, width).permute(0, 1, 3, 2, 4, 5).reshape(n, 4, 4, width)
        return torch.roll(y, (1, 1), (1, 2)) if self.shifted else y

    def forward(self, x):
        x = x + self.attend(self.n(x))
        return x + self.down(F.gelu(self.up(self.m(x))))


class Depth(nn.Module):
    """Two blocks with stochastic depth, and pixels that are picked by two lists (GatherND).  With the default
    probability nothing is dropped in 20 steps, so that the losses are those of PyTorch."""

    def __init__(self, drop=1e-7):
        super().__init__()
        self.keep = 1 - drop
        self.e, self.n, self.h = nn.Conv2d(2, 8, 2, 2), nn.LayerNorm(8), nn.Linear(8, 3)
        self.b = nn.ModuleList([ConvNextBlock(8), ConvNextBlock(8)])
        self.register_buffer("rows", torch.tensor([0, 1, 3, 2, 2]))
        self.register_buffer("columns", torch.tensor([1, 1, 0, 2, 3]))

    def forward(self, x):
        x = self.e(x)
        for block in self.b:
            x = x + (block(x) - x) * self.choices(x).div_(self.keep)
        return self.h(self.n(x[:, :, self.rows, self.columns].mean(2)))

    def choices(self, x):
        return torch.empty((x.shape[0], 1, 1, 1), dtype=x.dtype, device=x.device).bernoulli_(self.keep)


class FlooredDepth(Depth):
    """The same, with choices as SegFormer makes them."""

    def choices(self, x):
        return (self.keep + torch.rand((x.shape[0], 1, 1, 1), dtype=x.dtype, device=x.device)).floor()


class Strided(nn.Module):
    """The default exporter writes the pooling of an image whose channels are last as a strided view (Range)."""

    def __init__(self):
        super().__init__()
        self.e, self.n, self.h = nn.Conv2d(2, 8, 2, 2), nn.LayerNorm(8), nn.Linear(8, 3)

    def forward(self, x):
        x = self.n(torch.tanh(self.e(x)).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return self.h(F.adaptive_avg_pool2d(x * x, 1).flatten(1))


class Dilated(nn.Module):
    """Maximum pooling with gaps."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.h = nn.Conv2d(2, 6, 3, padding=1), nn.Conv2d(6, 8, 3), nn.Linear(32, 3)

    def forward(self, x):
        x = F.max_pool2d(torch.relu(self.a(x)), 3, 1, padding=1, dilation=2)  # 6x6
        x = F.max_pool2d(torch.tanh(self.b(x)), 2, 2, dilation=(1, 2), ceil_mode=True)
        return self.h(x.flatten(1))


class Bilinear(nn.Module):
    """A U-Net that is enlarged by linear interpolation, with both kinds of coordinates, and to a size."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.m = Unet.layer(2, 4), Unet.layer(4, 6), Unet.layer(6, 8)
        self.d, self.e, self.h = Unet.layer(14, 6), Unet.layer(10, 4), nn.Conv2d(4, 3, 1)

    def forward(self, x):
        a = self.a(x)
        b = self.b(F.max_pool2d(a, 2))
        m = self.m(F.max_pool2d(b, 2))
        d = self.d(torch.cat([F.interpolate(m, scale_factor=2, mode="bilinear", align_corners=True), b], 1))
        e = self.e(torch.cat([F.interpolate(d, scale_factor=2, mode="bilinear", align_corners=False), a], 1))
        y = F.interpolate(self.h(e), size=(6, 5), mode="bilinear")
        return y.amax((2, 3)) + y.mean((2, 3))


class Merged(nn.Module):
    """Layers that begin with equal scales, shifts and weights: the default exporter merges them without optimize=False,
    and the older exporter outside training mode.  One norm is used twice, a head is tied, and there are buffers."""

    def __init__(self):
        super().__init__()
        self.e = nn.Linear(4, 8)
        self.same = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), 2,
                                          enable_nested_tensor=False)
        self.other = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.n, self.twice, self.h = nn.LayerNorm(8), nn.LayerNorm(8), nn.Linear(8, 3)
        self.c, self.g, self.k = nn.Conv1d(5, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.GroupNorm(4, 4)
        self.p, self.scale = nn.PReLU(4), nn.Parameter(torch.ones(8))
        self.register_buffer("place", torch.randn(1, 5, 8))
        self.register_buffer("ones", torch.ones(8))
        nn.init.zeros_(self.e.bias)

    def forward(self, x):
        x = self.other(self.same(self.e(x) + self.place)) * self.ones
        x = self.twice(torch.tanh(self.twice(x))) * self.scale
        x = self.p(self.k(torch.tanh(self.g(self.c(x)))))
        return self.h(self.n(x).mean(1))


class Volume(nn.Module):
    """Windows over depth, height and width, also grouped, dilated, with strides and transposed."""

    def __init__(self):
        super().__init__()
        self.a, self.n = nn.Conv3d(2, 4, (2, 3, 3), padding=(0, 1, 1)), nn.BatchNorm3d(4)
        self.b = nn.Conv3d(4, 6, 3, (1, 2, 1), padding=1, dilation=(1, 1, 2), groups=2)
        self.u = nn.ConvTranspose3d(6, 4, (2, 3, 2), (2, 2, 1), padding=(0, 1, 0), output_padding=(0, 1, 0))
        self.h = nn.Linear(8, 3)

    def forward(self, x):
        x = torch.tanh(self.n(self.a(x)))
        x = F.max_pool3d(x, 2, 1, padding=(1, 0, 1)) + F.avg_pool3d(x, 2, 1, padding=(1, 0, 1), count_include_pad=False)
        x = torch.tanh(self.u(torch.tanh(self.b(x))))
        return self.h(torch.cat([x.mean((2, 3, 4)), F.adaptive_max_pool3d(x, 1).flatten(1)], 1))


class Padded(nn.Module):
    """Pads of all modes, also negative ones, an enlarged line, a power mean, and products with factors."""

    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(2, 4, 3, padding=1, padding_mode="reflect")
        self.b = nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular")
        self.c = nn.Conv2d(4, 4, 3, padding=1, padding_mode="replicate")
        self.t, self.u = nn.ConvTranspose1d(4, 6, 3, 2, padding=1, output_padding=1), nn.Parameter(torch.randn(6) * 0.3)
        self.w, self.h = nn.Parameter(torch.randn(6, 5) * 0.5), nn.Linear(5, 3)
        self.v = nn.Parameter(torch.randn(5) * 0.3)

    def forward(self, x):
        x = torch.tanh(self.b(torch.tanh(self.a(x))))
        x = F.pad(self.c(x), (-1, 2, 1, -2), value=0.5)
        x = torch.tanh(self.t(F.avg_pool2d(x * x, (2, 1)).sqrt().amax(2))).mean(2) + self.u
        return self.h(torch.tanh(torch.addmm(self.v, x, self.w, beta=0.5, alpha=1.5)))


class Attending(nn.Module):
    """Attention as one operator, which the default exporter writes from opset 23 on: causal, and with masks of both
    kinds."""

    def __init__(self):
        super().__init__()
        self.e, self.n, self.q, self.h = nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 24), nn.Linear(8, 3)
        self.bias = nn.Parameter(torch.randn(2, 5, 5) * 0.3)

    def forward(self, x):
        y = self.e(x)
        near = torch.ones(5, 5).tril(1).bool()
        for step in range(3):
            q, k, v = (a.view(-1, 5, 2, 4).transpose(1, 2) for a in self.q(self.n(y)).split(8, 2))
            mask = None if step == 0 else near if step == 1 else self.bias
            z = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=step == 0, scale=0.4)
            y = y + z.transpose(1, 2).reshape(-1, 5, 8)
        return self.h(torch.tanh(y).mean(1))


class Coded(nn.Module):
    """Tensors that are no parameters: `forward` makes them of numbers, they are plain attributes, or buffers.  They
    stand where parameters stand, too: the weight of a product, a bias, the scale and shift of a norm."""

    def __init__(self):
        super().__init__()
        self.a, self.n, self.h = nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 3)
        self.register_buffer("place", torch.randn(1, 5, 8))
        self.register_buffer("ones", torch.ones(8))
        self.place_plain = torch.randn(8)

    def forward(self, x):
        y = self.a(x) * torch.tensor([1, 2, 0.5, 1.5, 1, -1, 0.5, 2]) + self.place
        y = torch.tanh(y @ torch.tensor([[0.5 - (i * k) % 7 / 6 for i in range(8)] for k in range(8)]))
        y = y + torch.tensor([0.1 * i for i in range(8)]) * self.ones + self.place_plain
        y = F.layer_norm(self.n(y), (8,), torch.tensor([0.2 * i for i in range(8)]), self.place_plain * 2)
        return self.h(torch.tanh(y * torch.tensor(0.7) + torch.tensor([0.3])).mean(1) * torch.tensor([1.0] * 8))


class Frames(nn.Module):
    """Three images a sample, folded into the batch: convolutions of both kinds, over rows too, batch-norms, pooling,
    norms of groups, a resize, and paddings that differ between two sides.  A GRU walks over the images."""

    def __init__(self):
        super().__init__()
        self.a, self.n = nn.Conv2d(2, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6)
        self.b, self.g = nn.Conv2d(6, 6, 3, stride=2, padding=1, groups=2), nn.GroupNorm(2, 6)
        self.u = nn.ConvTranspose2d(6, 4, 3, stride=2, padding=1, output_padding=1)
        self.cut = nn.ConvTranspose2d(4, 4, 2, stride=3, padding=1)
        self.line, self.m = nn.Conv1d(6, 4, 3, padding=1), nn.BatchNorm1d(4)
        self.w, self.h = nn.GRU(8, 5, batch_first=True), nn.Linear(5, 3)

    def forward(self, x):
        x = x.reshape(-1, 2, 6, 6)
        y = torch.relu(self.n(self.a(x)))
        y = self.g(self.b(F.pad(y, (0, 1, 1, 0))))
        rows = F.max_pool1d(torch.relu(self.m(self.line(y.flatten(2)))), 2, stride=1)
        y = F.avg_pool2d(self.u(y), 3, stride=2, padding=1, ceil_mode=True, count_include_pad=False)
        y = F.max_pool2d(self.cut(F.interpolate(y, scale_factor=2)), 3, stride=2, ceil_mode=True)
        y = torch.cat([y.mean((2, 3)), rows.amax(2)], 1).view(-1, 3, 8)
        return self.h(self.w(y)[0][:, -1])


class Sentences(nn.Module):
    """Three sequences a sample, folded into the batch, for an LSTM of both directions, a GRU that begins with a state
    of each sequence, and an RNN whose places come first; then a batch-norm over the sequences of a sample."""

    def __init__(self):
        super().__init__()
        self.lstm, self.begin = nn.LSTM(4, 5, bidirectional=True, batch_first=True), nn.Linear(10, 4)
        self.gru, self.rnn = nn.GRU(10, 4, batch_first=True), nn.RNN(4, 6)
        self.n, self.h = nn.BatchNorm1d(11), nn.Linear(33, 3)

    def forward(self, x):
        y, (_, c) = self.lstm(x.reshape(-1, 3, 4))
        y, last = self.gru(y, torch.tanh(self.begin(y.mean(1))).unsqueeze(0))
        z = self.rnn(torch.cat([y, last.transpose(0, 1)], 1).transpose(0, 1))[0]
        y = self.n(torch.cat([c[1], z[-1] * z[0]], 1))
        return self.h(y.view(-1, 33))


class Twins(nn.Module):
    """Two images of a sample, which one encoder computes as one batch."""

    def __init__(self):
        super().__init__()
        self.a, self.n, self.h = nn.Conv2d(2, 6, 3, bias=False), nn.BatchNorm2d(6), nn.Linear(6, 3)

    def forward(self, x):
        y = torch.relu(self.n(self.a(torch.cat([x[:, :2], x[:, 2:]])))).mean((2, 3))
        return self.h((y[:x.shape[0]] - y[x.shape[0]:]).abs())


class Clips(nn.Module):
    """Two volumes a sample, folded into the batch."""

    def __init__(self):
        super().__init__()
        self.a, self.n = nn.Conv3d(2, 4, 3, padding=1, stride=(1, 2, 1)), nn.BatchNorm3d(4)
        self.u, self.h = nn.ConvTranspose3d(4, 2, 2, stride=2), nn.Linear(4, 3)

    def forward(self, x):
        y = F.max_pool3d(torch.relu(self.n(self.a(x.flatten(0, 1)))), (1, 2, 2), stride=1)
        return self.h(F.avg_pool3d(self.u(y), 2).mean((2, 3, 4)).view(-1, 4))


class Still(nn.Conv2d):
    """A convolution that stays in evaluation mode: spectral_norm then leaves its vectors as they are."""

    def train(self, mode=True):
        return super().train(False)


def spectral(conv):
    """spectral_norm whose vectors are plain attributes: the older exporter cannot tell buffers from parameters."""
    conv = nn.utils.spectral_norm(conv)
    for name in ("weight_u", "weight_v"):
        vector = getattr(conv, name)
        del conv._buffers[name]
        setattr(conv, name, vector)
    return conv.eval()


class Standard(nn.Conv2d):
    """Filters with the mean 0 and the variance 1, by the batch-norm of timm's ScaledStdConv2d, or by formulas."""

    def __init__(self, *args, formulas=False, **options):
        super().__init__(*args, **options)
        self.gain, self.formulas = nn.Parameter(torch.rand(self.out_channels, 1, 1, 1) + 0.5), formulas

    def forward(self, x):
        w = self.weight
        if self.formulas:
            w = (w - w.mean((1, 2, 3), keepdim=True)) / (w.var((1, 2, 3), keepdim=True) + 1e-4).sqrt() * self.gain
        else:
            w = F.batch_norm(w.reshape(1, self.out_channels, -1), None, None, (self.gain * 0.3).view(-1), training=True,
                             momentum=0.0, eps=1e-6).reshape_as(w)
        return F.conv2d(x, w, self.bias, self.stride, self.padding, self.dilation, self.groups)


class Computed(nn.Module):
    """Convolutions whose filters are computed from parameters."""

    def __init__(self):
        super().__init__()
        new, old = nn.utils.parametrizations.weight_norm, nn.utils.weight_norm
        self.a, self.b = old(nn.Conv2d(2, 4, 3, padding=1)), new(nn.Conv2d(4, 6, 3, 2, 1, groups=2, bias=False))
        self.s, self.t = spectral(Still(6, 6, 1)), old(nn.ConvTranspose2d(6, 4, 3, 2, 1, output_padding=1), dim=1)
        self.d = Standard(4, 4, 3, padding=2, dilation=2)
        self.m, self.l = Standard(4, 4, (1, 3), padding=(0, 1), formulas=True), old(nn.Conv1d(4, 5, 3, padding=1))
        self.scale, self.h = nn.Parameter(torch.rand(5)), new(nn.Linear(5, 3))

    def forward(self, x):
        x = torch.tanh(self.s(F.relu(self.b(F.relu(self.a(x))))))
        x = torch.tanh(self.d(torch.tanh(self.t(x))))
        x = torch.tanh(self.m(torch.tanh(self.m(x)))).mean(2)
        y = self.l(x)  # computes the filters
        y = y + F.conv1d(x, self.l.weight * 0.5, self.l.bias * self.scale, padding=1)
        return self.h(torch.tanh(y).mean(2))


class ComputedVolume(nn.Module):
    """The same over depth, height and width."""

    def __init__(self):
        super().__init__()
        norm = nn.utils.parametrizations.weight_norm
        self.a, self.b = norm(nn.Conv3d(2, 4, (2, 3, 3), padding=(0, 1, 1))), norm(nn.Conv3d(4, 4, 2, groups=2))
        self.t, self.h = norm(nn.ConvTranspose3d(4, 3, (2, 3, 2), (2, 1, 1))), nn.Linear(3, 3)

    def forward(self, x):
        return self.h(torch.tanh(self.t(torch.tanh(self.b(torch.tanh(self.a(x)))))).mean((2, 3, 4)))


class Blocks(nn.Module):
    """Blocks that are put into images: overlapping, side by side, and with gaps, strides and padding."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(2, 18, 3, padding=1), nn.Conv2d(2, 12, (2, 3), (2, 3)), nn.Conv2d(2, 12, (2, 3), (2, 1))
        self.over, self.beside = nn.Fold((6, 6), 3, padding=1), nn.Fold((6, 6), (2, 3), stride=(2, 3))
        self.apart, self.h = nn.Fold((6, 7), 2, dilation=(2, 1), padding=1, stride=2), nn.Linear(14, 3)

    def forward(self, x):
        y = self.over(self.a(x).flatten(2)), self.beside(self.b(x).flatten(2)), self.apart(self.c(x).flatten(2))
        y = [F.pad(torch.tanh(z), (0, 7 - z.shape[3])) for z in y]
        return self.h(torch.cat([torch.cat(y, 1).amax((2, 3)), torch.cat(y, 1).mean((2, 3))], 1))


class Pointed(nn.Module):
    """As transformers do it: a sample's mask is looked up by the number of the sample, and its last token that is no
    padding classifies."""

    def __init__(self):
        super().__init__()
        self.e, self.q, self.h = nn.Embedding(17, 8), nn.Linear(8, 24), nn.Linear(8, 3)

    def forward(self, x):
        n, t = x.shape
        own, keep, at = torch.arange(n), x != 0, torch.arange(t)
        mask = keep[own[:, None, None, None], at[None, None, None, :]] & (at[None, :] <= at[:, None])
        y = self.e(x)
        a, b, c = self.q(y).view(n, t, 3, 2, 4).permute(2, 0, 3, 1, 4)
        w = (a @ b.transpose(-1, -2) / 2).masked_fill(~mask, -1e9).softmax(-1)
        y = y + (w @ c).transpose(1, 2).reshape(n, t, 8)
        return self.h(y)[own, (at * keep.int()).argmax(-1)]


class Branches(nn.Module):
    """What the older exporter writes with branches (If)."""

    def __init__(self):
        super().__init__()
        self.a, self.h = nn.Conv2d(2, 6, 3, padding=1), nn.Linear(24, 3)

    def forward(self, x):
        y = F.local_response_norm(torch.relu(self.a(x)) * 3, 3, alpha=0.5)
        y = y.tile(1, 2, 1, 1)[:, 3:9].mean((2, 3), keepdim=True)
        return self.h(y.tile(2, 2).flatten(1))


class Summed(nn.Module):
    """Einsum of one, two and three operands, with letters that only one of them has."""

    def __init__(self):
        super().__init__()
        self.a, self.g, self.k = nn.Linear(4, 6), nn.Parameter(torch.randn(6, 3, 2)), nn.Parameter(torch.randn(5, 2))

    def forward(self, x):
        y = torch.tanh(self.a(x))
        z = torch.einsum("bti,ijk,tk->bij", y, self.g, self.k)
        w = torch.einsum("bti,btj->b", y, y)
        v = torch.einsum("bti,tk,bsk->bi", y, self.k, torch.einsum("bti->bit", y)[:, :5, :2])
        return torch.einsum("bij->bj", z) + v[:, :3] * 0.1 + w[:, None] * 0.01


class Reused(nn.Module):
    """Two batch-norms that are used twice, one without scale and shift."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (nn.Conv2d(i, 4, 3, padding=1) for i in (2, 2, 4))
        self.n, self.p = nn.BatchNorm2d(4, momentum=0.2), nn.BatchNorm2d(4, affine=False)
        self.h = nn.Linear(4, 3)

    def forward(self, x):
        y = torch.relu(self.n(self.a(x))) + self.n(self.b(x) + 1)
        return self.h(self.p(torch.relu(self.p(self.c(y))) * 1.5 + y).amax((2, 3)))


class Arcs(nn.Module):
    """Inverses of sine, cosine and tangent: of zeros, as behind a layer that begins with zeros, and of large numbers."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.h = nn.Linear(6, 8), nn.Linear(6, 8), nn.Linear(8, 3)
        nn.init.zeros_(self.a.weight)
        nn.init.zeros_(self.a.bias)

    def forward(self, x):
        z, y = self.a(x), self.b(x)
        zeros = torch.atan(z) + torch.asin(z / 2) - torch.acos(z / 2)
        return self.h(zeros + torch.atan(5 * y) + torch.asin(torch.tanh(y)))


def mlp():
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.BatchNorm1d(16), nn.Linear(16, 3))


KEPT = ("pkg.torch.export.ExportedProgram.graph_signature", "pkg.torch.onnx.fx_node",
        "pkg.onnxscript.optimizer.folded_from")


def export(model, inputs, path, older, merges=False, scalar=False, notes=False):
    """`inputs`: the example of each input by its name.  `merges`: so that the exporter merges equal tensors, with its
    notes about parameters.  `scalar`: the output has no batch.  `notes`: with the notes also if nothing is merged."""
    examples = tuple(inputs.values())
    if older:
        mode = torch.onnx.TrainingMode.EVAL if merges else torch.onnx.TrainingMode.TRAINING
        torch.onnx.export(model, examples, path, dynamo=False, training=mode,
                          do_constant_folding=False, input_names=list(inputs), output_names=["y"],
                          dynamic_axes={name: {0: "N"} for name in [*inputs, *(() if scalar else "y")]})
    else:
        batch = torch.export.Dim("N", min=2, max=4096)
        torch.onnx.export(model, examples, path, dynamo=True, optimize=merges, external_data=False,
                          opset_version=23 if type(model) is Attending else None,
                          dynamic_shapes=tuple({0: batch} for _ in examples))
    file = onnx.load(path)  # without where in the source a node comes from
    graph = file.graph
    for item in [file, graph, *graph.node, *graph.value_info, *graph.input, *graph.output, *graph.initializer,
                 *(node for function in file.functions for node in function.node)]:
        kept = [entry for entry in item.metadata_props if (merges or notes) and entry.key in KEPT]
        del item.metadata_props[:]
        item.metadata_props.extend(kept)
        item.doc_string = ""
    onnx.save(file, path)


def ids(vocabulary):
    """Ids of 8 samples; 0 fills up the shorter ones."""
    x = torch.randint(1, vocabulary, (COUNT, PLACES))
    for i in range(COUNT):
        x[i, PLACES - i % 4:] = 0
    return x


def train(model, *inputs):
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9), []
    for _ in range(STEPS):
        optimizer.zero_grad()
        y = model(*inputs)
        labels = torch.arange(COUNT) % CLASSES
        if y.dim() > 2:  # a label for each token or pixel, every fifth of which is ignored
            labels = torch.arange(y.numel() // y.shape[1 if y.dim() == 4 else 2])
            labels = torch.where(labels % 5 == 2, -100, labels % CLASSES)
            y = y.flatten(2).transpose(1, 2).flatten(0, 1) if y.dim() == 4 else y.flatten(0, 1)
        loss = y if y.dim() == 0 else F.cross_entropy(y, labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def write_several(name, model, inputs):
    """A network with several inputs: NAME.npz has the arrays and the labels, NAME.f32 the losses."""
    for way in ("default", "older"):
        export(model, inputs, os.path.join(SEVERAL, f"{name}_{way}.onnx"), way == "older")
    arrays = {key: value.numpy() for key, value in inputs.items()}
    with open(os.path.join(SEVERAL, f"{name}.npz"), "wb") as file:
        np.savez_compressed(file, **arrays, labels=np.arange(COUNT) % CLASSES)
    np.array(train(model, *inputs.values()), "<f4").tofile(os.path.join(SEVERAL, f"{name}.f32"))


def write_all_several():
    os.makedirs(SEVERAL, exist_ok=True)
    torch.manual_seed(4)
    words = ids(17)
    kinds = torch.randint(0, 2, (COUNT, PLACES))
    write_several("masked", Masked().train(), {"ids": words, "mask": (words != 0).long(), "kinds": kinds})
    write_several("paired", Paired().train(),
                  {"image": torch.randn(COUNT, 2, 4, 5), "vector": torch.randn(COUNT, 5)})
    words = ids(11)
    write_several("tagged", Tagged().train(), {"ids": words, "numbers": torch.randn(COUNT, 3), "keep": words != 0})


class Single(nn.Module):
    """Parameters of one element: the bias of a gate, the slope of a PReLU, and factors, with no axis and with one.
    Numbers of the code are among them, which are no parameters."""

    def __init__(self):
        super().__init__()
        self.a, self.slope, self.gate = nn.Linear(4, 8), nn.PReLU(), nn.Linear(8, 1)
        self.scale, self.power = nn.Parameter(torch.tensor(0.5)), nn.Parameter(torch.tensor([2.3]))
        self.top = nn.Parameter(torch.tensor(0.9))
        self.b, self.narrow, self.h = nn.Linear(8, 8), nn.Linear(8, 1), nn.Linear(8, 3)

    def forward(self, x):
        x = self.slope(self.a(x)) * 1.5 + torch.tensor(0.1)
        x = x * torch.sigmoid(self.gate(x)) + self.scale * torch.tanh(self.b(x))
        x = torch.minimum((x.abs() + 0.2) ** self.power, self.top) / 0.7
        x = (self.narrow(x).softmax(1) * x).sum(1)
        return self.h(x + F.relu(self.narrow(x)).clamp(-3.5, 4.5))


class Squares(nn.Module):
    """The loss is the output: a mean of squares, and a small mean of what the network gives."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(5, 8), nn.Linear(8, 3)

    def forward(self, x, target):
        y = self.b(torch.tanh(self.a(x)))
        return 2 * ((y - target) ** 2).mean() + y.abs().mean() / 10


class ClassLoss(nn.Module):
    """The cross-entropy of a label for each image, or for each pixel."""

    def __init__(self, each_pixel):
        super().__init__()
        self.a, self.b, self.each_pixel = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(4, CLASSES, 1), each_pixel

    def forward(self, x, target):
        y = self.b(torch.tanh(self.a(x)))
        return F.cross_entropy(y if self.each_pixel else y.mean((2, 3)), target)


class Penalised(nn.Module):
    """A loss with squares of weights that lie in memory in another order than in the file: filters, the weight behind
    a flattened image, and one that is not transposed."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.w = nn.Conv2d(2, 4, 3, padding=1), nn.Linear(80, 6), nn.Parameter(torch.randn(6, 3) * 0.5)

    def forward(self, x, target):
        y = torch.tanh(self.b(torch.tanh(self.a(x)).flatten(1))) @ self.w
        weights = (self.a.weight ** 2).sum(), (self.b.weight ** 2 * torch.linspace(0, 1, 80)).mean(), (self.w ** 4).sum()
        return ((y - target) ** 2).mean() + 0.05 * weights[0] + 0.5 * weights[1] + 0.02 * weights[2]


def write_losses():
    """Networks whose output is their loss.  The labels are an input."""
    torch.manual_seed(5)
    image = torch.randn(COUNT, 2, 4, 5)
    networks = {"squares": (Squares(), torch.randn(COUNT, 5), torch.randn(COUNT, 3)),
                "classes": (ClassLoss(False), image, torch.arange(COUNT) % CLASSES),
                "places": (ClassLoss(True), image, (torch.arange(COUNT * 20) * 7 % 5 % CLASSES).reshape(COUNT, 4, 5)),
                "penalised": (Penalised(), image, torch.linspace(-1, 1, 3 * COUNT).reshape(COUNT, 3))}
    for name, (model, x, target) in networks.items():
        inputs = {"x": x, "target": target}
        for way in ("default", "older"):
            export(model, inputs, os.path.join(SEVERAL, f"{name}_{way}.onnx"), way == "older", scalar=True)
        with open(os.path.join(SEVERAL, f"{name}.npz"), "wb") as file:
            np.savez_compressed(file, **{key: value.numpy() for key, value in inputs.items()})
        np.array(train(model, x, target), "<f4").tofile(os.path.join(SEVERAL, f"{name}.f32"))


def write_dropping():
    """The network "depth" with the same weights, which drops every second block by choices of both kinds."""
    os.makedirs(RANDOM, exist_ok=True)
    for name, kind in ("depth", Depth), ("floored_depth", FlooredDepth):
        torch.manual_seed(3)
        model = kind(0.5).train()
        for way in ("default", "older"):
            export(model, {"x": torch.randn(COUNT, 2, 8, 8)}, os.path.join(RANDOM, f"{name}_{way}.onnx"), way == "older")


def write_frozen():
    """The network "dense" with running statistics that are not 0 and 1, trained with all batch-norms in evaluation mode."""
    folder = os.path.join(os.path.dirname(FOLDER), "frozen")
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(3)
    model, x = Dense().train(), torch.randn(COUNT, 2, 8, 8)
    norms = [m for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
    for norm in norms:
        norm.running_mean.uniform_(-0.5, 0.5)
        norm.running_var.uniform_(0.5, 2)
    export(model, {"x": x}, os.path.join(folder, "dense.onnx"), False)
    for norm in norms:
        norm.eval()
    numbers = np.concatenate([x.numpy().transpose(0, 2, 3, 1).ravel(), np.array(train(model, x), "f")])
    numbers.astype("<f4").tofile(os.path.join(folder, "dense.f32"))


def write_reused():
    """The network Reused.  Behind the samples and the losses are the running statistics of both norms, and then the
    mean of the first one after one step.  The older exporter moves the statistics of its file, which are set back."""
    folder = os.path.join(os.path.dirname(FOLDER), "reused")
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(3)
    model, x = Reused().train(), torch.randn(COUNT, 2, 4, 4)
    for way in ("default", "older"):
        path = os.path.join(folder, f"reused_{way}.onnx")
        export(copy.deepcopy(model), {"x": x}, path, way == "older")
        file = onnx.load(path)
        for tensor in file.graph.initializer:
            if "running" in tensor.name:
                tensor.CopyFrom(numpy_helper.from_array(model.state_dict()[tensor.name].numpy(), tensor.name))
        onnx.save(file, path)
    first = copy.deepcopy(model)
    first(x)
    losses = train(model, x)
    statistics = [s for norm in (model.n, model.p) for s in (norm.running_mean, norm.running_var)]
    numbers = np.concatenate([x.numpy().transpose(0, 2, 3, 1).ravel(), np.array(losses, "f"),
                              *(s.numpy() for s in [*statistics, first.n.running_mean])])
    numbers.astype("<f4").tofile(os.path.join(folder, "reused.f32"))


def write_shared_norm():
    """Two batch-norms with one scale, which is no merge, because its elements differ."""
    names = ("scale", "shift1", "mean1", "variance1", "shift2", "mean2", "variance2", "w")
    tensors = [numpy_helper.from_array(np.linspace(0.5, 1.5, 4, dtype="f") + i, name) for i, name in enumerate(names)]
    nodes = [helper.make_node("BatchNormalization", ["x", "scale", *names[1:4]], ["a"]),
             helper.make_node("BatchNormalization", ["a", "scale", *names[4:7]], ["b"]),
             helper.make_node("Mul", ["b", "w"], ["y"])]
    ports = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 4])] for name in ("x", "y")]
    graph = helper.make_graph(nodes, "g", *ports, tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8),
              os.path.join(FOLDER, "shared_norm.onnx"))


def main():
    networks = {"mlp": (mlp, (6,)), "attention": (Attention, (5, 4)), "joined": (Joined, (2, 4, 4)),
                "tied": (Tied, (6,)), "bag": (Bag, 20), "bert": (Encoder, 17), "gpt": (Gpt, 11),
                "pixels": (pixels, (2, 3, 4)), "unet": (Unet, (2, 8, 8)), "norms": (Norms, (2, 6, 6)),
                "capsules": (Capsules, (2, 4, 4)), "lstm": (Lstm, 13), "gru": (Gru, (5, 4)), "rnn": (Rnn, (5, 4)),
                "mixer": (Mixer, (2, 8, 8)), "convnext": (ConvNext, (2, 8, 8)),
                "dense": (Dense, (2, 8, 8)),
                "regnet": (lambda: squeezed(8, 2, nn.ReLU()), (2, 8, 8)),
                "mbconv": (lambda: squeezed(12, 12, nn.SiLU()), (2, 8, 8)), "squeezenet": (squeezenet, (2, 9, 9)),
                "vgg": (vgg, (2, 8, 8)), "vit": (Vit, (2, 8, 8)), "composed": (Composed, (2, 4, 4)),
                "swin": (Swin, (2, 8, 8)), "bilinear": (Bilinear, (2, 8, 8)),
                "depth": (Depth, (2, 8, 8)), "strided": (Strided, (2, 8, 8)),
                "dilated": (Dilated, (2, 8, 8)), "merged": (Merged, (5, 4)),
                "chosen": (Chosen, (5, 4)), "written": (Written, (5, 4)), "volume": (Volume, (2, 4, 5, 4)),
                "padded": (Padded, (2, 6, 6)), "attending": (Attending, (5, 4)), "single": (Single, (5, 4)),
                "coded": (Coded, (5, 4)), "learned": (Learned, (5, 4)),
                "embedded": (Embedded, 11), "frames": (Frames, (3, 2, 6, 6)), "sentences": (Sentences, (3, 3, 4)),
                "clips": (Clips, (2, 2, 3, 4, 3)), "twins": (Twins, (4, 5, 5)), "computed": (Computed, (2, 8, 8)),
                "computed_volume": (ComputedVolume, (2, 4, 5, 4)), "blocks": (Blocks, (2, 6, 6)),
                "pointed": (Pointed, 17),
                "branches": (Branches, (2, 4, 4)), "summed": (Summed, (5, 4)), "arcs": (Arcs, (6,))}
    os.makedirs(FOLDER, exist_ok=True)
    chosen = sys.argv[1:]
    for name, (make, shape) in networks.items():
        if chosen and name not in chosen:
            continue
        torch.manual_seed(3)
        model = make().train()
        x = ids(shape) if isinstance(shape, int) else torch.randn(COUNT, *shape)
        for way in ("default", "older"):
            export(model, {"x": x}, os.path.join(FOLDER, f"{name}_{way}.onnx"), way == "older", name == "merged",
                   notes=name in ("coded", "computed"))
        if name == "coded":
            export(model, {"x": x}, os.path.join(FOLDER, "coded_optimised.onnx"), False, True)
            export(model, {"x": x}, os.path.join(FOLDER, "coded_bare.onnx"), False)
        data = x.numpy().transpose(0, 2, 3, 1) if x.dim() == 4 else x.numpy()
        numbers = np.concatenate([data.ravel(), np.array(train(model, x), "f")])
        numbers.astype("<f4").tofile(os.path.join(FOLDER, f"{name}.f32"))
    if not chosen or "losses" in chosen:
        write_losses()
    if "reused" in chosen:
        write_reused()
    if not chosen:
        write_all_several()
        write_dropping()
        write_frozen()
        write_reused()
        write_shared_norm()


if __name__ == "__main__":
    main()
