"""Writes tests/golden/values.txt: losses of networks over values with any number of axes, by PyTorch in float64.

    make_values.py > tests/golden/values.txt

Each line has the name of a case and the losses of five steps of SGD.  tests/train/test_values.c builds the same networks
with dpt_attention and with the functions of core/dptrain/tensor.h.  Both sides compute inputs and weights from the same
formulas.
"""

import torch
from torch import nn

COUNT, LENGTH, CHANNELS, CLASSES, STEPS, RATE = 6, 6, 4, 3, 5, 0.5


def numbers(shape, which):
    n = torch.arange(int(torch.tensor(shape).prod()))
    return ((((n * 29 + which * 17 + 5) % 97) - 48).double() / 160).reshape(shape)


def data():
    n = torch.arange(COUNT)[:, None]
    i = torch.arange(LENGTH * CHANNELS)[None]
    return ((((i * 31 + n * 7 + n * i) % 89) - 44).double() / 44).reshape(COUNT, LENGTH, CHANNELS)


class Attention(nn.Module):
    def __init__(self, heads, causal=False, memory=0, bias=True):
        super().__init__()
        self.attention = nn.MultiheadAttention(CHANNELS, heads, bias=bias, batch_first=True)
        self.fc = nn.Linear(LENGTH * CHANNELS, CLASSES)
        self.causal, self.memory = causal, memory

    def forward(self, x):
        mask = torch.triu(torch.ones(LENGTH, LENGTH, dtype=torch.bool), 1) if self.causal else None
        read = x[:, : self.memory] if self.memory else x
        y = self.attention(x, read, read, attn_mask=mask, need_weights=False)[0]
        return self.fc(y.transpose(1, 2).flatten(1))


class Values(nn.Module):
    def __init__(self):
        super().__init__()
        self.positions = nn.Parameter(torch.zeros(LENGTH, CHANNELS))
        self.first = nn.Parameter(torch.zeros(CHANNELS))
        self.w = nn.Parameter(torch.zeros(CHANNELS, 6))
        self.fc = nn.Linear(16, CLASSES)

    def forward(self, x):
        t = torch.tanh(x + self.positions)
        t = torch.cat([self.first.expand(len(x), 1, CHANNELS), t], 1)
        q, k = (t @ self.w).split([3, 3], -1)
        v = (q @ k.transpose(1, 2)).softmax(-1) @ t
        r = v.flip(1)[:, ::2]
        m = r.log_softmax(1)
        half = torch.tensor([[0.5], [-0.5], [0.25], [1.0]], dtype=x.dtype)
        y = m * r.mean(1, keepdim=True) + half
        z = y + r.amax(2)[:, None] * r.amin((1, 2))[:, None, None] + r.sum((1, 2))[:, None, None]
        return self.fc(z.flatten(1))


def losses(module):
    module = module.double()
    for which, parameter in enumerate(module.parameters()):
        parameter.data = numbers(parameter.shape, which)
    optimizer = torch.optim.SGD(module.parameters(), lr=RATE)
    labels = torch.arange(COUNT) % CLASSES
    found = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(module(data()), labels)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


CASES = {
    "attention": Attention(2),
    "causal": Attention(1, causal=True),
    "memory": Attention(4, memory=3),
    "no_bias": Attention(2, bias=False),
    "values": Values(),
}
for name, module in CASES.items():
    print(name, *(f"{loss:.9f}" for loss in losses(module)))
