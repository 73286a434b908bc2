"""The training loop: what it gives, callbacks, checkpoints, progress."""

import json
import os
import signal
import sys
import threading
import types

import numpy as np
import pytest

import dptrain
from conftest import DEVICES
from dptrain.errors import InvalidError, NotFiniteError, StateError


def test_a_training_learns_and_tells(net, digits):
    run = dptrain.fit(
        net, digits, devices=DEVICES, epochs=20, batch_size=30, validation=0.2, momentum=0.9
    )
    assert (run.steps, run.epochs, run.stopped) == (160, 20, False)
    assert len(run.losses) == 160 and run.losses[-1] < 0.5 * run.losses[0]
    assert run.history["epoch"] == list(range(1, 21))
    assert run.history["validation_accuracy"][-1] > 0.8
    assert run.history["test_loss"] == [None] * 20
    assert run.train_loss == run.history["train_loss"][-1]
    best = int(np.argmin(run.history["validation_loss"]))
    assert run.best_epoch == best + 1
    assert run.best_validation_loss == run.history["validation_loss"][best]
    assert len(run.devices) == 2
    assert sum(device.share for device in run.devices) == pytest.approx(1)
    assert all(device.busy_seconds > 0 for device in run.devices)
    assert run.net is net and net.has_weights


def test_the_losses_are_those_of_numpy(digits):
    """A linear network in NumPy: the softmax, its gradient, SGD with momentum."""
    x, y = digits
    b = dptrain.Builder("linear")
    net = b.finish(b.linear(b.flatten(b.input(1, 8, 8)), "fc", out=10)).initialize(seed=1)
    w, bias = (net.weights[name].astype(np.float64) for name in ("fc.weight", "fc.bias"))
    flat, velocity, expected = x.reshape(300, 64).astype(np.float64), [0, 0], []
    for _ in range(2):
        for i in range(0, 300, 60):
            part, labels = flat[i : i + 60], y[i : i + 60]
            e = np.exp(part @ w.T + bias)
            p = e / e.sum(1, keepdims=True)
            expected.append(-np.log(p[np.arange(60), labels]).mean())
            p[np.arange(60), labels] -= 1
            gradients = (p.T @ part / 60 + 0.01 * w, p.mean(0) + 0.01 * bias)
            velocity = [0.9 * v + g for v, g in zip(velocity, gradients)]
            w, bias = w - 0.2 * velocity[0], bias - 0.2 * velocity[1]
    run = dptrain.fit(
        net, digits, devices=DEVICES, split="2:1", epochs=2, batch_size=60, shuffle=False, lr=0.2,
        momentum=0.9, weight_decay=0.01,
    )  # fmt: skip
    assert np.allclose(run.losses, expected, rtol=1e-5)
    assert np.allclose(net.weights["fc.weight"], w, atol=1e-5)
    assert [device.samples for device in run.devices][0] > 300


def test_a_training_goes_on_from_the_weights(net, digits):
    first = dptrain.fit(net, digits, devices="cpu", epochs=5, momentum=0.9)
    second = dptrain.fit(net, digits, devices="cpu", max_steps=1)
    assert second.losses[0] < first.losses[0] * 0.9


def test_load_and_fresh(net, digits, tmp_path):
    dptrain.fit(net, digits, devices="cpu", epochs=5)
    net.save(tmp_path / "w.safetensors")
    other = net.copy()
    trainer = dptrain.Trainer(
        other, digits, devices="cpu", load=tmp_path / "w.safetensors", fresh="fc2"
    )
    with trainer:
        assert np.array_equal(trainer.get("fc1.weight"), net.weights["fc1.weight"])
        assert not np.array_equal(trainer.get("fc2.weight"), net.weights["fc2.weight"])


def test_freeze_and_schedules(net, digits):
    net.initialize()
    before = net.weights
    rates = []
    dptrain.fit(
        net, digits, devices=DEVICES, epochs=4, batch_size=100, lr=0.5, freeze="fc1.*",
        schedule="cosine", warmup="1epochs", on_step=lambda step: rates.append(step.lr),
    )  # fmt: skip
    after = net.weights
    assert np.array_equal(before["fc1.weight"], after["fc1.weight"])
    assert not np.array_equal(before["fc2.weight"], after["fc2.weight"])
    assert rates[0] < rates[1] < rates[2] > rates[-1]
    assert rates[-1] < 0.1


def test_the_best_epoch_and_patience(net, digits, tmp_path):
    folder = tmp_path / "run"
    options = dict(validation=0.2, patience=2, checkpoint=str(folder), lr=1.5, batch_size=20)
    run = dptrain.fit(net, digits, devices="cpu:threads=1", epochs=100, momentum=0.9, **options)
    assert run.no_patience and run.epochs == run.best_epoch + 2
    last = net.weights
    net.load(folder / "best.safetensors")
    assert not np.array_equal(net.weights["fc2.bias"], last["fc2.bias"])


def test_callbacks_see_steps_and_epochs(net, digits):
    steps, epochs = [], []

    def on_epoch(epoch):
        evaluation = epoch.trainer.evaluate(digits)
        weights = epoch.trainer.get("fc2.bias")
        epochs.append((epoch.epoch, evaluation.samples, weights.shape))
        with pytest.raises(StateError):
            epoch.trainer.step()

    run = dptrain.fit(
        net,
        digits,
        devices=DEVICES,
        epochs=2,
        batch_size=100,
        on_step=[steps.append],
        on_epoch=on_epoch,
    )
    assert epochs == [(1, 300, (10,)), (2, 300, (10,))]
    assert [step.step for step in steps] == [1, 2, 3, 4, 5, 6]
    assert [step.loss for step in steps] == run.losses
    assert all(sum(step.shards) == step.samples == 100 for step in steps)
    assert all(len(step.device_seconds) == 2 for step in steps)


def test_a_callback_may_end_the_training(net, digits):
    run = dptrain.fit(net, digits, devices="cpu", epochs=9, on_epoch=lambda e: e.epoch == 3)
    assert run.stopped and run.epochs == 3


@pytest.mark.parametrize("kind", ["on_step", "on_epoch"])
def test_an_exception_of_a_callback_ends_the_training(net, digits, kind):
    def fail(what):
        if what.epoch == 2:
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        dptrain.fit(net, digits, devices=DEVICES, epochs=5, **{kind: fail})
    assert net.has_weights
    assert dptrain.fit(net, digits, devices=DEVICES, epochs=1).epochs == 1


def test_ctrl_c_leaves_a_checkpoint_and_returns(net, digits, tmp_path):
    folder = str(tmp_path / "run")

    def press(step):
        if step.step == 7:
            os.kill(os.getpid(), signal.SIGINT)

    options = dict(devices="cpu:threads=1", batch_size=100, checkpoint=folder)
    whole = dptrain.fit(net.copy(), digits, devices="cpu:threads=1", batch_size=100, epochs=4)
    run = dptrain.fit(net.copy(), digits, epochs=4, on_step=press, **options)
    assert run.stopped and 7 <= run.steps < 12
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    resumed = dptrain.fit(net.copy(), digits, epochs=4, resume=True, **options)
    assert not resumed.stopped and resumed.steps == 12
    assert run.losses + resumed.losses == whole.losses
    assert any("resuming" in notice for notice in resumed.notices)


def test_ctrl_c_breaks_an_evaluation_off(net, digits, tmp_path, monkeypatch):
    folder = str(tmp_path / "run")
    progress = dptrain.fitting._Loop.progress

    def press(loop, p):
        if not (p.step or p.epoch or p.event) and p.steps_done == 6:
            os.kill(os.getpid(), signal.SIGINT)
        return progress(loop, p)

    options = dict(devices="cpu:threads=1", batch_size=100, epochs=4, validation=digits)
    whole = dptrain.fit(net.copy(), digits, **options)
    with monkeypatch.context() as patch:
        patch.setattr(dptrain.fitting._Loop, "progress", press)
        run = dptrain.fit(net.copy(), digits, checkpoint=folder, **options)
    assert run.stopped and (run.steps, run.epochs) == (6, 1)
    resumed = dptrain.fit(net.copy(), digits, checkpoint=folder, resume=True, **options)
    assert not resumed.stopped and (resumed.steps, resumed.epochs) == (12, 4)
    losses = "validation_loss"
    assert run.history[losses] + resumed.history[losses] == whole.history[losses]


def checkpoints_of(log):
    events = [json.loads(line) for line in log.read_text().splitlines()]
    return [event["step"] for event in events if event["event"] == "checkpoint"]


def test_a_checkpoint_on_request(net, digits, tmp_path):
    asked = iter([False, False, True])
    options = dict(devices="cpu", batch_size=50, max_steps=12, checkpoint_every="1h")
    for name, wants in ("without", None), ("with", lambda: next(asked, False)):
        dptrain.fit(
            net.copy(),
            digits,
            checkpoint=str(tmp_path / name),
            log=tmp_path / f"{name}.jsonl",
            wants_checkpoint=wants,
            **options,
        )
    assert len(checkpoints_of(tmp_path / "with.jsonl")) == 1 + len(
        checkpoints_of(tmp_path / "without.jsonl")
    )
    assert 3 <= checkpoints_of(tmp_path / "with.jsonl")[0] <= 5


def test_an_exception_of_a_request_ends_the_training(net, digits, tmp_path):
    def fail():
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        dptrain.fit(
            net, digits, devices="cpu", epochs=5, wants_checkpoint=fail, checkpoint=str(tmp_path)
        )


def test_balanced_class_weights(net, digits):
    """Those of scikit-learn: samples / (classes * samples of the class), of the part that is trained."""
    x, y = digits
    x, y = np.concatenate([x, x[y == 3]]), np.concatenate([y, y[y == 3]])
    counts = np.bincount(y, minlength=10)
    by_hand = list(len(y) / (10 * counts))
    options = dict(devices="cpu:threads=1", max_steps=3, batch_size=50)
    runs = [
        dptrain.fit(net.copy(), (x, y), class_weights=weights, **options).losses
        for weights in ("balanced", by_hand, None)
    ]
    assert runs[0] == runs[1] != runs[2]
    with pytest.raises(InvalidError, match="balanced"):
        dptrain.fit(net, (x, y), class_weights="balance", **options)


def test_resume_of_another_training_is_refused(net, digits, tmp_path):
    options = dict(devices="cpu", checkpoint=str(tmp_path / "run"))
    dptrain.fit(net.copy(), digits, max_steps=3, batch_size=50, **options)
    with pytest.raises(InvalidError, match="batch"):
        dptrain.fit(net.copy(), digits, max_steps=6, batch_size=60, resume=True, **options)


def test_files(net, digits, tmp_path):
    log, plot = tmp_path / "log.jsonl", tmp_path / "plot.svg"
    run = dptrain.fit(net, digits, devices=DEVICES, epochs=2, log=log, plot=plot)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert len(lines) > run.steps
    assert plot.read_text() == run.svg
    picture = run.plot(tmp_path / "again.svg")
    assert "<svg" in picture._repr_svg_()
    assert (tmp_path / "again.svg").read_text() == run.svg


def test_a_loss_that_is_not_finite(net, digits):
    x, y = digits
    with pytest.raises(NotFiniteError, match="step 1 is not finite"):
        dptrain.fit(net, (np.where(x > 2, np.inf, x), y), devices="cpu", batch_size=300)


def test_steps_of_a_trainer(net, digits):
    with dptrain.Trainer(net, digits, devices=DEVICES, batch_size=100, momentum=0.9) as trainer:
        first = trainer.step()
        trainer.submit()
        trainer.submit()
        with pytest.raises(StateError, match="flight"):
            trainer.submit()
        second, third = trainer.collect(), trainer.collect()
        assert [first.step, second.step, third.step] == [1, 2, 3]
        assert third.last_of_epoch
        trainer.set_lr(0.01)
        assert trainer.step().lr == pytest.approx(0.01)
        trainer.set("fc2.bias", np.arange(10))
        assert np.array_equal(trainer.get("fc2.bias", device=1), np.arange(10))
        assert trainer.get("fc2.bias", "gradient").shape == (10,)
        assert trainer.get("fc2.bias", "velocity").shape == (10,)
        with pytest.raises(InvalidError, match=r"\(10,\).*\(9,\)"):
            trainer.set("fc2.bias", np.arange(9))
        assert trainer.predict(digits[0]).shape == (300, 10)
        assert sum(trainer.plan(i)["samples"] for i in range(2)) == 100
        assert (trainer.steps, trainer.device_count, trainer.trained_count) == (4, 2, 1210)
        assert trainer.events() == []
    assert np.array_equal(net.weights["fc2.bias"], np.arange(10))


def test_what_is_chosen(net, digits):
    options = dict(
        batch_size=100, micro_batch=1, split="equal", optimizer="adamw", recompute="off", shard="auto"
    )
    with dptrain.Trainer(net.copy(), digits, devices="cpu:threads=1,cpu:threads=1", **options) as trainer:
        assert trainer.shard == "none"
        assert [c["options"] for c in trainer.candidates] == ["--shard none"]
        taken = sum(v for k, v in trainer.plan(0).items() if k in _TAKEN)
        state = trainer.plan(0)["optimizer_bytes"]
    devices = f"cpu:threads=1:memory={taken - state // 4},cpu:threads=1"
    with dptrain.Trainer(net.copy(), digits, devices=devices, **options) as trainer:
        assert trainer.shard == "optimizer"
        first, last = trainer.candidates
        assert not first["fits"] and first["device"] == 0 and first["need_bytes"] > first["limit_bytes"]
        assert last["fits"] and last["options"] == "--shard optimizer" and last["shard"] == "optimizer"
        trainer.step()
    with dptrain.Trainer(net, digits, devices="cpu", batch_size=100) as trainer:
        assert trainer.candidates == []
    with pytest.raises(ValueError, match="leave offload out"):
        dptrain.Trainer(net, digits, offload=True, devices="cpu", **options)


_TAKEN = ("parameter_bytes", "optimizer_bytes", "activation_bytes", "step_bytes", "data_bytes")


def test_the_state_of_a_trainer(net, digits, tmp_path):
    options = dict(devices="cpu:threads=1", batch_size=100, momentum=0.9)
    with dptrain.Trainer(net.copy(), digits, **options) as trainer:
        trainer.step()
        trainer.save_state(tmp_path / "state")
        wanted = [trainer.step().loss for _ in range(3)]
    with dptrain.Trainer(net.copy(), digits, **options) as trainer:
        trainer.load_state(tmp_path / "state")
        assert [trainer.step().loss for _ in range(3)] == wanted


def test_parts_have_the_same_bits(net, digits):
    options = dict(devices="cpu,cpu", split="2:1", batch_size=100, optimizer="adamw", clip_norm=0.5)
    found = {}
    for shard in ("none", "optimizer", "gradients"):
        with dptrain.Trainer(net.copy(), digits, shard=shard, **options) as trainer:
            trainer.step()
            trainer.step()
            names = ("parameter", "gradient", "squares")
            found[shard] = [trainer.get("fc2.weight", name) for name in names]
            assert trainer.shard == shard
    for shard in ("optimizer", "gradients"):
        assert all(map(np.array_equal, found[shard], found["none"]))
    with dptrain.Trainer(net, digits, devices="cpu", batch_size=100, shard="gradients") as trainer:
        assert trainer.shard == "none"
        assert not trainer.offloaded
    with pytest.raises(ValueError, match="all devices are CPUs"):
        dptrain.Trainer(net, digits, offload=True, **options)


def test_deterministic_training_has_the_same_bits_on_any_devices(net, digits):
    one = net.copy()
    dptrain.fit(one, digits, devices="cpu:threads=1", epochs=2, deterministic=True)
    dptrain.fit(net, digits, devices="cpu,cpu,cpu", split="5:2:1", epochs=2, deterministic=True)
    for name, tensor in one.weights.items():
        assert np.array_equal(net.weights[name], tensor), name


def test_threads_take_turns(digits):
    failures = []

    def work():
        try:
            net = dptrain.Model("mlp")
            dptrain.fit(net, digits, devices="cpu:threads=1", max_steps=5)
            assert dptrain.predict(net, digits[0], devices="cpu:threads=1").shape == (300, 10)
        except BaseException as why:
            failures.append(why)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_python_goes_on_while_the_library_trains(digits):
    """Another thread counts while one step runs: the library's calls release the lock of Python."""
    ticks, done = [0], threading.Event()

    def count():
        while not done.is_set():
            ticks[0] += 1

    net = dptrain.Model("lenet", input=(1, 28, 28), classes=10)
    x = np.zeros((2048, 1, 28, 28), np.float32)
    with dptrain.Trainer(net, (x, np.zeros(2048, int)), devices="cpu", batch_size=2048) as trainer:
        thread = threading.Thread(target=count)
        thread.start()
        before = ticks[0]
        trainer._call(
            dptrain._library.lib.dpt_trainer_step, dptrain._structs.empty("dpt_step_metrics")
        )
        assert ticks[0] > before + 100
        done.set()
        thread.join()


def without_tqdm(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)


def test_progress_without_tqdm(net, digits, monkeypatch, capsys):
    without_tqdm(monkeypatch)
    dptrain.fit(net, digits, devices="cpu", epochs=2, validation=0.1, progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2 and lines[1].startswith("epoch 2: loss")
    assert "validation loss" in lines[0]
    dptrain.fit(net, digits, devices="cpu", epochs=1)
    assert capsys.readouterr().err == "", "nothing is shown where no one looks"


def test_progress_with_tqdm(net, digits, monkeypatch):
    shown = []

    class Bar:
        total = None
        n = 0

        def __init__(self, **options):
            shown.append(options["unit"])

        def refresh(self):
            shown.append(self.total)

        def set_postfix(self, what, refresh):
            pass

        def update(self, by):
            self.n += by

        def close(self):
            shown.append(("closed", self.n))

        @staticmethod
        def write(line):
            shown.append(line.split(":")[0])

    monkeypatch.setitem(sys.modules, "tqdm.auto", types.SimpleNamespace(tqdm=Bar))
    dptrain.fit(net, digits, devices="cpu", epochs=2, batch_size=100, progress=True)
    assert shown == ["step", 6, "epoch 1", "epoch 2", ("closed", 6)]


def test_a_folder_of_tensorboard_has_one_training(net, digits, tmp_path):
    options = {"devices": "cpu", "max_steps": 2, "tensorboard": str(tmp_path / "board")}
    dptrain.fit(net, digits, checkpoint=str(tmp_path / "kept"), **options)
    with pytest.raises(InvalidError, match="board has the events of another training"):
        dptrain.fit(net, digits, **options)
    options["max_steps"] = 4
    run = dptrain.fit(net, digits, checkpoint=str(tmp_path / "kept"), resume=True, **options)
    assert run.steps == 4 and len(list((tmp_path / "board").iterdir())) == 2
