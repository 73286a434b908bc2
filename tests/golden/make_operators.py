#!/usr/bin/env python3
"""Makes tests/golden/operators.txt: what PyTorch computes, in double precision, for some operators.

    make_operators.py > tests/golden/operators.txt

Needs torch.  The golden file is made once and kept; the test reads it and needs no torch.  Constants
are ones that float32 holds, since descriptions of operators are in float32.  A case is a line with
its kind and constants, then lines of numbers:

    adamw COUNT DECAY_COUNT BETA1 BETA2 EPSILON WEIGHT_DECAY LR STEPS
        w; then for every step: gradient, w, m, v
    clip_norm COUNT MAX_NORM
        gradient; gradient clipped
    softmax_xent CLASSES SMOOTHING N
        labels; logits; losses; gradient of their mean
    squared_error COUNT N
        y; target; losses; gradient of their mean
"""

import struct

import torch
from torch import nn
from torch.nn import functional


def float32(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def put(values):
    print(*(repr(v) for v in values.flatten().tolist()))


def adamw(count, decayed, beta1, beta2, epsilon, weight_decay, lr, steps):
    constants = [float32(x) for x in (beta1, beta2, epsilon, weight_decay, lr)]
    beta1, beta2, epsilon, weight_decay, lr = constants
    print("adamw", count, decayed, *(repr(x) for x in constants), steps)
    w = torch.randn(count)
    put(w)
    parts = [nn.Parameter(w[:decayed].clone()), nn.Parameter(w[decayed:].clone())]
    groups = [
        {"params": [parts[0]], "weight_decay": weight_decay},
        {"params": [parts[1]], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=lr, betas=(beta1, beta2), eps=epsilon)
    for _ in range(steps):
        gradient = torch.randn(count)
        parts[0].grad, parts[1].grad = gradient[:decayed].clone(), gradient[decayed:].clone()
        optimizer.step()
        state = [optimizer.state[part] for part in parts]
        put(gradient)
        put(torch.cat([part.detach() for part in parts]))
        put(torch.cat([s["exp_avg"] for s in state]))
        put(torch.cat([s["exp_avg_sq"] for s in state]))


def clip_norm(count, norm):
    norm = float32(norm)
    print("clip_norm", count, repr(norm))
    # Several tensors: the norm is that of all of them.
    parts = [nn.Parameter(torch.zeros(n)) for n in (count // 2, count - count // 2)]
    for part in parts:
        part.grad = torch.randn(part.shape)
    put(torch.cat([part.grad for part in parts]))
    nn.utils.clip_grad_norm_(parts, norm)
    put(torch.cat([part.grad for part in parts]))


def softmax_xent(classes, smoothing, n):
    smoothing = float32(smoothing)
    print("softmax_xent", classes, repr(smoothing), n)
    label = torch.randint(classes, (n,))
    logits = (3 * torch.randn(n, classes)).requires_grad_()
    losses = functional.cross_entropy(logits, label, label_smoothing=smoothing, reduction="none")
    losses.mean().backward()
    put(label)
    put(logits.detach())
    put(losses.detach())
    put(logits.grad)


def squared_error(count, n):
    print("squared_error", count, n)
    y = torch.randn(n, count).requires_grad_()
    target = torch.randn(n, count)
    losses = functional.mse_loss(y, target, reduction="none").mean(1)
    functional.mse_loss(y, target).backward()
    put(y.detach())
    put(target)
    put(losses.detach())
    put(y.grad)


def main():
    torch.manual_seed(1)
    torch.set_default_dtype(torch.float64)
    print(f"# PyTorch {torch.__version__}, float64; made by make_operators.py")
    adamw(5, 3, 0.9, 0.999, 1e-8, 0.01, 0.001, 6)
    adamw(4, 4, 0.5, 0.9, 1e-3, 0.5, 0.25, 4)
    adamw(3, 0, 0.0, 0.0, 1e-8, 0.1, 0.1, 2)
    clip_norm(7, 1.0)
    clip_norm(7, 100.0)
    clip_norm(6, 1e-3)
    softmax_xent(4, 0.0, 3)
    softmax_xent(10, 0.1, 4)
    softmax_xent(3, 0.9, 2)
    squared_error(5, 3)


if __name__ == "__main__":
    main()
