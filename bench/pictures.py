#!/usr/bin/env python3
"""Training on JPEG pictures of 500x375, random windows of them scaled to SIZE x SIZE, in PyTorch and in
dptrain: see bench/pictures.sh.  Each run is a process of its own; runs take turns."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

CLASSES, TRAIN, TEST = 8, 128, 2  # pictures of a class


def make_pictures(folder):
    """A smooth pattern for each class, and noise."""
    import numpy
    from PIL import Image
    random = numpy.random.default_rng(1)
    for c in range(CLASSES):
        pattern = Image.fromarray(random.integers(0, 255, (12, 16, 3), dtype=numpy.uint8))
        smooth = numpy.asarray(pattern.resize((500, 375), Image.BICUBIC)).astype(int)
        for part, count in (("train", TRAIN), ("test", TEST)):
            path = os.path.join(folder, part, f"class{c}")
            os.makedirs(path)
            for i in range(count):
                pixels = numpy.clip(smooth + random.integers(-30, 30, smooth.shape), 0, 255)
                Image.fromarray(pixels.astype(numpy.uint8)).save(os.path.join(path, f"{i}.jpg"), quality=85)


# ---- PyTorch, in a process of its own --------------------------------------------------------------

def train_pytorch(args):
    import torch
    import torchvision
    from torchvision import transforms
    torch.set_num_threads(args.threads)
    change = transforms.Compose([
        transforms.RandomResizedCrop(args.size), transforms.RandomHorizontalFlip(),
        transforms.ToTensor(), transforms.Normalize([0.5] * 3, [0.25] * 3)])
    data = torchvision.datasets.ImageFolder(os.path.join(args.data, "train"), change)
    loader = torch.utils.data.DataLoader(data, args.batch_size, shuffle=True, drop_last=True,
                                         num_workers=args.threads, persistent_workers=True)
    model = getattr(torchvision.models, args.model)(num_classes=CLASSES).to(
        memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    step = torch.compile(model) if args.variant == "compiled" else model
    times = []
    for images, labels in loader:
        optimizer.zero_grad()
        images = images.contiguous(memory_format=torch.channels_last)
        torch.nn.functional.cross_entropy(step(images), labels).backward()
        optimizer.step()
        times.append(time.monotonic())
        if len(times) > args.steps:
            break
    # From the end of a step to the end of another, so that reading between them counts.
    first, last = args.warm_up, args.steps
    print(json.dumps((last - first) * args.batch_size / (times[last] - times[first])))


# ---- Runs ------------------------------------------------------------------------------------------

def run_pytorch(args, folder, variant):
    done = subprocess.run(
        [sys.executable, os.path.abspath(__file__), "--peer", "--variant", variant, "--data", folder,
         "--size", str(args.size), "--batch-size", str(args.batch_size), "--steps", str(args.steps),
         "--warm-up", str(args.warm_up), "--threads", str(args.threads), args.model],
        stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def run_dptrain(args, folder, how):
    log = os.path.join(folder, "run.jsonl")
    augment = ["--augment=flip"] if how == "memory" else ["--augment=resized-crop,flip"]
    subprocess.run(
        [args.dptrain, "train", "--quiet", f"--model={args.model}-imagenet", f"--data={folder}",
         f"--dataset=folder:{args.size}x{args.size}" + (":stream" if how == "stream" else ""),
         f"--devices=cpu:threads={args.threads}", f"--batch-size={args.batch_size}", "--lr=0.01",
         "--momentum=0.9", f"--max-steps={args.steps}", f"--log={log}"] + augment, check=True)
    with open(log, encoding="utf-8") as file:
        events = [json.loads(line) for line in file]
    steps = [e for e in events if e["event"] == "step"][args.warm_up:]
    return sum(e["samples"] for e in steps) / sum(e["seconds"] for e in steps)


def main():
    parser = argparse.ArgumentParser(prog="bench/pictures.sh", description=__doc__)
    parser.add_argument("model", nargs="?", default="resnet18", choices=("resnet18", "resnet34", "resnet50"))
    parser.add_argument("--dptrain", help=argparse.SUPPRESS)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--warm-up", type=int, default=4, help="steps of a run that do not count (4)")
    parser.add_argument("--runs", type=int, default=3, help="of each (3)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--variant", help=argparse.SUPPRESS)
    parser.add_argument("--data", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.steps >= CLASSES * TRAIN // args.batch_size:
        parser.error("steps are those of one epoch: between two, dptrain evaluates and PyTorch does not")
    if args.peer:
        train_pytorch(args)
        return
    import torch
    kinds = {"PyTorch, channels_last": lambda f: run_pytorch(args, f, "eager"),
             "PyTorch, compiled": lambda f: run_pytorch(args, f, "compiled"),
             "dptrain, read as needed": lambda f: run_dptrain(args, f, "stream"),
             "dptrain, in memory": lambda f: run_dptrain(args, f, "memory")}
    rates = {kind: [] for kind in kinds}
    with tempfile.TemporaryDirectory() as folder:
        make_pictures(folder)
        for _ in range(args.runs):
            for kind, run in kinds.items():
                rates[kind].append(run(folder))
                print(f"{kind}: {rates[kind][-1]:.1f} img/s", file=sys.stderr)
    best = max(statistics.median(r) for kind, r in rates.items() if kind.startswith("PyTorch"))
    print(f"{args.model} at {args.size}x{args.size}, batch {args.batch_size}, {args.threads} threads, medians of "
          f"{args.runs} runs in turns, PyTorch {torch.__version__}\n\n| | img/s | of the best PyTorch |\n|---|---|---|")
    for kind, r in rates.items():
        print(f"| {kind} | {statistics.median(r):.1f} ({min(r):.1f} to {max(r):.1f}) | {statistics.median(r) / best:.2f}x |")


if __name__ == "__main__":
    main()
