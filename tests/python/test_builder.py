"""Networks built layer by layer."""

import numpy as np
import pytest

import dptrain
from conftest import DEVICES
from dptrain import Builder
from dptrain._library import ffi, lib
from dptrain.errors import CallbackError, InvalidError, StateError


def test_every_function_of_the_library_that_adds_a_layer_has_a_method():
    found = []
    for name in dir(lib):
        if not name.startswith("dpt_"):
            continue
        kind = ffi.typeof(getattr(lib, name)) if callable(getattr(lib, name)) else None
        if kind is not None and kind.result.cname == "struct dpt_value":
            found.append(name[len("dpt_") :])
    assert len(found) > 30
    assert [name for name in found if not hasattr(Builder, name)] == []
    assert hasattr(Builder, "inputs") and hasattr(Builder, "split_axis")


def test_layers_of_images(digits):
    b = Builder("images")
    x = b.input(1, 8, 8)
    assert x.axes == (1, 8, 8)
    x = b.conv2d(x, "conv", out_channels=4, kernel=3, padding=(1, 1), no_bias=True)
    x = b.batch_norm(x, "bn", activation="relu")
    x = b.pool2d(x, kind="max", kernel=2)
    assert x.axes == (4, 4, 4)
    y = b.elementwise("a * sigmoid(a)", x)
    x = b.dropout(b.activate(b.add(x, y), "tanh"), 0.1)
    x = b.layer_norm(x, "ln")
    net = b.finish(b.linear(b.flatten(x), "fc", out=10))
    assert [t.name for t in net.tensors if not t.trained] == ["bn.running_mean", "bn.running_var"]
    run = dptrain.fit(net, digits, devices=DEVICES, epochs=10, lr=0.05, momentum=0.9, batch_size=30)
    assert dptrain.evaluate(net, digits, devices="cpu").accuracy > 0.9
    assert run.epochs == 10


def test_sequences_and_values_with_axes():
    b = Builder("sequences")
    x = b.embedding(b.input_ids(6), "words", rows=20, width=8)
    x = b.positions(x, "places", rows=6)
    x = b.add(x, b.attention(b.rms_norm(x, "norm"), "attention", heads=2, causal=True))
    x = b.sequence_linear(x, "wide", out=24)
    x = b.attend(b.rotary(x, heads=6), heads=2, causal=True)
    for name, layer in (("lstm", b.lstm), ("gru", b.gru), ("rnn", b.rnn)):
        x = layer(x, name, hidden=8)
    assert x.axes == (8, 1, 6)
    t = b.transpose(b.reshape(x, [8, 6]), [1, 0])
    first, second = b.split_axis(t, 1, [3, 5])
    joined = b.concatenate([second, first], 1)
    w = b.parameter("w", [8, 8], np.eye(8))
    product = b.matmul(b.softmax(joined, 1), w)
    product = b.elementwise("a + b", product, b.expand(b.constant(np.ones((1, 8))), [6, 8]))
    product = b.slice(product, axis=0, begin=1, count=5)
    pooled = b.reduce_axes(product, "mean", [0])
    net = b.finish(b.linear(b.flatten(pooled), "fc", out=2))
    random = np.random.default_rng(0)
    ids = random.integers(0, 20, (64, 6))
    run = dptrain.fit(net, (ids, ids[:, 0] % 2), devices=DEVICES, epochs=2, batch_size=32)
    assert np.isfinite(run.losses).all()
    with pytest.raises(InvalidError, match="25"):
        dptrain.predict(net, np.where(ids == 3, 25, ids), devices="cpu")


def test_a_label_for_each_pixel():
    b = Builder("pixels")
    net = b.finish(b.conv2d(b.input(1, 4, 4), "conv", out_channels=2, kernel=1), per_pixel=True)
    x = np.random.default_rng(0).normal(0, 1, (64, 1, 4, 4)).astype(np.float32)
    labels = (x[:, 0] > 0).astype(np.int64)
    labels[0, 0, 0] = dptrain.IGNORED_LABEL
    run = dptrain.fit(net, (x, labels), devices=DEVICES, epochs=30, lr=0.5)
    assert run.history["train_accuracy"][-1] > 0.9
    assert dptrain.predict(net, x, devices="cpu").shape == (64, 16, 2)
    labels[3, 2, 1] = 2
    with pytest.raises(InvalidError, match=r"labels\[3, 2, 1\] is 2"):
        dptrain.fit(net, (x, labels), devices="cpu")


def test_a_batch_without_a_label_that_counts():
    b = Builder("pixels")
    net = b.finish(b.conv2d(b.input(1, 2, 2), "conv", out_channels=2, kernel=1), per_pixel=True)
    x = np.ones((4, 1, 2, 2), np.float32)
    labels = np.full((4, 2, 2), dptrain.IGNORED_LABEL, np.int64)
    trainer = dptrain.Trainer(net, (x, labels), devices=DEVICES, batch_size=4, lr=1.0)
    before = trainer.get("conv.weight").copy()
    assert trainer.step().loss == 0
    np.testing.assert_array_equal(trainer.get("conv.weight"), before)


def test_mistakes_are_told_at_once():
    b = Builder("mistakes")
    x = b.input(1, 8, 8)
    with pytest.raises(TypeError, match="'strid'; did you mean 'stride'"):
        b.conv2d(x, "conv", out_channels=4, kernel=3, strid=2)
    with pytest.raises(ValueError, match="did you mean 'relu'"):
        b.activate(x, "rellu")
    with pytest.raises(InvalidError, match="conv"):
        b.conv2d(x, "conv", out_channels=4, kernel=9)
    with pytest.raises(StateError, match="begin again"):
        b.flatten(x)
    with pytest.raises(InvalidError, match=r"\(2, 2\)"):
        Builder("other").input(2, 2)


def circle(builder, x, fails=False, deterministic=False):
    """The distance of points from the unit circle."""

    def forward(points):
        if fails:
            raise RuntimeError("cannot compute")
        return np.hypot(points[:, :1], points[:, 1:]) - 1

    def backward(points, gradient):
        return [gradient * points / np.hypot(points[:, :1], points[:, 1:])]

    return builder.operator(
        "circle", [x], forward, backward=backward, elements=1, deterministic=deterministic
    )


def test_operators_of_the_program():
    random = np.random.default_rng(0)
    points = random.normal(0, 1, (64, 2)).astype(np.float32)
    targets = (np.hypot(2 * points[:, 0], 2 * points[:, 1]) - 1)[:, None].astype(np.float32)
    b = Builder("circle")
    net = b.finish(circle(b, b.linear(b.input(2), "scale", out=2, no_bias=True)))
    run = dptrain.fit(
        net, (points, targets), devices=DEVICES, loss="squared-error", epochs=200, lr=0.1
    )
    assert run.losses[-1] < 1e-4
    scale = net.weights["scale.weight"]
    assert np.allclose(scale @ scale.T, 4 * np.eye(2), atol=0.05)


def test_an_operator_that_fails():
    b = Builder("circle")
    net = b.finish(circle(b, b.linear(b.input(2), "scale", out=2), fails=True))
    x = np.ones((8, 2), np.float32)
    with pytest.raises(CallbackError, match="cannot compute") as caught:
        dptrain.fit(net, (x, x[:, :1]), devices="cpu", loss="squared-error")
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_a_loss_of_the_program(net, digits):
    calls = []

    def cross_entropy(logits, labels):
        calls.append(len(logits))
        e = np.exp(logits - logits.max(1, keepdims=True))
        p = e / e.sum(1, keepdims=True)
        rows = np.arange(len(labels))
        gradient = p.copy()
        gradient[rows, labels] -= 1
        return -np.log(p[rows, labels]), gradient, logits.argmax(1) == labels

    options = dict(devices=DEVICES, split="equal", epochs=3, batch_size=50)
    own = dptrain.fit(net.copy(), digits, loss=cross_entropy, **options)
    wanted = dptrain.fit(net.copy(), digits, **options)
    assert sum(calls) >= 900
    assert np.allclose(own.losses, wanted.losses, rtol=1e-4)
    assert np.allclose(own.history["train_accuracy"], wanted.history["train_accuracy"], atol=0.01)
    with pytest.raises(CallbackError, match="shape"):
        dptrain.fit(net, digits, loss=lambda logits, labels: (logits, logits), **options)
