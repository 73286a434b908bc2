#!/usr/bin/env python3
"""What becomes of a training if processes exchange less: loss and accuracy after the same number of steps.

    bench/compression.py [--model NAME] [--workers P] [--epochs N] [--seeds 1,2,3] METHOD...

Needs PyTorch and Fashion-MNIST.  Simulates P processes in one: each has its part of every batch.  What a real job would
send is counted and not sent.  A METHOD is one of

    none               sums of float32
    int8               blocks of 256 integers of 8 bits, with error feedback
    lowrank:R          matrices of rank R with error feedback and a warm start (PowerSGD, Vogels et al. 2019)
    random:R           the same without a warm start: each step begins with random numbers
    topk:B             the largest elements with error feedback, so many that a process sends 1/B of the bytes of `none`
    dgc:B              the same with momentum correction and factor masking (Deep Gradient Compression, Lin et al. 2018)
    local:H[:LR:M]     rounds of H local steps with an outer step, int8 with error feedback; momentum is averaged (bfloat16)
    delayed:H:D[:LR:M] the same with an outer delay of D steps; momentum stays with each process

The bytes are those that a process sends with the direct exchange of P processes: 2 (P - 1) / P times an array that is
summed, and P - 1 times what is gathered.  Factors travel as bfloat16, and tensors that are no matrix as float32.  An
element of top-k has 4 bytes: its distance from the element before, and its value as bfloat16.  "ms" is the time of
compressing and decompressing in one process and one step, by PyTorch's operators with one thread.  The running statistics
of batch-norms are updated by all processes in turn.
"""

import argparse
import gzip
import math
import os
import statistics
import sys
import time

import numpy
import torch
from torch import nn
from torch.nn import functional

BLOCK = 256


def read_idx(folder, name):
    path = os.path.join(folder, name)
    opener = open
    if not os.path.exists(path):
        path, opener = path + ".gz", gzip.open
    with opener(path, "rb") as file:
        data = file.read()
    shape = [int.from_bytes(data[4 + 4 * i : 8 + 4 * i], "big") for i in range(data[3])]
    return torch.from_numpy(numpy.frombuffer(data, numpy.uint8, offset=4 + 4 * data[3]).reshape(shape).copy())


def read_part(folder, part):
    images = read_idx(folder, f"{part}-images-idx3-ubyte").unsqueeze(1).float().mul_(1 / 255)
    return images, read_idx(folder, f"{part}-labels-idx1-ubyte").long()


# ---- Networks --------------------------------------------------------------------------------------------------------


class Block(nn.Module):
    def __init__(self, n_in, n_out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(n_in, n_out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(n_out)
        self.conv2 = nn.Conv2d(n_out, n_out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(n_out)
        self.short = nn.Identity()
        if n_in != n_out:
            self.short = nn.Sequential(nn.Conv2d(n_in, n_out, 1, stride, bias=False), nn.BatchNorm2d(n_out))

    def forward(self, x):
        y = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)))))
        return functional.relu(y + self.short(x))


def build(name):
    if name == "mlp":
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(),
                             nn.Linear(1024, 10))
    if name == "resnet8":
        return nn.Sequential(nn.Conv2d(1, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), Block(16, 16, 1),
                             Block(16, 32, 2), Block(32, 64, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                             nn.Linear(64, 10))
    if name == "cnn":  # small enough for many runs
        return nn.Sequential(nn.Conv2d(1, 8, 5, 2), nn.ReLU(), nn.Conv2d(8, 16, 5, 2), nn.ReLU(), nn.Flatten(),
                             nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 10))
    return nn.Sequential(nn.Conv2d(1, 20, 3), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(20, 50, 5), nn.ReLU(),
                         nn.AvgPool2d(2), nn.Flatten(), nn.Linear(800, 128), nn.ReLU(), nn.Linear(128, 10))


class Net:
    """A network whose parameters are views of one flat array."""

    def __init__(self, name):
        self.module = build(name)
        self.parameters = list(self.module.parameters())
        self.shapes = [tuple(p.shape) for p in self.parameters]
        self.sizes = [p.numel() for p in self.parameters]
        self.count = sum(self.sizes)

    def flat(self):
        return torch.cat([p.detach().reshape(-1) for p in self.parameters])

    def use(self, flat):
        for p, piece in zip(self.parameters, flat.split(self.sizes)):
            p.data = piece.view(p.shape)

    def gradient(self, x, y):
        loss = functional.cross_entropy(self.module(x), y)
        return loss.item(), torch.cat([g.reshape(-1) for g in torch.autograd.grad(loss, self.parameters)])


# ---- Compression -----------------------------------------------------------------------------------------------------


def round_int8(values):
    n = values.numel()
    blocks = functional.pad(values, (0, -n % BLOCK)).view(-1, BLOCK)
    scale = (blocks.abs().amax(1, keepdim=True) / 127).clamp_min(1e-38)
    return (torch.round(blocks / scale) * scale).view(-1)[:n]


def round_bf16(values):
    return values.bfloat16().float()


class Exchange:
    """sum(gradients) returns the mean of the processes' gradients, as far as it was sent."""

    momentum = True  # the optimizer's, behind the exchange

    def __init__(self, net, n_workers):
        self.net, self.n = net, n_workers
        self.errors = [torch.zeros(net.count) for _ in range(n_workers)]

    def all_reduced(self, n_bytes):
        return 2 * (self.n - 1) / self.n * n_bytes

    def sent(self):
        return self.all_reduced(4 * self.net.count)

    def sum(self, gradients):
        return sum(gradients) / self.n


class Int8(Exchange):
    def __init__(self, net, n_workers):
        super().__init__(net, n_workers)
        self.sum_error = torch.zeros(net.count)

    def sent(self):
        return self.all_reduced(self.net.count * (1 + 2 / BLOCK))

    def sum(self, gradients):
        total = self.sum_error
        for w, gradient in enumerate(gradients):
            whole = gradient + self.errors[w]
            rounded = round_int8(whole)
            self.errors[w] = whole - rounded
            total = total + rounded
        rounded = round_int8(total)
        self.sum_error = total - rounded
        return rounded / self.n


def orthonormal(p):
    """Gram-Schmidt over the columns, in place."""
    for i in range(p.shape[1]):
        for j in range(i):
            p[:, i] -= (p[:, i] @ p[:, j]) * p[:, j]
        p[:, i] /= p[:, i].norm().clamp_min(1e-30)
    return p


class LowRank(Exchange):
    def __init__(self, net, n_workers, rank, warm=True):
        super().__init__(net, n_workers)
        self.warm, self.generator = warm, torch.Generator().manual_seed(1)
        self.matrices, self.whole, begin = [], [], 0  # (begin, m, n, rank), and ranges
        for shape, size in zip(net.shapes, net.sizes):
            m = shape[0]
            n = size // m
            r = min(rank, m, n)
            if len(shape) > 1 and r * (m + n) < size:
                self.matrices.append((begin, m, n, r))
            else:
                self.whole.append((begin, begin + size))
            begin += size
        self.q = [self.random(n, r) for _, _, n, r in self.matrices]

    def random(self, n, r):
        return torch.randn(n, r, generator=self.generator)

    def sent(self):
        factors = sum(r * (m + n) for _, m, n, r in self.matrices)
        return self.all_reduced(2 * factors + 4 * sum(end - begin for begin, end in self.whole))

    def sum(self, gradients):
        out = torch.empty_like(gradients[0])
        for begin, end in self.whole:
            out[begin:end] = sum(g[begin:end] for g in gradients) / self.n
        for k, (begin, m, n, r) in enumerate(self.matrices):
            end = begin + m * n
            parts = [(g[begin:end] + e[begin:end]).view(m, n) for g, e in zip(gradients, self.errors)]
            q = self.q[k] if self.warm else self.random(n, r)
            p = orthonormal(round_bf16(sum(round_bf16(part @ q) for part in parts)))
            qs = [round_bf16(part.T @ p) for part in parts]
            for part, mine, e in zip(parts, qs, self.errors):
                e[begin:end] = (part - p @ mine.T).view(-1)
            total = round_bf16(sum(qs))
            self.q[k] = total
            out[begin:end] = (p @ total.T).view(-1) / self.n
        return out


class TopK(Exchange):
    def __init__(self, net, n_workers, divisor):
        super().__init__(net, n_workers)
        self.k = max(1, round(super().sent() / divisor / (n_workers - 1) / 4))

    def sent(self):
        return (self.n - 1) * 4 * self.k

    def take(self, w, out):
        """Moves the largest elements of what process w has kept into the sum; returns their places."""
        whole = self.errors[w]
        places = torch.topk(whole.abs(), self.k, sorted=False).indices
        values = round_bf16(whole[places])
        out[places] += values
        whole[places] -= values
        return places

    def sum(self, gradients):
        out = torch.zeros(self.net.count)
        for w, gradient in enumerate(gradients):
            self.errors[w].add_(gradient)
            self.take(w, out)
        return out / self.n


class Dgc(TopK):
    """Each process has the momentum of what it sends."""

    momentum = False

    def __init__(self, net, n_workers, divisor, momentum):
        super().__init__(net, n_workers, divisor)
        self.factor = momentum
        self.velocities = [torch.zeros(net.count) for _ in range(n_workers)]

    def sum(self, gradients):
        out = torch.zeros(self.net.count)
        for w, gradient in enumerate(gradients):
            velocity = self.velocities[w].mul_(self.factor).add_(gradient)
            self.errors[w].add_(velocity)
            velocity[self.take(w, out)] = 0
        return out / self.n


# ---- Training --------------------------------------------------------------------------------------------------------


class Synchronous:
    def __init__(self, net, exchange, options):
        self.net, self.exchange, self.momentum = net, exchange, options.momentum if exchange.momentum else 0
        self.flat, self.velocity = net.flat(), torch.zeros(net.count)
        self.seconds = 0

    def sent(self):
        return self.exchange.sent()

    def step(self, parts, lr, last):
        self.net.use(self.flat)
        results = [self.net.gradient(x, y) for x, y in parts]
        since = time.process_time()
        mean = self.exchange.sum([gradient for _, gradient in results])
        self.seconds += (time.process_time() - since) / len(parts)
        self.velocity.mul_(self.momentum).add_(mean)
        self.flat -= lr * self.velocity
        return sum(loss for loss, _ in results) / len(parts)


class Local:
    """Rounds of H steps.  With a delay, momentum stays with each process (docs/processes.md)."""

    def __init__(self, net, rounds, options):
        self.net, self.momentum, self.n = net, options.momentum, options.workers
        self.h, self.delay, self.lr, self.outer = rounds
        self.base, self.outer_velocity = net.flat(), torch.zeros(net.count)
        self.flats = [self.base.clone() for _ in range(self.n)]
        self.velocities = [torch.zeros(net.count) for _ in range(self.n)]
        self.exchange = Int8(net, self.n)
        self.n_steps, self.seconds, self.due, self.mean, self.noted = 0, 0, None, None, None

    def sent(self):
        momentum = 0 if self.delay else 2
        return (self.exchange.sent() + self.exchange.all_reduced(momentum * self.net.count)) / self.h

    def start(self):
        since = time.process_time()
        self.noted = [flat.clone() for flat in self.flats]
        self.mean = self.exchange.sum([self.base - flat for flat in self.flats])
        self.seconds += (time.process_time() - since) / self.n

    def finish(self):
        self.outer_velocity.mul_(self.outer).add_(self.mean)
        self.base = self.base - self.lr * (self.mean + self.outer * self.outer_velocity)
        self.flats = [self.base + (flat - noted) for flat, noted in zip(self.flats, self.noted)]
        self.due = None

    def join(self):
        """The end of a round without a delay, and of an epoch."""
        if self.due is not None:
            self.finish()
        self.start()
        self.finish()
        self.flats = [self.base.clone() for _ in range(self.n)]
        mean = sum(self.velocities) / self.n
        self.velocities = [mean.clone() for _ in range(self.n)]

    def step(self, parts, lr, last):
        loss = 0
        for w, (x, y) in enumerate(parts):
            self.net.use(self.flats[w])
            mine, gradient = self.net.gradient(x, y)
            loss += mine / self.n
            self.velocities[w].mul_(self.momentum).add_(gradient)
            self.flats[w] -= lr * self.velocities[w]
        self.n_steps += 1
        ends = self.n_steps % self.h == 0
        if last or (ends and not self.delay):
            self.join()
        elif ends:
            self.start()
            self.due = self.n_steps + self.delay
        elif self.n_steps == self.due:
            self.finish()
        if last:
            self.n_steps = 0
        return loss

    @property
    def flat(self):
        return self.base


def make(method, net, options):
    kind, *numbers = method.split(":")
    numbers = [float(number) for number in numbers]
    n = options.workers
    if kind in ("local", "delayed"):
        h, numbers = int(numbers[0]), numbers[1:]
        delay, numbers = (int(numbers[0]), numbers[1:]) if kind == "delayed" else (0, numbers)
        lr, outer = numbers or (0.7, 0.9)
        return Local(net, (h, delay, lr, outer), options)
    exchanges = {"none": lambda: Exchange(net, n), "int8": lambda: Int8(net, n),
                 "lowrank": lambda: LowRank(net, n, int(numbers[0])),
                 "random": lambda: LowRank(net, n, int(numbers[0]), warm=False),
                 "topk": lambda: TopK(net, n, numbers[0]),
                 "dgc": lambda: Dgc(net, n, numbers[0], options.momentum)}
    if kind not in exchanges:
        sys.exit(f"bench: no method is named {kind}: take one of those that --help lists")
    return Synchronous(net, exchanges[kind](), options)


def accuracy(net, images, labels):
    net.module.eval()
    with torch.inference_mode():
        hits = sum((net.module(x).argmax(1) == y).sum().item() for x, y in zip(images.split(1000), labels.split(1000)))
    net.module.train()
    return 100 * hits / len(labels)


def train(method, seed, data, options):
    """Returns the accuracy, the mean loss of the last 200 steps, the bytes of a step, those of `none`, the milliseconds."""
    (images, labels), test = data
    torch.manual_seed(seed)
    net = Net(options.model)
    training = make(method, net, options)
    n_steps = len(labels) // options.batch_size
    total, done, losses = n_steps * options.epochs, 0, []
    for _ in range(options.epochs):
        order = torch.randperm(len(labels))
        for i in range(n_steps):
            batch = order[i * options.batch_size : (i + 1) * options.batch_size]
            parts = [(images[part], labels[part]) for part in batch.chunk(options.workers)]
            lr = options.lr / 2 * (1 + math.cos(math.pi * done / total)) if options.schedule == "cosine" else options.lr
            losses.append(training.step(parts, lr, i == n_steps - 1))
            done += 1
    net.use(training.flat)
    return (accuracy(net, *test), statistics.mean(losses[-200:]), training.sent(), Exchange(net, options.workers).sent(),
            1e3 * training.seconds / done)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--model", default="lenet", choices=("cnn", "lenet", "mlp", "resnet8"))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--schedule", default="cosine", choices=("cosine", "constant"))
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("methods", nargs="+")
    options = parser.parse_args()
    if options.workers < 2:
        sys.exit("bench: --workers must be at least 2")
    torch.set_num_threads(1)
    data = read_part(options.data, "train"), read_part(options.data, "t10k")
    print(f"{options.model}, {options.workers} processes, {options.epochs} epochs, batch {options.batch_size}, lr "
          f"{options.lr}, momentum {options.momentum}, {options.schedule}, seeds {options.seeds}\n")
    print("| method | bytes of a step | 1 / | ms | test accuracy | each seed | loss of the last 200 steps |")
    print("|---|--:|--:|--:|--:|---|--:|")
    for method in options.methods:
        runs = [train(method, int(seed), data, options) for seed in options.seeds.split(",")]
        accuracies, losses, sent, whole, times = zip(*runs)
        each = ", ".join(f"{one:.2f}" for one in accuracies)
        print(f"| {method} | {sent[0]:.0f} | {whole[0] / sent[0]:.0f} | {statistics.median(times):.1f} | "
              f"{statistics.mean(accuracies):.2f} | {each} | {statistics.mean(losses):.4f} |", flush=True)


if __name__ == "__main__":
    main()
