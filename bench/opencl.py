"""Training speed on an OpenCL device and start-up of its second run; see opencl.sh."""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

DPTRAIN = os.environ["DPTRAIN"]
SETTINGS = {  # model: (images, batch, steps that are not counted, steps that are)
    "lenet": ("28x28x1", 256, 6, 24),
    "resnet18": ("28x28x1", 128, 2, 4),
}
# LeNet in the words of DLPrimitives: the layers of models/lenet.c.
LENET = {
    "inputs": [
        {"name": "data", "shape": [256, 1, 28, 28]},
        {"name": "label", "shape": [256], "dtype": "int"},
    ],
    "outputs": ["loss"],
    "operators": [
        {"name": name, "type": kind, "inputs": inputs, "outputs": [name], "options": options}
        for name, kind, inputs, options in [
            ("c1", "Convolution2D", ["data"],
             {"channels_out": 20, "kernel": 3, "activation": "relu"}),
            ("p1", "Pooling2D", ["c1"], {"mode": "avg", "kernel": 2, "stride": 2}),
            ("c2", "Convolution2D", ["p1"],
             {"channels_out": 50, "kernel": 5, "activation": "relu"}),
            ("p2", "Pooling2D", ["c2"], {"mode": "avg", "kernel": 2, "stride": 2}),
            ("f1", "InnerProduct", ["p2"], {"outputs": 128, "activation": "relu"}),
            ("f2", "InnerProduct", ["f1"], {"outputs": 10}),
            ("loss", "SoftmaxWithLoss", ["f2", "label"], {}),
        ]
    ],
}


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"bench: {' '.join(command)}: {done.stderr.strip() or done.stdout[-300:]}")
    return done.stdout


def train(model, device, batch=None, warm=None, counted=None):
    """Images per second over the counted steps, and seconds from the start of the process to the
    end of its first step."""
    images, usual_batch, usual_warm, usual_counted = SETTINGS[model]
    batch = batch or usual_batch
    warm = usual_warm if warm is None else warm
    steps = warm + (usual_counted if counted is None else counted)
    with tempfile.NamedTemporaryFile("r", suffix=".jsonl") as log:
        begin = time.monotonic()
        first = None
        process = subprocess.Popen(
            [DPTRAIN, "train", "--model", model, "--dataset",
             f"synthetic:{images}:10:{batch * steps}", "--batch-size", str(batch), "--max-steps",
             str(steps), "--devices", device, "--lr", "0.01", "--quiet", "--log", log.name],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        while process.poll() is None:
            if first is None and '"event":"step"' in open(log.name).read().replace(" ", ""):
                first = time.monotonic() - begin
            time.sleep(0.005)
        if process.returncode != 0:
            sys.exit(f"bench: {model} on {device}: {process.stderr.read().strip()}")
        events = [json.loads(line) for line in log]
    seconds = [e["seconds"] for e in events if e["event"] == "step"][warm:]
    return batch / statistics.median(seconds) if seconds else None, first


def dlprim(benchmark):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as net:
        json.dump(LENET, net)
        net.flush()
        out = run([benchmark, "-b", "-g", "-i20", "-w5", "0:0", net.name])
    times = [float(m) for m in re.findall(r"^Step +\d+ +([0-9.]+)", out, re.M)]
    return 256 / (statistics.median(times) / 1e3)


def alternate(n_runs, sides):
    """sides: name -> function; name -> list of results, measured in alternation."""
    results = {name: [] for name in sides}
    for _ in range(n_runs):
        for name, measure in sides.items():
            results[name].append(measure())
    return results


def median_row(name, values, base):
    middle = statistics.median(values)
    ratio = "" if base is None else f"{middle / base:.2f}"
    print(f"| {name} | {middle:.0f} | {min(values):.0f} to {max(values):.0f} | {ratio} |")
    return middle


def training(arguments, failures):
    print("## Training\n")
    benchmark = os.environ.get("DPTRAIN_BENCH_DLPRIM")
    for model, (images, batch, _, _) in SETTINGS.items():
        sides = {"dptrain, cpu": lambda: train(model, "cpu")[0],
                 f"dptrain, {arguments.device}": lambda: train(model, arguments.device)[0]}
        if model == "lenet" and benchmark:
            sides["DLPrimitives, the same device"] = lambda: dlprim(benchmark)
        train(model, arguments.device, warm=1, counted=0)  # compiles and chooses
        results = alternate(arguments.runs, sides)
        print(f"{model}, {images}, batch {batch}:\n")
        print("| | img/s | from, to | of cpu |\n|---|---|---|---|")
        base = statistics.median(results["dptrain, cpu"])
        medians = {name: median_row(name, values, base) for name, values in results.items()}
        print()
        ours = medians[f"dptrain, {arguments.device}"]
        if model == "resnet18" and not ours >= 0.25 * base:
            failures.append("ResNet-18 reaches less than 0.25 of the CPU backend")
        if len(medians) == 3:
            peer = medians["DLPrimitives, the same device"]
            print(f"Against DLPrimitives: {ours / peer:.2f}x\n")
            if not ours >= 3 * peer:
                failures.append("LeNet is less than 3 times as fast as DLPrimitives")


def start_up(arguments, failures):
    print("## Start-up\n\nSeconds from the start of the process to the end of the first step.\n")
    print("| | first start (empty caches) | second start | from, to |\n|---|---|---|---|")
    for model in SETTINGS:
        with tempfile.TemporaryDirectory() as folder:
            os.environ["XDG_CACHE_HOME"] = folder
            os.environ["POCL_CACHE_DIR"] = os.path.join(folder, "pocl")
            os.mkdir(os.environ["POCL_CACHE_DIR"])
            first = train(model, arguments.device, batch=32, warm=1, counted=0)[1]
            later = [train(model, arguments.device, batch=32, warm=1, counted=0)[1]
                     for _ in range(max(arguments.runs, 3))]
        middle = statistics.median(later)
        print(f"| {model}, batch 32 | {first:.1f} | {middle:.2f} | "
              f"{min(later):.2f} to {max(later):.2f} |")
        if not middle < 1:
            failures.append(f"the second start of {model} takes {middle:.2f} s")
    print()


def main():
    parser = argparse.ArgumentParser(prog="bench/opencl.sh")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--device", default="opencl:0")
    parser.add_argument("--only", choices=["training", "start-up"])
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    failures = []
    if arguments.only != "start-up":
        training(arguments, failures)
    if arguments.only != "training":
        start_up(arguments, failures)
    for failure in failures:
        print(f"not kept: {failure}")
    return 1 if failures and arguments.check else 0


sys.exit(main())
