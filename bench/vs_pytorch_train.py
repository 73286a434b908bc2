"""PyTorch's side of the comparison: one training run, its figures as one line of JSON.

Written to be quick: the images lie in memory as bytes, a batch is gathered and scaled by a few
tensor operations, nothing is synchronised or printed in between.
"""

import argparse
import gzip
import json
import os
import sys
import time

import numpy
import torch
from torch import nn


def read_idx(folder, name):
    path = os.path.join(folder, name)
    opener = open
    if not os.path.exists(path):
        path, opener = path + ".gz", gzip.open
    with opener(path, "rb") as file:
        data = file.read()
    rank = data[3]
    shape = [int.from_bytes(data[4 + 4 * i:8 + 4 * i], "big") for i in range(rank)]
    return torch.from_numpy(numpy.frombuffer(data, numpy.uint8, offset=4 + 4 * rank)
                            .reshape(shape).copy())


def build(name):
    if name == "linear":
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
    if name == "mlp":
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 1024), nn.ReLU(),
                             nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
    if name.startswith("resnet"):
        # Only here: torchvision costs memory and time that the small networks do not need.
        sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                     "../tests/golden"))
        import networks
        return networks.create(name, 28, 28, 1, 10)
    return nn.Sequential(
        nn.Conv2d(1, 20, 3), nn.ReLU(), nn.AvgPool2d(2),
        nn.Conv2d(20, 50, 5), nn.ReLU(), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(800, 128), nn.ReLU(), nn.Linear(128, 10))


class Batches:
    """Images and labels of a part, batch by batch, scaled to 0 to 1 as dptrain does."""

    def __init__(self, folder, part, variant):
        self.images = read_idx(folder, f"{part}-images-idx3-ubyte").unsqueeze(1)  # (n,1,28,28)
        self.labels = read_idx(folder, f"{part}-labels-idx1-ubyte").long()
        self.channels_last = "channels_last" in variant

    def get(self, index):
        x = self.images.index_select(0, index).float()
        x = x.mul_(1 / 255)
        if self.channels_last:
            x = x.contiguous(memory_format=torch.channels_last)
        return x, self.labels.index_select(0, index)


def accuracy(model, batches, batch_size):
    hits = 0
    n = len(batches.labels)
    with torch.inference_mode():
        for index in torch.arange(n).split(batch_size):
            x, y = batches.get(index)
            hits += int((model(x).argmax(1) == y).sum())
    return hits / n


def peak_rss_bytes():
    with open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--batch-size", type=int, required=True)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--variant", default="contiguous")
    parser.add_argument("--warm-up-steps", type=int, default=30)
    parser.add_argument("--max-steps", type=int, default=sys.maxsize)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--init-std", type=float, help="weights N(0, STD^2), biases 0")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    train = Batches(args.data, "train", args.variant)
    test = Batches(args.data, "t10k", args.variant)
    model = build(args.model)
    if args.init_std is not None:
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            else:
                nn.init.normal_(parameter, std=args.init_std)
    if "channels_last" in args.variant:
        model = model.to(memory_format=torch.channels_last)
    forward = torch.compile(model) if "compiled" in args.variant else model
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=args.momentum,
                                fused=True)
    criterion = nn.CrossEntropyLoss()

    n_steps, images, seconds, first_step_at = 0, 0, 0.0, None
    for _ in range(args.epochs):
        order = torch.randperm(len(train.labels))
        last = None
        for index in order.split(args.batch_size):
            if n_steps == args.max_steps:
                break
            if first_step_at is None:
                first_step_at = time.monotonic()
            x, y = train.get(index)
            optimizer.zero_grad(set_to_none=True)
            loss = criterion(forward(x), y)
            loss.backward()
            optimizer.step()
            n_steps += 1
            now = time.monotonic()
            # The shorter batch at the end of an epoch makes torch.compile compile once more.
            if n_steps > args.warm_up_steps and last is not None and len(index) == args.batch_size:
                images += len(index)
                seconds += now - last
            last = now
    model.eval()
    test_accuracy = accuracy(model, test, args.batch_size)
    json.dump({
        "images_per_second": images / seconds,
        "first_step_at": first_step_at,
        "peak_rss_bytes": peak_rss_bytes(),
        "test_accuracy": test_accuracy,
        "loss": float(loss.detach()),
        "version": torch.__version__,
    }, sys.stdout)
    print()


if __name__ == "__main__":
    main()
