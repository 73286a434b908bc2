"""Exports networks from PyTorch, trains the files with dptrain, and compares with PyTorch and ONNX Runtime.

Called by networks.sh.

  check  For each network and exporter, as one line of a Markdown table:
         forward   outputs of the file's own weights, of dptrain's predictor and of ONNX Runtime: the largest
                   difference, divided by the largest output
         20 steps  losses of SGD, of dptrain and of PyTorch: the largest relative difference, on each mix; and the same
                   for PyTorch's float32 and float64, which is what rounding alone does
         change    by what part of itself PyTorch's loss changes in these steps: a difference says nothing about the
                   gradients unless it is far smaller
         back      the weights after these steps, exported by dptrain: ONNX Runtime and dptrain's predictor
  memory Largest resident memory of a training process, of dptrain and of PyTorch.
  speed  Samples per second of both in turns, each in a process of its own; medians.
"""

import argparse
import copy
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS, CLASSES, SEED = 20, 10, 1
SMALL = ("unet", "capsules", "bert", "gpt", "mixer")  # those of tests/onnx/make_trained.py and below
SPEED = ("resnet18", "resnet50", "mobilenet_v2", "shufflenet_v2", "squeezenet", "vgg11_bn", "densenet121",
         "vit", "lstm", "gru")
MIXES = (("cpu", None), ("cpu,opencl:0", "3:1"), ("cpu,cpu,cpu", "13:2:1"))

# Pixels, batch and learning rate of `check`.  Networks with batch-norm have settings of their own, in which PyTorch's
# float32 and float64 agree: each batch-norm then has more values, and a changed sign in front of a ReLU changes the
# weights less.
SETTING = (32, 8, 1e-3)
SETTINGS = {"resnet18": (64, 16, 2e-6), "resnet50": (64, 16, 1e-4), "mobilenet_v2": (64, 16, 2e-6),
            "efficientnet_b0": (64, 16, 1e-6), "densenet121": (64, 16, 2e-6), "shufflenet_v2": (64, 16, 2e-6),
            "regnet_y_400mf": (64, 16, 5e-7), "googlenet": (64, 16, 1e-7), "vgg11_bn": (64, 16, 2e-6)}


# ---- Networks ----------------------------------------------------------------------------------------------------


def networks(side):
    """Functions that make each network, of `side` x `side` images, without randomness in training."""
    import torch
    import torchvision.models as tv
    from torch import nn
    from torchvision.models.swin_transformer import SwinTransformer

    sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tests", "onnx"))
    import make_trained as small

    class Sequence(nn.Module):
        def __init__(self, kind):
            super().__init__()
            self.layers, self.head = kind(32, 128, num_layers=2, batch_first=True), nn.Linear(128, CLASSES)

        def forward(self, x):
            return self.head(self.layers(x)[0][:, -1])

    class Mixer(nn.Module):
        """An MLP-Mixer (Tolstikhin et al. 2021) of four blocks."""

        def __init__(self, width=64, patches=(side // 4) ** 2):
            super().__init__()

            def mlp(n, hidden):
                return nn.Sequential(nn.Linear(n, hidden), nn.GELU(), nn.Linear(hidden, n))

            self.patch = nn.Conv2d(3, width, 4, 4)
            self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(9))
            self.tokens = nn.ModuleList(mlp(patches, 64) for _ in range(4))
            self.channels = nn.ModuleList(mlp(width, 256) for _ in range(4))
            self.head = nn.Linear(width, CLASSES)

        def forward(self, x):
            x = self.patch(x).flatten(2).transpose(1, 2)
            for i in range(4):
                x = x + self.tokens[i](self.norms[2 * i](x).transpose(1, 2)).transpose(1, 2)
                x = x + self.channels[i](self.norms[2 * i + 1](x))
            return self.head(self.norms[8](x).mean(1))

    def plain(make, **options):
        return lambda: make(num_classes=CLASSES, **options)

    return {
        "resnet18": plain(tv.resnet18), "resnet50": plain(tv.resnet50, zero_init_residual=True),
        "mobilenet_v2": plain(tv.mobilenet_v2, dropout=0.0),
        "mobilenet_v3": plain(tv.mobilenet_v3_small, dropout=0.0),
        "efficientnet_b0": plain(tv.efficientnet_b0, dropout=0.0, stochastic_depth_prob=0.0),
        "convnext_tiny": plain(tv.convnext_tiny, stochastic_depth_prob=0.0),
        "densenet121": plain(tv.densenet121), "shufflenet_v2": plain(tv.shufflenet_v2_x0_5),
        "squeezenet": plain(tv.squeezenet1_1, dropout=0.0), "regnet_y_400mf": plain(tv.regnet_y_400mf),
        "googlenet": plain(tv.googlenet, aux_logits=False, init_weights=True, dropout=0.0),
        "vgg11_bn": plain(tv.vgg11_bn, dropout=0.0),
        "vit": lambda: tv.VisionTransformer(side, 4 if side <= 64 else 16, 6, 6, 192, 768, num_classes=CLASSES),
        "swin_t": plain(lambda **o: SwinTransformer([4, 4], 96, [2, 2, 6, 2], [3, 6, 12, 24], [7, 7], **o),
                        stochastic_depth_prob=0.0),
        "unet": small.Unet, "lstm": lambda: Sequence(nn.LSTM), "gru": lambda: Sequence(nn.GRU),
        "bert": small.Encoder, "gpt": small.Gpt, "mixer": Mixer, "capsules": small.Capsules,
    }


def make(name, side, count):
    """A network in training mode and `count` samples.  Weights that begin as zeros get small random numbers."""
    import torch

    torch.manual_seed(SEED)
    module = networks(side)[name]().train()
    for p in module.parameters():
        if p.dim() == 2 and p.abs().max() == 0:
            torch.nn.init.normal_(p, std=0.02)
    if name in ("bert", "gpt"):
        return module, torch.randint(1, 11, (count, 6))
    shape = {"lstm": (64, 32), "gru": (64, 32), "unet": (2, 8, 8), "capsules": (2, 4, 4)}.get(name, (3, side, side))
    return module, torch.randn(count, *shape)


def export(module, x, path, exporter):
    import logging

    import torch

    logging.disable(logging.WARNING)
    warnings.filterwarnings("ignore")
    if exporter == "older":
        torch.onnx.export(module, (x,), path, dynamo=False, training=torch.onnx.TrainingMode.TRAINING,
                          do_constant_folding=False, input_names=["x"], output_names=["y"],
                          dynamic_axes={"x": {0: "N"}, "y": {0: "N"}})
    else:
        torch.onnx.export(module, (x,), path, dynamo=True, optimize=False, external_data=False, verbose=False,
                          dynamic_shapes=({0: torch.export.Dim("N", min=2, max=4096)},))


def labels_of(module, x):
    import torch

    with torch.no_grad():
        y = copy.deepcopy(module).eval()(x)
    shape = y.shape[:-1] if y.dim() == 3 else (y.shape[0],)
    return torch.arange(int(np.prod(shape))).reshape(shape) % y.shape[-1]


def pytorch_losses(module, x, labels, lr, steps):
    import torch

    optimizer = torch.optim.SGD(module.parameters(), lr=lr)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        y = module(x)
        loss = torch.nn.functional.cross_entropy(y.flatten(0, -2), labels.flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses)


# ---- dptrain -----------------------------------------------------------------------------------------------------


def train(dptrain, model, data, batch, lr, devices, split, extra):
    """Runs the command and returns the losses of its log."""
    log = tempfile.mktemp(suffix=".jsonl")
    command = [dptrain, "train", "--model", model, "--dataset", f"npz:{data}", "--batch-size", str(batch), "--lr",
               str(lr), "--momentum", "0", "--no-shuffle", "--devices", devices, "--log", log, "--quiet", *extra]
    if split:
        command += ["--split", split]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    with open(log) as lines:
        events = [json.loads(line) for line in lines]
    os.remove(log)
    return np.array([e["loss"] for e in events if e.get("event") == "step"])


class PredictorOptions(ctypes.Structure):
    """dpt_predictor_options (core/dptrain/predictor.h), as far as it is used."""

    _fields_ = [("size", ctypes.c_size_t), ("weights", ctypes.c_char_p), ("micro_batch", ctypes.c_size_t),
                ("like", ctypes.c_void_p), ("dtype", ctypes.c_int), ("mean", ctypes.c_float * 4),
                ("deviation", ctypes.c_float * 4), ("logits", ctypes.c_bool)]


class Library:
    """The calls of libdptrain that predict."""

    def __init__(self, dptrain, data):
        top = os.path.dirname(os.path.dirname(os.path.realpath(dptrain)))
        self.dll = ctypes.CDLL(os.path.join(top, "lib", "libdptrain.so"))
        self.dll.dpt_error_message.restype = ctypes.c_char_p
        for name in ("dpt_model_outputs", "dpt_model_labels"):
            getattr(self.dll, name).restype = ctypes.c_size_t
        self.context, self.devices, self.data = ctypes.c_void_p(), ctypes.c_void_p(), data
        self.call("dpt_context_create", ctypes.byref(self.context))
        self.call("dpt_device_set_open", self.context, b"cpu", ctypes.byref(self.devices))

    def call(self, name, *arguments):
        if getattr(self.dll, name)(*arguments) != 0:
            raise RuntimeError(self.dll.dpt_error_message(self.context).decode())

    def logits(self, model, weights, count):
        """The logits of the first `count` samples: (count * labels, outputs)."""
        m, d, p = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        self.call("dpt_model_from_onnx", self.context, model.encode(), ctypes.byref(m))
        self.call("dpt_dataset_open", self.context, f"npz:{self.data}".encode(), None, 0, ctypes.byref(d))
        self.call("dpt_dataset_arrange", self.context, d, m)
        options = PredictorOptions(size=ctypes.sizeof(PredictorOptions), like=d, logits=True,
                                   weights=weights.encode() if weights else None)
        self.call("dpt_predictor_create", self.devices, m, ctypes.byref(options), ctypes.byref(p))
        outputs = self.dll.dpt_model_outputs(m)
        out = np.zeros((count * self.dll.dpt_model_labels(m), outputs), np.float32)
        self.call("dpt_predictor_run_data", p, d, ctypes.c_size_t(0), ctypes.c_size_t(count),
                  out.ctypes.data_as(ctypes.c_void_p), None)
        self.dll.dpt_predictor_destroy(p)
        self.dll.dpt_dataset_destroy(d)
        self.dll.dpt_model_destroy(m)
        return out


def onnx_runtime(path, x):
    """The first output of a file, for inference: the running statistics, and no dropout."""
    import onnx
    import onnx.inliner
    import onnxruntime

    model = onnx.load(path)
    if model.functions:
        model = onnx.inliner.inline_local_functions(model)
    for node in model.graph.node:
        if node.op_type == "BatchNormalization":
            for attribute in node.attribute:
                if attribute.name == "training_mode":
                    attribute.i = 0
            del node.output[1:]
        while node.op_type == "Dropout" and len(node.input) > 2:
            node.input.pop()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    y = session.run([session.get_outputs()[0].name], {session.get_inputs()[0].name: x})[0]
    return y.reshape(-1, y.shape[-1])


# ---- Commands ----------------------------------------------------------------------------------------------------


def relative(a, b):
    return float(np.max(np.abs(a - b) / np.maximum(np.abs(b), 1e-3)))


def of_largest(a, b):
    return float(np.max(np.abs(a - b)) / np.max(np.abs(b)))


def check_file(args, library, path, data, x, setting):
    lr, reference = setting
    cells = [f"{of_largest(library.logits(path, None, len(x)), onnx_runtime(path, x)):.1e}"]
    for devices, split in MIXES:
        if "opencl" in devices and args.no_opencl:
            cells.append("-")
            continue
        run = tempfile.mkdtemp()
        found = train(args.dptrain, path, data, len(x), lr, devices, split,
                      ["--epochs", str(STEPS), "--checkpoint", run, "--checkpoint-every", f"{STEPS}epochs"])
        cells.append(f"{relative(found, reference):.1e}")
    back = os.path.join(run, "back.onnx")
    subprocess.run([args.dptrain, "export", "--checkpoint", run, "--model", path, "--onnx", back, "--dataset",
                    f"npz:{data}"], check=True, capture_output=True)
    weights = os.path.join(run, "model.safetensors")
    cells.append(f"{of_largest(library.logits(path, weights, len(x)), onnx_runtime(back, x)):.1e}")
    return cells


def check(args):
    import torch

    torch.set_num_threads(2)
    print("| network | exporter | pixels, batch, rate | forward | `cpu` | `cpu,opencl:0` 3:1 | `cpu,cpu,cpu` 13:2:1 | "
          "float32 of PyTorch | change | back |")
    print("|---|---|---|--:|--:|--:|--:|--:|--:|--:|")
    for name in args.networks:
        side, batch, lr = (a or b for a, b in zip((args.side, args.batch, args.lr), SETTINGS.get(name, SETTING)))
        module, x = make(name, side, batch)
        labels = labels_of(module, x)
        data = tempfile.mktemp(suffix=".npz")
        np.savez(data, x=x.numpy(), labels=labels.numpy())
        library = Library(args.dptrain, data)
        floor = pytorch_losses(copy.deepcopy(module), x, labels, lr, STEPS)
        wide = x.double() if x.is_floating_point() else x
        reference = pytorch_losses(copy.deepcopy(module).double(), wide, labels, lr, STEPS)
        change = np.max(np.abs(reference - reference[0])) / reference[0]
        for exporter in ("default", "older"):
            path = os.path.join(args.folder, f"{name}_{exporter}.onnx")
            try:
                export(copy.deepcopy(module), x, path, exporter)
                cells = check_file(args, library, path, data, x.numpy(), (lr, reference))
                cells[4:4] = f"{relative(floor, reference):.1e}", f"{change:.1e}"
            except Exception as error:
                cells = [str(error).replace("|", "/")[:160]]
            print(f"| {name} | {exporter} | {side}, {batch}, {lr:.0e} | " + " | ".join(cells) + " |", flush=True)
        os.remove(data)


def resident_memory():
    """The largest resident memory of this process in MiB."""
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def seconds_of_pytorch(name, side, batch, seconds, variant):
    """In a process of its own: prints samples per second and the largest resident memory in MiB."""
    import torch

    torch.set_num_threads(2)
    module, x = make(name, side, batch)
    labels = labels_of(module, x)
    if variant == "channels_last" and x.dim() == 4:
        module, x = module.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    net = torch.compile(module) if variant == "compiled" else module
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)

    def step():
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(x).flatten(0, -2), labels.flatten()).backward()
        optimizer.step()

    for _ in range(3):
        step()
    began, n = time.time(), 0
    while time.time() - began < seconds:
        step()
        n += 1
    print(n * batch / (time.time() - began), resident_memory())


def run_pytorch(args, name, variant, seconds):
    out = subprocess.run([sys.executable, os.path.abspath(__file__), "--dptrain", args.dptrain, "--side", str(args.side),
                          "--batch", str(args.batch), "pytorch", name, variant, str(seconds)],
                         check=True, capture_output=True, text=True).stdout
    return [float(v) for v in out.split()]


# Runs a command and prints its largest resident memory in KiB.  A small process must do that: the kernel counts the
# memory of the process that starts another one as memory of the latter.
WRAPPER = """import resource, subprocess, sys
status = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(status)"""


def run_dptrain(args, path, data, seconds):
    """Samples per second of the steps after the third, and the largest resident memory in MiB."""
    log = tempfile.mktemp(suffix=".jsonl")
    command = [sys.executable, "-c", WRAPPER, args.dptrain, "train", "--model", path, "--dataset", f"npz:{data}",
               "--batch-size", str(args.batch), "--lr", "0.01", "--devices", "cpu", "--max-time", str(seconds),
               "--epochs", "100000", "--log", log, "--quiet"]
    child = subprocess.run(command, capture_output=True, text=True)
    if child.returncode:
        raise RuntimeError(child.stderr.strip().splitlines()[-1])
    with open(log) as lines:
        steps = [e["seconds"] for e in map(json.loads, lines) if e.get("event") == "step"][3:]
    os.remove(log)
    return args.batch * len(steps) / sum(steps) if steps else 0.0, int(child.stdout) / 1024


def prepare(args, name):
    module, x = make(name, args.side, args.batch)
    path = os.path.join(args.folder, f"{name}.onnx")
    # The older exporter cannot write adaptive pooling to more pixels than there are.
    export(copy.deepcopy(module), x, path, "default" if name == "vgg11_bn" else "older")
    data = os.path.join(args.folder, f"{name}.npz")
    np.savez(data, x=x.numpy(), labels=labels_of(module, x).numpy())
    return path, data


def memory(args):
    print("| network | dptrain, MiB | PyTorch, MiB | ratio |")
    print("|---|--:|--:|--:|")
    for name in args.networks:
        path, data = prepare(args, name)
        ours = run_dptrain(args, path, data, args.seconds)[1]
        theirs = run_pytorch(args, name, "contiguous", args.seconds)[1]
        print(f"| {name} | {ours:.0f} | {theirs:.0f} | {ours / theirs:.2f} |", flush=True)


def speed(args):
    variants = args.variants.split(",")
    print("| network | dptrain | " + " | ".join(variants) + " | ratio to the best |")
    print("|---|--:|" + "--:|" * len(variants) + "--:|")
    ratios = []
    for name in args.networks:
        path, data = prepare(args, name)
        ours, theirs = [], {v: [] for v in variants}
        for _ in range(args.runs):
            ours.append(run_dptrain(args, path, data, args.seconds)[0])
            for v in variants:
                theirs[v].append(run_pytorch(args, name, v, args.seconds)[0])
        medians = [statistics.median(theirs[v]) for v in variants]
        ratios.append(statistics.median(ours) / max(medians))
        print(f"| {name} | {statistics.median(ours):.1f} | " + " | ".join(f"{m:.1f}" for m in medians) +
              f" | {ratios[-1]:.2f} |", flush=True)
    print(f"\nGeometric mean of the ratios: {statistics.geometric_mean(ratios):.2f}")


def main():
    parser = argparse.ArgumentParser(prog="networks.sh", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dptrain", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--side", type=int, help="height and width of images (default 32; of check each network's own)")
    parser.add_argument("--batch", type=int, help="samples of a step (default 32; of check each network's own)")
    parser.add_argument("--lr", type=float, help="learning rate of check (default: each network's own)")
    parser.add_argument("--seconds", type=float, default=12, help="of one run of speed or memory (default 12)")
    parser.add_argument("--runs", type=int, default=3, help="of speed (default 3)")
    parser.add_argument("--variants", default="contiguous,channels_last,compiled", help="of PyTorch, by commas")
    parser.add_argument("--no-opencl", action="store_true", help="leave the mix with opencl:0 out")
    parser.add_argument("--folder", help="for the exported files (default: a temporary one)")
    parser.add_argument("command", choices=("check", "memory", "speed", "pytorch"))
    parser.add_argument("networks", nargs="*", help="default: all; of speed and memory: " + ", ".join(SPEED))
    args = parser.parse_args()
    if args.command != "check":
        args.side, args.batch = args.side or 32, args.batch or 32
    if args.command == "pytorch":
        name, variant, seconds = args.networks
        return seconds_of_pytorch(name, args.side, args.batch, float(seconds), variant)
    if not args.networks:
        args.networks = list(networks(args.side)) if args.command == "check" else list(SPEED)
    args.folder = args.folder or tempfile.mkdtemp()
    return {"check": check, "memory": memory, "speed": speed}[args.command](args)


if __name__ == "__main__":
    sys.exit(main())
