"""What DataParallel, Lightning, Keras and dptrain do when devices are to have unequal shares, or to be
of two kinds.  Called by `python_peers.sh refusals`; docs/python.md has the results.

Each attempt is a process of its own, and prints one line: the error, or what happened without one.
An attempt that must have a card of NVIDIA says so where there is none.
"""

import json
import os
import subprocess
import sys
import tempfile

COMMON = """
import os, sys, warnings
import numpy, torch
from torch import nn
torch.manual_seed(0)
x, y = torch.rand(512, 64), torch.randint(0, 10, (512,))
module = nn.Sequential(nn.Linear(64, 10))
def lightning_module():
    import lightning
    class Training(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.module = module
        def training_step(self, batch, number):
            return nn.functional.cross_entropy(self.module(batch[0]), batch[1])
        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.01)
    return Training()
def trainer(**options):
    import lightning
    return lightning.Trainer(max_steps=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                             enable_model_summary=False, **options)
def keras_fit(batch, devices, **options):
    import keras
    keras.distribution.set_distribution(keras.distribution.DataParallel(devices=devices, **options))
    net = keras.Sequential([keras.Input((64,)), keras.layers.Dense(10)])
    net.compile(keras.optimizers.SGD(0.01), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    net.fit(x.numpy(), y.numpy(), batch_size=batch, epochs=1, verbose=0)
    places = {str(getattr(w.value, "sharding", None) or w.value.device) for w in net.trainable_weights}
    return f"trains; the weights are on {', '.join(sorted(places))}"
def shares(run):
    return "trains; shares " + ", ".join(f"{d.id} {d.share:.2f}" for d in run.devices)
def fit(devices, **options):
    import dptrain
    net = dptrain.from_torch(module, x[:2])
    return shares(dptrain.fit(net, (x, y), devices=devices, epochs=2, batch_size=256, lr=0.01, **options))
def result():
    PROGRAM
try:
    said = result()
except BaseException as why:
    said = f"{type(why).__name__}: {str(why).splitlines()[0] if str(why) else ''}"
if os.environ.get("LOCAL_RANK", "0") == "0":
    print("RESULT", said)
"""
# Two processes of Lightning with 192 and 64 samples of each global batch of 256: DDP takes the mean of
# the two means.  The gradient of the first step is compared with that of the whole batch.
UNEVEN_DDP = """
    import torch.distributed as dist
    from torch.utils.data import DataLoader, TensorDataset
    rank = int(os.environ.get("LOCAL_RANK", "0"))
    mine = slice(0, 192) if rank == 0 else slice(192, 256)
    data = TensorDataset(x[mine], y[mine])
    training, whole = lightning_module(), nn.Sequential(nn.Linear(64, 10))
    whole.load_state_dict(module.state_dict())
    nn.functional.cross_entropy(whole(x[:256]), y[:256]).backward()
    found = []
    training.on_before_optimizer_step = lambda optimizer: found.append(module[0].weight.grad.clone())
    trainer(accelerator="cpu", devices=2, use_distributed_sampler=False).fit(
        training, DataLoader(data, batch_size=len(data)))
    expected = whole[0].weight.grad
    return f"trains; the gradient is {float((found[0] - expected).norm() / expected.norm()):.2f} from that of the batch"
"""
ATTEMPTS = [
    ("DataParallel", "uneven shares", {}, "    return nn.DataParallel(module, device_ids=[0, 1], split=[3, 1])(x).shape"),
    ("DataParallel", "a CPU and a card", {"cards": "none"},
     '    parallel = nn.DataParallel(module, device_ids=["cuda:0", "cpu"])\n'
     '    return f"computes {tuple(parallel(x).shape)}; its devices are {parallel.device_ids}"'),
    ("DataParallel", "a CPU and a card", {"cards": "needed"},
     '    return nn.DataParallel(module.cuda(), device_ids=["cuda:0", "cpu"])(x.cuda()).shape'),
    ("Lightning", "uneven shares", {}, '    return trainer(accelerator="cpu", devices=[3, 1]).num_devices'),
    ("Lightning", "uneven shares by one's own samplers", {}, UNEVEN_DDP.strip("\n")),
    ("Lightning", "a CPU and a card", {}, '    return trainer(accelerator="cpu,cuda").num_devices'),
    ("Lightning", "a CPU and a card", {}, '    return trainer(devices=["cuda:0", "cpu"]).num_devices'),
    ("Keras, backend torch", "uneven shares", {"keras": "torch"},
     '    return keras_fit(256, ["cpu:0", "cpu:1"], shares=[3, 1])'),
    ("Keras, backend torch", "a CPU and a card", {"keras": "torch"}, '    return keras_fit(256, ["cpu:0", "gpu:0"])'),
    ("Keras, backend jax", "two CPUs, a batch of 256", {"keras": "jax"}, '    return keras_fit(256, ["cpu:0", "cpu:1"])'),
    ("Keras, backend jax", "two CPUs, a batch of 255", {"keras": "jax"}, '    return keras_fit(255, ["cpu:0", "cpu:1"])'),
    ("Keras, backend jax", "a CPU and a card", {"keras": "jax"}, '    return keras_fit(256, ["cpu:0", "gpu:0"])'),
    ("dptrain", "uneven shares", {}, '    return fit("cpu:threads=1,cpu:threads=1", split="3:1")'),
    ("dptrain", "two CPUs, a batch of 255", {},
     '    import dptrain\n'
     '    net = dptrain.from_torch(module, x[:2])\n'
     '    return shares(dptrain.fit(net, (x, y), devices="cpu,cpu", batch_size=255, epochs=1, lr=0.01))'),
    ("dptrain", "a CPU and an OpenCL device", {}, '    return fit("cpu:threads=1,opencl:0", split="3:1")'),
    ("dptrain", "a CPU and a card", {}, '    return fit("cpu,cuda:0")'),
]  # fmt: skip


def has_card():
    probe = "import sys, torch; sys.exit(not torch.cuda.is_available())"
    return subprocess.run([sys.executable, "-c", probe]).returncode == 0


def attempt(program, needs):
    environment = {**os.environ, "JAX_PLATFORMS": os.environ.get("JAX_PLATFORMS", "")}
    if "keras" in needs:
        environment["KERAS_BACKEND"] = needs["keras"]
    if needs.get("keras") == "jax":
        environment["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "attempt.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(COMMON.replace("    PROGRAM", program))
        try:
            done = subprocess.run([sys.executable, path], env=environment, cwd=folder, text=True,
                                  capture_output=True, timeout=300)  # fmt: skip
        except subprocess.TimeoutExpired:
            return "no answer within 300 s"
    said = [line[7:] for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    return said[0] if said else f"ended with status {done.returncode}: {done.stderr.strip()[-200:]}"


def main():
    card = has_card()
    print("| package | what is asked for | what happens |\n|---|---|---|")
    for package, what, needs, program in ATTEMPTS:
        if needs.get("cards") == "needed" and not card:
            said = "not run: there is no card of NVIDIA"
        elif needs.get("cards") == "none" and card:
            continue
        else:
            said = attempt(program, needs)
        print(f"| {package} | {what} | {json.dumps(said)[1:-1]} |", flush=True)


if __name__ == "__main__":
    main()
