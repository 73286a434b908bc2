"""Convolutions of shapes that no model here has, beside PyTorch's; see shapes.sh."""
import argparse
import json
import math
import statistics
import subprocess
import sys
import time

# Height, width, channels, filter, stride, padding, channels of the result.
SHAPES = [
    (32, 32, 3, 3, 1, 1, 24),
    (32, 32, 3, 5, 1, 2, 48),
    (33, 33, 3, 7, 2, 3, 24),
    (32, 32, 24, 3, 1, 1, 24),
    (16, 16, 48, 3, 1, 1, 48),
    (8, 8, 96, 3, 1, 1, 96),
    (32, 32, 24, 3, 2, 1, 48),
    (17, 17, 48, 3, 2, 1, 96),
    (17, 15, 48, 3, 1, 1, 96),
    (15, 13, 24, 5, 1, 2, 48),
    (9, 9, 96, 3, 1, 0, 96),
    (11, 11, 96, 1, 1, 0, 48),
]


def name(shape):
    h, w, c, k, stride, pad, o = shape
    return (f"conv {h}x{w}x{c} {k}x{k}" + (f"/{stride}" if stride > 1 else "")
            + (f"+{pad}" if pad else "") + f" to {o}")


def ours(ops, threads, batch, shape):
    """Microseconds of the passes, with the images' gradient last but one."""
    done = subprocess.run([ops, f"cpu:threads={threads}", str(batch), name(shape)],
                          capture_output=True, text=True)
    rows = [line.split("|") for line in done.stdout.splitlines() if line.startswith("| conv")]
    if done.returncode != 0 or len(rows) != 3:
        sys.exit(f"bench: {ops}: {done.stderr.strip() or done.stdout[-300:]}")
    return sum(float(row[2]) for row in rows), [row[6].strip() for row in rows]


def time_torch(threads, batch):
    """For each shape and layout microseconds of forward and backward, as a line of JSON."""
    import torch
    torch.set_num_threads(threads)
    print(json.dumps(torch.__version__), flush=True)
    for line in sys.stdin:
        h, w, c, k, stride, pad, o = json.loads(line)
        found = {}
        for layout in ("contiguous", "channels_last"):
            form = torch.channels_last if layout == "channels_last" else torch.contiguous_format
            conv = torch.nn.Conv2d(c, o, k, stride, pad).to(memory_format=form)
            x = torch.randn(batch, c, h, w).to(memory_format=form).requires_grad_()
            inputs = [x, *conv.parameters()]
            dy = torch.randn_like(conv(x))

            def call():
                torch.autograd.grad(conv(x), inputs, dy)

            times = []
            for _ in range(3):
                call()
            end = time.perf_counter() + 0.5
            while time.perf_counter() < end or len(times) < 5:
                begin = time.perf_counter()
                call()
                times.append(time.perf_counter() - begin)
            found[layout] = 1e6 * statistics.median(times)
        print(json.dumps(found), flush=True)


class Torch:
    """PyTorch in a process of its own, which sleeps while dptrain is measured."""

    def __init__(self, threads, batch):
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--torch", "--threads", str(threads), "--batch-size",
             str(batch)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.version = self.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit("bench: PyTorch's process has ended")
        return json.loads(line)

    def measure(self, shape):
        self.process.stdin.write(json.dumps(shape) + "\n")
        self.process.stdin.flush()
        return self.read()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ops", help="bench-ops")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--torch", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.torch:
        time_torch(arguments.threads, arguments.batch_size)
        return
    torch = Torch(arguments.threads, arguments.batch_size)
    print(f"{arguments.threads} threads, batch {arguments.batch_size}, PyTorch {torch.version}; "
          f"microseconds of forward and both gradients, medians of {arguments.runs} runs\n")
    print("| convolution | dptrain | by | contiguous | channels_last | ratio |")
    print("|---|--:|---|--:|--:|--:|", flush=True)
    ratios = []
    for shape in SHAPES:
        own, peers = [], []
        for _ in range(arguments.runs):
            micros, ways = ours(arguments.ops, arguments.threads, arguments.batch_size, shape)
            own.append(micros)
            peers.append(torch.measure(shape))
        peer = {key: statistics.median(p[key] for p in peers) for key in peers[0]}
        ratios.append(min(peer.values()) / statistics.median(own))
        print(f"| {name(shape)[5:]} | {statistics.median(own):.0f} | {', '.join(ways)} "
              f"| {peer['contiguous']:.0f} | {peer['channels_last']:.0f} | {ratios[-1]:.2f} |",
              flush=True)
    print(f"\nGeometric mean of the ratios to the better layout: "
          f"{math.exp(statistics.mean(map(math.log, ratios))):.2f}")


if __name__ == "__main__":
    main()
