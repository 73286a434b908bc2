"""Networks that pickle has stored: the same predictions, and the same training afterwards."""

import copy
import pickle

import numpy as np
import pytest

import dptrain
from dptrain.errors import ClosedError

ONCE = {"devices": "cpu:threads=1", "epochs": 2, "lr": 0.05, "batch_size": 30, "momentum": 0.9}


def by_name(tmp_path):
    return dptrain.Model("mlp", input=(1, 8, 8), classes=10)


def built(tmp_path):
    b = dptrain.Builder("built")
    x, side = b.input(1, 8, 8), np.linspace(-1, 1, 10)
    x = b.conv2d(x, "conv", out_channels=4, kernel=(3, 3), padding=1)
    x = b.dropout(b.batch_norm(x, "bn", activation="relu"), 0.2)
    one, two = b.split_axis(b.reshape(b.pool2d(x, kind="max", kernel=2), [64]), 0, [32, 32])
    x = b.linear(b.concatenate([two, one], 0), "fc", out=10)
    net = b.finish(b.add(x, b.constant(side)))
    side[:] = np.nan  # the network has a copy
    return net


def double(a):
    return 2 * a


def double_backward(a, gradient):
    return [2 * gradient]


def with_a_function(tmp_path):
    b = dptrain.Builder("own")
    x = b.operator(
        "double", [b.flatten(b.input(1, 8, 8))], double, backward=double_backward, elements=64
    )
    return b.finish(b.linear(x, "fc", out=10))


def onnx_file(tmp_path):
    net = built(tmp_path).initialize(seed=5)
    net.to_onnx(tmp_path / "a net.onnx")
    return dptrain.Model(str(tmp_path / "a net.onnx"))


def module(tmp_path):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    pytest.importorskip("onnxscript", reason="the exporter of PyTorch needs onnxscript")
    layers = torch.nn
    one = layers.Sequential(
        layers.Conv2d(1, 4, 3), layers.BatchNorm2d(4), layers.ReLU(), layers.Dropout(0.2),
        layers.Flatten(), layers.Linear(144, 10),
    )  # fmt: skip
    one[0].weight.requires_grad_(False)
    return dptrain.from_torch(one, torch.randn(2, 1, 8, 8))


@pytest.mark.parametrize("make", [by_name, built, with_a_function, onnx_file, module])
def test_every_network(make, digits, tmp_path):
    x, y = digits
    net = make(tmp_path)
    before = pickle.loads(pickle.dumps(net))
    assert not before.has_weights and repr(before) == repr(net)
    dptrain.fit(net, digits, normalize=True, **ONCE)
    stored = pickle.dumps(net)
    expected = dptrain.predict(net, x, devices="cpu")
    for path in tmp_path.iterdir():
        path.unlink()
    read = pickle.loads(stored)
    assert np.array_equal(dptrain.predict(read, x, devices="cpu"), expected)
    assert read.tensors == net.tensors and read.frozen == net.frozen
    twice = pickle.loads(pickle.dumps(read))
    deep = copy.deepcopy(read)
    dptrain.fit(net, digits, **ONCE)
    for one in (read, twice, deep):
        dptrain.fit(one, digits, **ONCE)
        assert all(np.array_equal(one.weights[name], w) for name, w in net.weights.items())
    dptrain.fit(before, digits, normalize=True, **ONCE)
    assert np.array_equal(dptrain.predict(before, x, devices="cpu"), expected)


def test_a_network_without_sizes(digits):
    net = pickle.loads(pickle.dumps(dptrain.Model("mlp")))
    assert dptrain.fit(net, digits, **ONCE).epochs == 2


def test_another_process_reads_it(net, digits, tmp_path, program):
    x, _ = digits
    net.initialize(seed=2)
    (tmp_path / "net.pickle").write_bytes(pickle.dumps(net))
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "expected.npy", dptrain.predict(net, x, devices="cpu"))
    code, out, error = program(
        f"""
import pickle, numpy as np, dptrain
folder = {str(tmp_path)!r}
net = pickle.load(open(folder + "/net.pickle", "rb"))
found = dptrain.predict(net, np.load(folder + "/x.npy"), devices="cpu")
assert np.array_equal(found, np.load(folder + "/expected.npy"))
print("the same")
"""
    )
    assert code == 0 and "the same" in out, error


def test_what_cannot_be_stored(net, tmp_path):
    b = dptrain.Builder("own")
    x = b.operator("f", [b.input(4)], lambda a: a, backward=double_backward, elements=4)
    own = b.finish(b.linear(x, "fc", out=2))
    with pytest.raises((AttributeError, pickle.PicklingError), match="lambda"):
        pickle.dumps(own)
    net.close()
    with pytest.raises(ClosedError, match="closed"):
        pickle.dumps(net)
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    path = tmp_path / "net.onnx"
    built(tmp_path).initialize().to_onnx(path)
    onnx.save(
        onnx.load(path), path, save_as_external_data=True, location="beside", size_threshold=0
    )
    apart = dptrain.Model(str(path))
    with pytest.raises(TypeError, match="cannot be pickled.*beside"):
        pickle.dumps(apart)


def test_a_folder_with_the_name_of_a_network_is_no_file_of_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mlp").mkdir()
    net = by_name(tmp_path).initialize()
    x = np.random.default_rng(0).random((5, 1, 8, 8)).astype(np.float32)
    stored = pickle.loads(pickle.dumps(net))
    assert np.array_equal(
        dptrain.predict(stored, x, devices="cpu"), dptrain.predict(net, x, devices="cpu")
    )
