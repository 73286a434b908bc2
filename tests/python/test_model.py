"""Networks: by name, weights in and out, files, and predictions."""

import numpy as np
import pytest

import dptrain
from conftest import DEVICES
from dptrain.errors import ClosedError, FormatError, InvalidError, NotFoundError, StateError


def test_a_network_by_name_takes_the_sizes_of_the_data(digits):
    net = dptrain.Model("mlp")
    with pytest.raises(StateError, match="input="):
        net.tensors  # noqa: B018
    dptrain.fit(net, digits, devices="cpu", max_steps=1)
    assert net.outputs == 10
    assert net.inputs[0].elements == 64
    assert net.layers[0].kind and net.parameter_count > 0


def test_sizes_may_be_given():
    net = dptrain.Model("lenet", input=(1, 28, 28), classes=7)
    assert net.outputs == 7
    assert {t.name: t.shape for t in net.tensors}["fc2.bias"] == (7,)
    with pytest.raises(InvalidError, match="conv1.*larger images"):
        dptrain.Model("lenet", input=(1, 2, 2), classes=7)
    with pytest.raises(TypeError, match="both"):
        dptrain.Model("lenet", classes=7)


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(InvalidError, match="lenet"):
        dptrain.Model("lennet")
    assert "resnet18" in dptrain.model_names()


def test_weights_go_out_and_in(net, digits):
    x, _ = digits
    with pytest.raises(StateError, match="train it"):
        net.weights  # noqa: B018
    net.initialize(seed=3)
    weights = net.weights
    assert {name: w.shape for name, w in weights.items()} == {
        "fc1.weight": (16, 64),
        "fc1.bias": (16,),
        "fc2.weight": (10, 16),
        "fc2.bias": (10,),
    }
    hidden = np.maximum(x.reshape(300, 64) @ weights["fc1.weight"].T + weights["fc1.bias"], 0)
    logits = hidden @ weights["fc2.weight"].T + weights["fc2.bias"]
    assert np.allclose(dptrain.predict(net, x, devices="cpu", outputs="logits"), logits, atol=1e-5)
    softmax = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    assert np.allclose(dptrain.predict(net, x, devices=DEVICES), softmax, atol=1e-5)
    net.weights = {"fc2.bias": weights["fc2.bias"] + 1}
    shifted = dptrain.predict(net, x, devices="cpu", outputs="logits")
    assert np.allclose(shifted, logits + 1, atol=1e-5)
    assert np.array_equal(net.weights["fc1.weight"], weights["fc1.weight"])


@pytest.mark.parametrize(
    "weights, message",
    [
        ({"fc3.bias": np.zeros(10)}, "no tensor fc3.bias.*fc2.bias"),
        ({"fc2.bias": np.zeros(9)}, r"\(9,\).*\(10,\)"),
        ({"fc2.bias": np.zeros(10)}, "lack fc1.weight"),
    ],
)
def test_wrong_weights_are_refused(net, weights, message):
    with pytest.raises(InvalidError, match=message):
        net.weights = weights
    assert not net.has_weights


def test_files_of_weights(net, digits, tmp_path):
    x, _ = digits
    net.initialize()
    path = tmp_path / "net.safetensors"
    net.save(path)
    other = net.copy()
    other.weights = {name: 0 * w for name, w in net.weights.items()}
    other.load(path)
    assert np.array_equal(
        dptrain.predict(other, x, devices="cpu"), dptrain.predict(net, x, devices="cpu")
    )
    with pytest.raises(NotFoundError, match="nowhere"):
        net.load("/nowhere/x.safetensors")
    path.write_bytes(b"\xff" * 100)
    with pytest.raises(FormatError):
        net.load(path)
    assert np.array_equal(net.weights["fc2.bias"], other.weights["fc2.bias"])


def test_weights_may_lie_in_any_order(net, tmp_path):
    net.initialize(3)
    weights = {name: np.asfortranarray(values)[..., ::-1] for name, values in net.weights.items()}
    expected = {name: values.copy() for name, values in weights.items()}
    net.weights = weights
    net.save(tmp_path / "turned.safetensors")
    net.initialize(4)
    net.load(tmp_path / "turned.safetensors")
    for name, values in net.weights.items():
        np.testing.assert_array_equal(values, expected[name], name)


def test_safetensors_of_others(net, tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")
    net.initialize()
    net.save(tmp_path / "a.safetensors")
    read = safetensors.load_file(tmp_path / "a.safetensors")
    assert {n: w.tolist() for n, w in read.items()} == {
        n: w.tolist() for n, w in net.weights.items()
    }
    safetensors.save_file(read, tmp_path / "b.safetensors")
    assert np.array_equal(
        net.copy().load(tmp_path / "b.safetensors").weights["fc1.bias"], read["fc1.bias"]
    )


def test_a_damaged_file_is_no_crash(net, tmp_path):
    from dptrain import _safetensors

    net.initialize()
    path = tmp_path / "x"
    net.save(path)
    whole = path.read_bytes()
    for n in (0, 4, 8, 100, len(whole) - 1):
        path.write_bytes(whole[:n])
        with pytest.raises(FormatError, match="no safetensors"):
            _safetensors.read(str(path))


def test_the_network_of_a_checkpoint(digits, tmp_path):
    run = dptrain.fit("mlp", digits, devices="cpu", max_steps=3, checkpoint=str(tmp_path / "run"))
    again = dptrain.Model("mlp", input=(1, 8, 8), classes=10).load(tmp_path / "run")
    assert np.array_equal(again.weights["fc1.bias"], run.net.weights["fc1.bias"])


def test_predictions_are_normalised_as_the_training_was(net, digits, tmp_path):
    x, y = digits
    run = dptrain.fit(net, (x * 9 + 50, y), devices="cpu", epochs=30, normalize=True)
    assert dptrain.evaluate(net, (x * 9 + 50, y), devices="cpu").accuracy > 0.9
    probabilities = dptrain.predict(net, x * 9 + 50, devices="cpu")
    assert np.mean(probabilities.argmax(1) == y) > 0.9
    run.net.save(tmp_path / "n.safetensors")
    loaded = net.copy().load(tmp_path / "n.safetensors")
    assert np.allclose(dptrain.predict(loaded, x * 9 + 50, devices="cpu"), probabilities, atol=1e-5)


def test_a_network_without_weights(net, digits):
    for use in (lambda: dptrain.predict(net, digits[0]), lambda: dptrain.evaluate(net, digits)):
        with pytest.raises(StateError, match="no weights yet: train it"):
            use()
    with pytest.raises(StateError, match="no weights"):
        dptrain.predict(dptrain.Model("lenet"), digits[0])


def test_predictions_of_wrong_samples(net, digits):
    net.initialize()
    with pytest.raises(InvalidError, match=r"\(1, 8, 7\).*8, 8"):
        dptrain.predict(net, digits[0][..., :7], devices="cpu")
    with pytest.raises(ValueError, match="probabilities"):
        dptrain.predict(net, digits[0], devices="cpu", outputs="softmax")


def test_onnx_out_and_in(net, digits, tmp_path):
    x, _ = digits
    net.initialize()
    path = tmp_path / "net.onnx"
    try:
        net.to_onnx(path)
    except dptrain.errors.UnsupportedError as why:
        pytest.skip(str(why))
    read = dptrain.Model(str(path))
    assert np.allclose(
        dptrain.predict(read, x, devices="cpu"), dptrain.predict(net, x, devices="cpu"), atol=1e-5
    )
    with pytest.raises(NotFoundError):
        dptrain.Model("/nowhere/net.onnx")


def test_closed(net, digits):
    net.initialize()
    net.close()
    net.close()
    with pytest.raises(ClosedError, match="closed"):
        dptrain.predict(net, digits[0], devices="cpu")
    assert "closed" in repr(net)
