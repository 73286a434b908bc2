#!/usr/bin/env python3
"""Trains language models with dptrain and with PyTorch, in turns, and prints tokens per second and peak memory.

    bench/text.sh [gpt:LAYERS:HEADS:WIDTH:CONTEXT:VOCABULARY | lstm:LAYERS:WIDTH:CONTEXT:VOCABULARY]...
                  [--batch N] [--threads N] [--runs N] [--steps N] [--without-compile]

Float32, AdamW, random ids.  Each run is a process of its own.  A rate is that of the median step, without the first
two.  PyTorch runs as it is and compiled (torch.compile), with the fused AdamW and scaled_dot_product_attention; the
better of the two is its result.  Memory is the largest resident set of a run.
"""
import argparse
import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time

LEFT_OUT = 2  # steps at the start of a run
LEARNING_RATE = 1e-4
MODELS = ["gpt:6:6:384:256:256", "lstm:2:256:128:256"]


# ---- PyTorch: one run, in a process of its own -----------------------------------------------------------------------


def network(name):
    import torch
    from torch import nn
    from torch.nn import functional as F

    kind, *numbers = name.split(":")
    if kind == "lstm":
        layers, width, _, vocabulary = map(int, numbers)

        class Lstm(nn.Module):
            def __init__(self):
                super().__init__()
                self.table = nn.Embedding(vocabulary, width)
                self.cells = nn.LSTM(width, width, layers, batch_first=True)
                self.head = nn.Linear(width, vocabulary)

            def forward(self, ids):
                return self.head(self.cells(self.table(ids))[0])

        return Lstm()
    layers, heads, width, context, vocabulary = map(int, numbers)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
            self.read, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            n, length, _ = x.shape
            parts = [part.view(n, length, heads, width // heads).transpose(1, 2)
                     for part in self.read(self.before(x)).split(width, 2)]
            y = F.scaled_dot_product_attention(*parts, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(n, length, width))
            return x + self.narrow(F.gelu(self.wide(self.between(x)), approximate="tanh"))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.places = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
            self.blocks, self.norm = nn.Sequential(*(Block() for _ in range(layers))), nn.LayerNorm(width)

        def forward(self, ids):
            return F.linear(self.norm(self.blocks(self.table(ids) + self.places.weight)), self.table.weight)

    return Gpt()


def run_pytorch(arguments):
    """Prints the seconds of each step."""
    import torch
    from torch.nn import functional as F

    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    name = arguments.models[0]
    model = network(name)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=0, fused=True)
    forward = torch.compile(model) if arguments.pytorch == "compiled" else model
    context, vocabulary = map(int, name.split(":")[-2:])
    seconds = []
    for _ in range(arguments.steps):
        ids = torch.randint(vocabulary, (arguments.batch, context + 1))
        start = time.monotonic()
        optimizer.zero_grad()
        F.cross_entropy(forward(ids[:, :-1].contiguous()).flatten(0, 1), ids[:, 1:].flatten()).backward()
        optimizer.step()
        seconds.append(time.monotonic() - start)
    print(json.dumps(seconds))


# ---- Both, in turns --------------------------------------------------------------------------------------------------


def measure(command, read):
    """The seconds of the median step of a run, and its peak memory in MiB."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"text.py: this failed: {' '.join(command)}")
    return statistics.median(read(printed)[LEFT_OUT:]), usage.ru_maxrss / 1024


def write_ids(path, name, arguments):
    """Random ids for all steps: whole windows, and the id behind the last one."""
    context, vocabulary = map(int, name.split(":")[-2:])
    count = arguments.batch * arguments.steps * context + 1
    step, number, ids = 2654435761, 1, []
    for _ in range(count):
        number = (number * step + 12345) % 2 ** 32
        ids.append((number >> 8) % vocabulary)
    with open(path, "wb") as file:
        file.write(struct.pack(f"<{count}H", *ids))


def commands(name, arguments, folder):
    data, log = os.path.join(folder, "ids.bin"), os.path.join(folder, "log.jsonl")
    short = os.path.join(folder, "short.bin")  # the evaluation behind training
    write_ids(data, name, arguments)
    with open(data, "rb") as file, open(short, "wb") as out:
        out.write(file.read(2 * (int(name.split(":")[-2]) + 1)))
    devices = f"cpu:threads={arguments.threads}"
    ours = [arguments.dptrain, "train", "--model", name, "--dataset", f"tokens:{name.split(':')[-2]}:u16:"
            f"{name.split(':')[-1]}", "--data", data, "--test-data", short, "--batch-size", str(arguments.batch),
            "--optimizer", "adamw", "--lr", str(LEARNING_RATE), "--epochs", "1", "--devices", devices, "--quiet",
            "--log", log]

    def read_log(_):
        with open(log) as lines:
            return [event["seconds"] for event in map(json.loads, lines) if event["event"] == "step"]

    theirs = [sys.executable, os.path.abspath(__file__), name, "--batch", str(arguments.batch), "--threads",
              str(arguments.threads), "--steps", str(arguments.steps), "--pytorch"]
    kinds = ["eager"] if arguments.without_compile else ["eager", "compiled"]
    return {"dptrain": (ours, read_log), **{f"PyTorch, {kind}": (theirs + [kind], json.loads) for kind in kinds}}


def compare(name, arguments):
    with tempfile.TemporaryDirectory() as folder:
        both = commands(name, arguments, folder)
        runs = {who: [] for who in both}
        for turn in range(arguments.runs):
            for who in list(both)[::1 if turn % 2 == 0 else -1]:
                runs[who].append(measure(*both[who]))
                print(f"{name}, {who}: {runs[who][-1][0]:.3f} s, {runs[who][-1][1]:.0f} MiB", file=sys.stderr)
    tokens = arguments.batch * int(name.split(":")[-2])
    rates = {who: tokens / statistics.median(seconds for seconds, _ in of) for who, of in runs.items()}
    memory = {who: statistics.median(mib for _, mib in of) for who, of in runs.items()}
    best = max((who for who in rates if who != "dptrain"), key=rates.get)
    print(f"\n{name}, batch {arguments.batch}, {arguments.threads} threads, medians of {arguments.runs} runs\n")
    print("| | tokens/s | peak memory, MiB |\n|---|--:|--:|")
    for who, rate in rates.items():
        print(f"| {who} | {rate:.0f} | {memory[who]:.0f} |")
    least = min(mib for who, mib in memory.items() if who != "dptrain")
    print(f"\n{rates['dptrain'] / rates[best]:.2f} times the speed of {best}, "
          f"{memory['dptrain'] / least:.2f} times the least memory of PyTorch", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--dptrain")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--without-compile", action="store_true")
    parser.add_argument("--pytorch", choices=("eager", "compiled"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.pytorch:
        run_pytorch(arguments)
        return
    for name in arguments.models:
        compare(name, arguments)


if __name__ == "__main__":
    main()
