"""Runs dptrain and PyTorch alternately, each in a process of its own, and prints a Markdown table.

Called by vs_pytorch.sh.  Imports no torch, so that what it measures of the children is theirs.
"""

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
VARIANTS = ("contiguous", "channels_last", "compiled", "compiled-channels_last")
# Of a card: with CUDA graphs too, those of torch.compile and one of a whole step.
CARD_VARIANTS = VARIANTS + ("graphs", "graphs-channels_last", "whole", "whole-channels_last")


def arguments():
    parser = argparse.ArgumentParser(prog="vs_pytorch.sh", description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default="lenet", choices=("linear", "mlp", "lenet", "resnet18", "resnet18-d2l"))
    parser.add_argument("--dptrain", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--runs", type=int, default=3, help="runs of each (default 3)")
    parser.add_argument("--epochs", type=int, default=1, help="epochs of a run (default 1)")
    parser.add_argument("--max-steps", type=int, help="end a run after this many steps")
    parser.add_argument("--warm-up", type=int, default=30, metavar="STEPS",
                        help="steps before img/s are counted (default 30)")
    parser.add_argument("--batch-size", default="256", help="on a card several, by commas (default 256)")
    parser.add_argument("--device", default="cpu",
                        help="of both: cpu, or a card, cuda:N (default cpu)")
    parser.add_argument("--precision", default="fp32",
                        help="of a card: fp32, tf32, bf16, or several, by commas (default fp32)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--variants", help="of PyTorch, by commas (default: all)")
    parser.add_argument("--deterministic", action="store_true",
                        help="dptrain computes with --deterministic; PyTorch as fast as it can")
    parser.add_argument("--quick", action="store_true",
                        help="2 runs of 110 steps, counted from step 40, PyTorch contiguous only: "
                             "under a minute, for a look while something is changed")
    parser.add_argument("--check", action="store_true",
                        help="fail unless img/s >= 1.0x, memory <= 0.5x and start-up <= 0.1x; on a "
                             "card, unless img/s >= 1.0x, of LeNet 5x PyTorch's without compiling "
                             "and graphs, and 2x with")
    args = parser.parse_args()
    args.known = VARIANTS if args.device == "cpu" else CARD_VARIANTS
    if args.quick:
        args.runs, args.max_steps, args.warm_up, args.variants = 2, 110, 40, VARIANTS[0]
    if not args.variants:
        args.variants = ",".join(args.known)
    args.precisions = args.precision.split(",")
    unknown = [p for p in args.precisions if p not in ("fp32", "tf32", "bf16")]
    if unknown:
        parser.error(f"unknown precision {unknown[0]}; known: fp32, tf32, bf16")
    if args.device == "cpu" and args.precision != "fp32":
        parser.error("--precision is a card's: give --device cuda:0")
    if not all(size.isdecimal() and int(size) > 0 for size in args.batch_size.split(",")):
        parser.error(f"--batch-size takes numbers from 1 on, not '{args.batch_size}'")
    args.batch_sizes = [int(size) for size in args.batch_size.split(",")]
    if args.device == "cpu" and len(args.batch_sizes) > 1:
        parser.error("several batch sizes are measured on a card alone: give --device cuda:0")
    return args


def name(case):
    return f"{case.model}, {case.precision}, batch {case.batch_size}"


def cases_of(args):
    """A copy of the arguments for each precision and batch size."""
    return [argparse.Namespace(**{**vars(args), "precision": precision, "batch_size": size})
            for precision in args.precisions for size in args.batch_sizes]


def devices(args):
    if args.device == "cpu":
        return [f"--devices=cpu:threads={args.threads}"]
    return [f"--devices={args.device}", f"--precision={args.precision}"]


def read_events(path, events):
    """Reads the log from a FIFO and notes when each line came."""
    with open(path, encoding="utf-8") as log:
        for line in log:
            events.append((time.monotonic(), json.loads(line)))


def max_steps(args):
    return [f"--max-steps={args.max_steps}"] if args.max_steps else []


def run_dptrain(args):
    with tempfile.TemporaryDirectory() as folder:
        fifo = os.path.join(folder, "log")
        os.mkfifo(fifo)
        events = []
        reader = threading.Thread(target=read_events, args=(fifo, events), daemon=True)
        reader.start()
        start = time.monotonic()
        done = subprocess.run(
            [args.dptrain, "train", "--quiet", f"--model={args.model}", "--dataset=fashion-mnist", f"--data={args.data}",
             f"--batch-size={args.batch_size}", f"--epochs={args.epochs}",
             "--lr=0.05", "--momentum=0.9", f"--log={fifo}"] + devices(args) + max_steps(args) +
            (["--deterministic"] if args.deterministic else []),
            check=False)
        if done.returncode != 0:
            sys.exit("vs_pytorch: dptrain failed")
        reader.join()
    steps = [(at, e) for at, e in events if e["event"] == "step"]
    end = events[-1][1]
    steady = [e for _, e in steps[args.warm_up:]]
    return {
        "images_per_second": sum(e["samples"] for e in steady) / sum(e["seconds"] for e in steady),
        # The first step's line comes when it is done.
        "startup_seconds": steps[0][0] - steps[0][1]["seconds"] - start,
        "peak_rss_bytes": end["peak_rss_bytes"],
        "test_accuracy": end["test_accuracy"],
        "version": events[0][1]["version"],
    }


def pytorch_command(args, variant):
    return [sys.executable, os.path.join(HERE, "vs_pytorch_train.py"), "--model", args.model,
            "--data", args.data, "--batch-size", str(args.batch_size), "--epochs", str(args.epochs),
            "--threads", str(args.threads), "--variant", variant,
            "--device", args.device, "--precision", args.precision,
            "--warm-up-steps", str(args.warm_up)] + max_steps(args)


def run_pytorch(args, variant):
    start = time.monotonic()
    done = subprocess.run(pytorch_command(args, variant), check=False, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        print(done.stderr, file=sys.stderr)
        return None
    result = json.loads(done.stdout.splitlines()[-1])
    result["startup_seconds"] = result.pop("first_step_at") - start
    return result


class Peer:
    """A variant on a card, which is started and compiled once and trains in turns with others."""

    def __init__(self, args, variant):
        self.variant = variant
        self.errors = tempfile.TemporaryFile("w+")
        self.child = subprocess.Popen(pytorch_command(args, variant) + ["--serve"], text=True,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=self.errors)

    def read(self):
        """The next line, or None if the child has failed."""
        line = self.child.stdout.readline()
        if not line and self.child.wait() != 0:
            self.errors.seek(0)
            print(self.errors.read()[-4000:], file=sys.stderr)
        return line.strip() or None

    def tell(self, word):
        try:
            self.child.stdin.write(word + "\n")
            self.child.stdin.flush()
        except BrokenPipeError:
            pass
        return self.read()

    def run(self):
        line = self.tell("run")
        if line is None:
            return None
        result = json.loads(line)
        # All are started at once, and wait for each other: that says nothing about one of them.
        del result["first_step_at"]
        return result

    def close(self):
        try:
            self.child.stdin.close()
        except BrokenPipeError:
            pass
        self.child.wait()


def compile_all(cases, variants):
    """What torch.compile makes of each is in its cache then, from which the peers have it."""
    children = [subprocess.Popen(pytorch_command(case, variant) + ["--compile-only"],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                for case in cases for variant in variants
                if variant.startswith(("compiled", "graphs"))]
    for child in children:
        child.wait() # those that fail will say so when they are measured


def start_peers(cases, variants):
    """Those of each case.  What can be done beside each other is: compiling, starting and loading.
    Warming up is not, since cuDNN's algorithms are chosen by their times then."""
    compile_all(cases, variants)
    peers = [[Peer(case, variant) for variant in variants] for case in cases]
    peers = [[peer for peer in of_case if peer.read() is not None] for of_case in peers]
    return [[peer for peer in of_case if peer.tell("warm") is not None] for of_case in peers]


def measure_card(args, peers):
    """In turns, one at a time."""
    what = name(args)
    ours, theirs = [], {peer.variant: [] for peer in peers}
    for i in range(args.runs):
        for peer in list(peers):
            run = peer.run()
            if not run:
                peer.close()
                peers.remove(peer)
            else:
                theirs[peer.variant].append(run)
                print(f"{what}, run {i + 1} of {args.runs}: PyTorch {peer.variant}: "
                      f"{run['images_per_second']:.0f} img/s", file=sys.stderr)
        ours.append(run_dptrain(args))
        print(f"{what}, run {i + 1} of {args.runs}: dptrain: "
              f"{ours[-1]['images_per_second']:.0f} img/s", file=sys.stderr)
    for peer in peers:
        peer.close()
    return ours, theirs


def measure(args, variants):
    ours, theirs = [], {v: [] for v in variants}
    for i in range(args.runs):
        for variant in variants:
            print(f"run {i + 1} of {args.runs}: PyTorch {variant}", file=sys.stderr)
            run = run_pytorch(args, variant)
            if run:
                theirs[variant].append(run)
                print(f"    {run['images_per_second']:.0f} img/s", file=sys.stderr)
        print(f"run {i + 1} of {args.runs}: dptrain", file=sys.stderr)
        ours.append(run_dptrain(args))
        print(f"    {ours[-1]['images_per_second']:.0f} img/s", file=sys.stderr)
    return ours, theirs


def machine():
    name = platform.processor() or platform.machine()
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        for line in info:
            if line.startswith("model name"):
                name = line.split(":", 1)[1].strip()
                break
    return name


def median(runs, key):
    return statistics.median(run[key] for run in runs)


def row(name, runs):
    rates = [run["images_per_second"] for run in runs]
    startup = f"{median(runs, 'startup_seconds'):.2f} s" if "startup_seconds" in runs[0] else ""
    return (f"| {name} | {statistics.median(rates):.0f} | {min(rates):.0f} to {max(rates):.0f} | "
            f"{median(runs, 'peak_rss_bytes') / 2**20:.0f} MiB | {startup} | "
            f"{runs[0]['test_accuracy']:.3f} |")


def startup_ratio(ours, theirs):
    return median(ours, "startup_seconds") / min(median(runs, "startup_seconds")
                                                 for runs in theirs.values())


def main():
    args = arguments()
    variants = args.variants.split(",")
    unknown = [v for v in variants if v not in args.known]
    if unknown:
        sys.exit(f"vs_pytorch: unknown variant {unknown[0]}; known: {', '.join(args.known)}")
    if len(set(variants)) < len(variants):
        sys.exit("vs_pytorch: a variant stands twice in --variants")
    cases = cases_of(args)
    if args.device == "cpu":
        results = [(case, *measure(case, variants)) for case in cases]
    else:
        results = ((case, *measure_card(case, peers))
                   for case, peers in zip(cases, start_peers(cases, variants)))
    missed, n_reported = [], 0
    for case, ours, theirs in results:
        theirs = {v: runs for v, runs in theirs.items() if len(runs) == case.runs}
        missed += [f"{name(case)}: PyTorch, {v}, failed" for v in variants if v not in theirs]
        if theirs:
            missed += report(case, variants, ours, theirs)
            n_reported += 1
        else:
            print(f"{name(case)}: PyTorch failed in every variant")
        print(flush=True)
    if n_reported == 0:
        sys.exit("vs_pytorch: PyTorch failed in every variant")
    if args.check and missed:
        sys.exit(f"vs_pytorch: not what is claimed: {'; '.join(missed)}")


def report(args, variants, ours, theirs):
    """Prints a case's table; what of it does not keep what is claimed."""
    best = max(theirs, key=lambda v: median(theirs[v], "images_per_second"))
    peer = theirs[best]
    rate = median(ours, "images_per_second") / median(peer, "images_per_second")
    # Against the leanest (and the quickest to start) of the variants, which need not be the fastest.
    memory = median(ours, "peak_rss_bytes") / min(median(r, "peak_rss_bytes")
                                                  for r in theirs.values())
    startup = startup_ratio(ours, theirs) if args.device == "cpu" else 0

    where = (f"{args.threads} threads, {machine()}" if args.device == "cpu"
             else f"{args.precision}, {peer[0]['device']}")
    print(f"{args.model}, Fashion-MNIST, batch {args.batch_size}, {where}, {datetime.date.today()}; "
          f"medians of {args.runs} runs, img/s after {args.warm_up} steps\n")
    print("| | img/s | from, to | peak memory of the host | start-up | test accuracy |")
    print("|---|---|---|---|---|---|")
    print(row(f"dptrain {ours[0]['version']}{', deterministic' if args.deterministic else ''}", ours))
    for variant, runs in theirs.items():
        print(row(f"PyTorch {runs[0]['version']}, {variant}", runs))
    for variant in variants:
        if variant not in theirs:
            print(f"| PyTorch, {variant} | failed | | | | |")
    print(f"\nAgainst PyTorch at its best ({best}): {rate:.2f}x img/s, {memory:.2f}x memory" +
          (f", {startup:.3f}x start-up time" if args.device == "cpu" else ""))
    if args.device != "cpu":
        return check_card(args, median(ours, "images_per_second"), theirs)
    claims = {"at least 1.0x img/s": rate >= 1, "at most 0.5x memory": memory <= 0.5,
              "at most 0.1x start-up time": startup <= 0.1}
    return [claim for claim, holds in claims.items() if not holds]


def check_card(args, rate, theirs):
    """Against its best without compiling and graphs, its best with torch.compile's, and with a whole
    step captured by hand, against which nothing is claimed of LeNet."""
    claims = {"eager": 5.0, "compiled": 2.0, "whole": 0.0} if args.model == "lenet" else {"any": 1.0}
    kinds = {"any": lambda variant: True,
             "eager": lambda variant: variant in ("contiguous", "channels_last"),
             "compiled": lambda variant: variant.startswith(("compiled", "graphs")),
             "whole": lambda variant: variant.startswith("whole")}
    missed = []
    for kind, least in claims.items():
        rates = [median(runs, "images_per_second")
                 for variant, runs in theirs.items() if kinds[kind](variant)]
        if not rates and least:
            missed.append(f"{name(args)}: {kind} was not measured")
        if not rates:
            continue
        print(f"{kind}: {rate / max(rates):.2f}x" + (f" ({least:.1f}x)" if least else ""))
        if rate < least * max(rates):
            missed.append(f"{name(args)}: {kind}")
    return missed


if __name__ == "__main__":
    main()
