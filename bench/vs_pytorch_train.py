"""PyTorch's side of the comparison: one training run, its figures as one line of JSON.

Written to be quick: the images lie in the device's memory as bytes, a batch is gathered and scaled by
a few tensor operations, nothing is synchronised or printed in between.

With --serve it says "loaded", and then does what each line on standard input says: "warm" trains
the steps that are not counted, "run" trains as without it and prints the figures, and the
end of the input ends it.  So several can be measured in turns, each started once.

Variants are words, joined by "-": channels_last; compiled (torch.compile), or on a card graphs
(torch.compile with CUDA graphs) or whole (one CUDA graph of a whole step, the optimizer included,
captured by hand); and contiguous, which is none of these.
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
        # In front of this folder, which has another networks.py.
        sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                        "../tests/golden"))
        import networks
        return networks.create(name, 28, 28, 1, 10)
    return nn.Sequential(
        nn.Conv2d(1, 20, 3), nn.ReLU(), nn.AvgPool2d(2),
        nn.Conv2d(20, 50, 5), nn.ReLU(), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(800, 128), nn.ReLU(), nn.Linear(128, 10))


class Batches:
    """Images and labels of a part, batch by batch, scaled to 0 to 1 as dptrain does."""

    def __init__(self, folder, part, variant, device):
        images = read_idx(folder, f"{part}-images-idx3-ubyte").unsqueeze(1)  # (n,1,28,28)
        self.images = images.to(device)
        self.labels = read_idx(folder, f"{part}-labels-idx1-ubyte").long().to(device)
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
        for index in torch.arange(n, device=batches.labels.device).split(batch_size):
            x, y = batches.get(index)
            hits += int((model(x).argmax(1) == y).sum())
    return hits / n


def set_precision(name):
    """Of a card's products and convolutions."""
    torch.backends.cuda.matmul.allow_tf32 = name != "fp32"
    torch.backends.cudnn.allow_tf32 = name != "fp32"
    torch.backends.cudnn.benchmark = True


class Training:
    """One step: gather, forward, backward, update."""

    def __init__(self, args, batches, model, device):
        words = args.variant.split("-")
        self.batches = batches
        set_precision(args.precision)
        # What a graph recorded must not have been rounded once and for all before.
        self.autocast = lambda: torch.autocast(device.type, dtype=torch.bfloat16,
                                               enabled=args.precision == "bf16",
                                               cache_enabled="whole" not in words)
        self.model = model
        if "compiled" in words:
            self.model = torch.compile(model)
        if "graphs" in words:
            self.model = torch.compile(model, mode="reduce-overhead")
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=args.momentum,
                                         fused=True)
        self.graph = None
        self.whole = args.batch_size if "whole" in words else 0

    def run(self, index):
        x, y = self.batches.get(index)
        self.optimizer.zero_grad(set_to_none=True)
        with self.autocast():
            loss = self.criterion(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss

    def capture(self, index):
        self.index = index.clone()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.run(self.index)
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = self.run(self.index)

    def step(self, index):
        if len(index) != self.whole:
            return self.run(index)
        if self.graph is None:
            self.capture(index)
        self.index.copy_(index)
        self.graph.replay()
        return self.loss


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
    parser.add_argument("--serve", action="store_true", help="train as standard input says")
    parser.add_argument("--compile-only", action="store_true",
                        help="end behind the first steps: what is compiled is in PyTorch's cache then")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--init-std", type=float, help="weights N(0, STD^2), biases 0")
    parser.add_argument("--device", default="cpu", help="cpu, or cuda:N")
    parser.add_argument("--precision", default="fp32", choices=("fp32", "tf32", "bf16"))
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    device = torch.device(args.device)
    on_card = device.type == "cuda"
    train = Batches(args.data, "train", args.variant, device)
    test = Batches(args.data, "t10k", args.variant, device)
    model = build(args.model).to(device)
    if args.init_std is not None:
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            else:
                nn.init.normal_(parameter, std=args.init_std)
    if "channels_last" in args.variant:
        model = model.to(memory_format=torch.channels_last)
    training = Training(args, train, model, device)

    run = Run(args, train, training, on_card)
    if args.compile_only:
        run.train(1, 3)
        return
    if args.serve:
        serve(args, run, model, test)
        return
    run.train(args.epochs, args.max_steps)
    print(json.dumps(run.figures(accuracy_of(model, test, args.batch_size))))


def accuracy_of(model, test, batch_size):
    model.eval()
    found = accuracy(model, test, batch_size)
    model.train()
    return found


def serve(args, run, model, test):
    """Trains when it is told to."""
    print("loaded", flush=True)
    for line in sys.stdin:
        if line.strip() == "warm":
            run.train(sys.maxsize, args.warm_up_steps)
            print("warm", flush=True)
        else:
            run.restart()
            run.train(args.epochs, args.max_steps)
            print(json.dumps(run.figures(accuracy_of(model, test, args.batch_size))), flush=True)


class Run:
    """Steps, of which those behind the first --warm-up-steps count."""

    def __init__(self, args, batches, training, on_card):
        self.args, self.batches, self.training, self.on_card = args, batches, training, on_card
        self.first_step_at, self.n_steps, self.loss = None, 0, None
        self.images, self.seconds, self.started = 0, 0.0, None

    def restart(self):
        """Counts from here on: it is warm."""
        if self.on_card:
            torch.cuda.synchronize()
        self.images, self.seconds, self.started = 0, 0.0, time.monotonic()

    def counts(self):
        return self.n_steps > self.args.warm_up_steps

    def train(self, epochs, most_steps):
        end = self.n_steps + most_steps
        for _ in range(epochs):
            order = torch.randperm(len(self.batches.labels), device=self.batches.labels.device)
            last = None
            for index in order.split(self.args.batch_size):
                full = len(index) == self.args.batch_size
                if self.n_steps >= end or (self.on_card and not full):
                    break  # of a shorter batch there would have to be another graph
                last = self.step(index, full, last)
            if self.n_steps >= end:
                break
        if self.on_card:
            torch.cuda.synchronize()
            self.seconds = time.monotonic() - (self.started or time.monotonic())

    def step(self, index, full, last):
        if self.first_step_at is None:
            self.first_step_at = time.monotonic()
        self.loss = self.training.step(index)
        self.n_steps += 1
        if self.on_card:
            # The host runs ahead: what counts is between two moments in which all was done.
            self.images += len(index) if self.counts() else 0
            if self.n_steps == self.args.warm_up_steps:
                torch.cuda.synchronize()
                self.started = time.monotonic()
            return None
        now = time.monotonic()
        # The shorter batch at the end of an epoch makes torch.compile compile once more.
        if self.counts() and last is not None and full:
            self.images += len(index)
            self.seconds += now - last
        return now

    def figures(self, test_accuracy):
        return {
            "images_per_second": self.images / self.seconds,
            "first_step_at": self.first_step_at,
            "peak_rss_bytes": peak_rss_bytes(),
            "test_accuracy": test_accuracy,
            "loss": float(self.loss.detach()),
            "version": torch.__version__,
            "device": torch.cuda.get_device_name(self.args.device) if self.on_card else "cpu",
        }


if __name__ == "__main__":
    main()
