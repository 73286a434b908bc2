"""Mistakes of the program: the error says what is wrong and what to do, and nothing crashes."""

import os
import pickle
import subprocess
import sys
import threading

import dptrain
import numpy as np
import pytest
from dptrain import Dataset
from dptrain.errors import CallbackError, InvalidError, IOFailedError, UnsupportedError


def train(net, data, **options):
    return dptrain.fit(net, data, **{"devices": "cpu", "epochs": 1, "progress": False, **options})


@pytest.mark.parametrize(
    "options, words",
    [
        (dict(epochs=0), "epochs=0: give a number from 1 on"),
        (dict(batch_size=0), "batch_size=0: give a number from 1 on"),
        (dict(epochs=-1), "epochs=-1: give a number that is not negative"),
        (dict(seed=2**64), "seed=18446744073709551616: give a smaller number"),
        (dict(warmup="3foo"), "warmup='3foo'"),
        (dict(group="x:lr=a"), "group='x:lr=a'"),
        (dict(shuffle="no"), "shuffle='no'"),
        (dict(devices=[]), "names no device"),
        (dict(devices=" "), "names no device"),
        (dict(devices="cpu\0x"), "zero byte"),
        (dict(log="a\0b"), "zero byte"),
        (dict(checkpoint_every=5), "checkpoint_every goes with checkpoint"),
        (dict(wants_checkpoint=lambda: True), "wants_checkpoint goes with checkpoint"),
        (dict(validation=0.1, test=(np.zeros((4, 1, 8, 8)), np.zeros(4))), "real numbers are"),
        (dict(test=np.zeros((4, 1, 8, 8))), r"no labels.*give \(x, y\)"),
    ],
)
def test_options(net, digits, options, words):
    with pytest.raises(ValueError, match=words):
        train(net, digits, **options)


@pytest.mark.parametrize(
    "options, words",
    [
        (dict(on_step=3), "on_step is a function or a list of functions, and 3"),
        (dict(on_epoch="abc"), "on_epoch is a function or a list of functions, and 'abc'"),
        (dict(on_event=[print, 3]), "on_event is a function or a list of functions, and 3"),
        (dict(wants_checkpoint=3), "wants_checkpoint is a function, and 3"),
        (dict(init=3), "init=3: give text"),
        (dict(devices=0), "devices=0: give text"),
    ],
)
def test_types_of_options(net, digits, options, words):
    with pytest.raises(TypeError, match=words):
        train(net, digits, **options)


def test_augmentations_as_a_list(net, digits):
    def losses(**options):
        return train(net.copy(), digits, devices="cpu:threads=1", **options).losses

    by_text = losses(augment="crop:2,flip")
    assert losses(augment=["crop:2", "flip"]) == by_text
    assert losses() != by_text


@pytest.mark.parametrize(
    "x, y, words",
    [
        (np.zeros((4, 1, 0, 8)), np.zeros(4, int), r"shape \(4, 1, 0, 8\): a sample of it has no"),
        (np.zeros((4, 8)), np.array(list("abab")), r"numpy.unique\(y, return_inverse=True\)"),
        (np.zeros((4, 8)), np.array(list("abab"), object), r"numpy.unique"),
        (np.zeros((4, 8), object), np.zeros(4, int), r"x.astype\(numpy.float32\)"),
        (np.zeros((4, 8)), np.zeros(4), r"real numbers are targets.*y.astype"),
        (np.zeros((4, 8)), None, r"no labels.*give \(x, y\)"),
        (np.zeros((4, 8)), np.full(4, 2**31 - 1), "2147483647; the largest that can be"),
        ({1: np.zeros((4, 8))}, np.zeros(4, int), "have names, not 1"),
        ((np.zeros((4, 8)), np.zeros(4), np.zeros(4)), np.zeros(4, int), r"a pair \(x, y\)"),
    ],
)
def test_arrays(x, y, words):
    with pytest.raises(InvalidError, match=words):
        train("linear", (x, y))


def test_numbers_of_ml_dtypes():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.arange(32).reshape(4, 8) / 8  # exact in bfloat16
    y = np.arange(4) % 2
    wanted = train("linear", (x, y)).losses
    assert train("linear", (x.astype(ml_dtypes.bfloat16), y)).losses == wanted


x0 = np.zeros((1, 8, 8), np.float32)


@pytest.mark.parametrize(
    "elements, words",
    [
        ([(x0, 0), x0], "element 1 has no label, unlike element 0"),
        ([{"x": x0, "y": 0}, {"z": x0, "y": 0}], "a dict with z, and a dict with x"),
        ([{"x": x0, "y": 0}, (x0, 0)], "element 1 has other parts than element 0"),
        ([((x0, x0), 0), ((x0,), 0)], "a tuple of 1, and a tuple of 2"),
    ],
)
def test_elements_that_are_unlike(elements, words):
    with pytest.raises(InvalidError, match=words):
        Dataset.collect(iter(elements))


def test_the_order_of_loaders(net, digits):
    torch = pytest.importorskip("torch")
    from torch.utils import data

    x, y = digits
    samples = data.TensorDataset(torch.from_numpy(x), torch.from_numpy(y))

    def of(**options):
        return Dataset.of(data.DataLoader(samples, **options))

    drawn = data.WeightedRandomSampler([1.0] * 300, 300)
    for refused in (
        dict(sampler=drawn, batch_size=7),
        dict(batch_sampler=data.BatchSampler(drawn, 7, False)),
        dict(sampler=data.RandomSampler(samples, replacement=True), batch_size=7),
        dict(sampler=data.RandomSampler(samples, num_samples=10), batch_size=7),
        dict(sampler=data.SequentialSampler(range(10)), batch_size=7),
    ):
        with pytest.raises(UnsupportedError, match="the order of"):
            of(**refused)
    found = of(batch_sampler=data.BatchSampler(data.RandomSampler(samples), 7, False))
    assert (found.batch_size, found.shuffle) == (7, True)
    found = of(batch_sampler=data.BatchSampler(data.SequentialSampler(samples), 9, False))
    assert (found.batch_size, found.shuffle) == (9, False)
    with pytest.raises(InvalidError, match="element 0 has one number where a batch is needed"):
        of(batch_size=10, collate_fn=lambda batch: (torch.zeros(10, 8), torch.zeros(10), 1))
    with pytest.raises(InvalidError, match="meta tensor"):
        Dataset(torch.zeros(4, 8, device="meta"))


def test_an_exception_without_proper_text(net, digits):
    class Samples:
        targets = [0, 1] * 10

        def __len__(self):
            return 20

        def __getitem__(self, i):
            if i > 10:
                raise ValueError("\ud800")
            return x0, i % 2

    with pytest.raises(IOFailedError, match="ud800") as caught:
        train("linear", Samples())
    assert isinstance(caught.value.__cause__, ValueError)

    def loss(outputs, labels):
        raise ValueError("\ud800")

    with pytest.raises(CallbackError, match="ud800"):
        train(net, digits, loss=loss)


def test_arrays_of_a_loss_may_be_kept(net, digits):
    kept = []

    def loss(outputs, labels):
        kept.append((outputs, labels, outputs.copy(), labels.copy()))
        return outputs.sum(1), np.ones_like(outputs)

    train(net, digits, loss=loss)
    train(net, digits)
    for outputs, labels, outputs_then, labels_then in kept:
        assert np.array_equal(outputs, outputs_then) and np.array_equal(labels, labels_then)
        outputs[...] = 0


def test_a_picture_is_read_from_files_alone(net, digits, tmp_path):
    path = str(tmp_path / "pipe")
    os.mkfifo(path)
    got = []

    def read():
        with open(path, "rb") as pipe:
            got.append(pipe.read())

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        run = train(net, digits, plot=path)
        assert run.svg == ""
    except IOFailedError:
        pass  # where pictures are written to files only
    if not got:  # ends the reader
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
    reader.join(10)
    assert not reader.is_alive()


def test_what_holds_devices_is_not_copied(net, digits):
    with dptrain.Trainer(net, digits, devices="cpu") as trainer:
        with pytest.raises(TypeError, match="Trainer can neither be copied nor pickled"):
            pickle.dumps(trainer)
    epochs = []
    train(net, digits, on_epoch=epochs.append)
    read = pickle.loads(pickle.dumps(epochs[0]))
    assert read == epochs[0] and read.trainer is None


def test_a_data_set_that_is_read_on_demand_can_be_pickled(digits):
    samples = Dataset.read(list(zip(*digits)), seeded=True)
    read = pickle.loads(pickle.dumps(samples))
    net = dptrain.Model("linear")
    assert train(net, read).losses == train("linear", samples).losses


def test_without_cffi():
    program = "import sys; sys.modules['_cffi_backend'] = None; import dptrain"
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True
    )
    assert done.returncode == 1 and "pip install cffi" in done.stderr


def test_columns_of_a_table():
    pandas = pytest.importorskip("pandas")
    x = pandas.DataFrame(np.random.default_rng(0).random((40, 3)), columns=list("abc"))
    y = pandas.Series(["cat", "dog"] * 20)
    classifier = dptrain.DptrainClassifier(devices="cpu", epochs=1).fit(x, y)
    assert list(classifier.feature_names_in_) == ["a", "b", "c"]
    assert set(classifier.predict(x)) <= {"cat", "dog"}
    with pytest.raises(ValueError, match="feature names should match"):
        classifier.predict(x[["c", "b", "a"]])
    classifier.fit(x.to_numpy(), y)
    assert not hasattr(classifier, "feature_names_in_")


def test_classes_that_cannot_be_sorted():
    with pytest.raises(InvalidError, match="cannot be sorted"):
        y = np.array(["cat", None] * 20, object)
        dptrain.DptrainClassifier(devices="cpu", epochs=1).fit(np.zeros((40, 3)), y)


def test_a_module_is_no_network(net, digits):
    torch = pytest.importorskip("torch")
    module = torch.nn.Linear(3, 2)
    for call in (
        lambda: train(module, digits),
        lambda: dptrain.Model(module),
    ):
        with pytest.raises(TypeError, match="no Linear; a module of PyTorch becomes one by"):
            call()
    for call in (dptrain.predict, dptrain.evaluate):
        with pytest.raises(TypeError, match="a Model that has weights, and no str"):
            call("lenet", digits, devices="cpu")
    net.initialize()
    with pytest.raises(TypeError, match="to_torch takes a torch.nn.Module"):
        net.to_torch(3)
    with pytest.raises(TypeError, match="weights are a dict"):
        net.weights = 3


def test_modules_and_examples_that_are_refused():
    torch = pytest.importorskip("torch")
    linear, example = torch.nn.Linear(3, 2), torch.zeros(2, 3)
    for wrong, words in (
        (torch.tensor(3.0), "its first axis must count samples"),
        (torch.zeros(0, 3), "its first axis must count samples"),
        (example.half(), r"example.float\(\), and module.float\(\)"),
    ):
        with pytest.raises(InvalidError, match=words):
            dptrain.from_torch(linear, wrong)
    with pytest.raises(InvalidError, match="give that one, module.module"):
        dptrain.from_torch(torch.nn.DataParallel(linear), example)
    with pytest.raises(InvalidError, match="give that one, module._orig_mod"):
        dptrain.from_torch(torch.compile(linear), example)


def test_messages_have_no_folder_of_the_package():
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    net = dptrain.from_torch(torch.nn.Linear(3, 2), np.zeros((1, 3)))
    with pytest.raises(InvalidError, match=r"shape \(4\), but model Linear.onnx reads"):
        train(net, (np.zeros((4, 4)), [0, 1, 0, 1]))


def test_the_shape_of_images_is_explained():
    net = dptrain.Model("linear", input=(1, 8, 8), classes=2)
    with pytest.raises(InvalidError, match=r"reads \(8, 8, 1\): height, width and channels"):
        train(net, (np.zeros((4, 1, 4, 8)), [0, 1, 0, 1]))


def test_normalizing_many_channels():
    with pytest.raises(UnsupportedError, match="up to 4 channels.*scale the values before"):
        train("linear", (np.random.random((4, 5)), [0, 1, 0, 1]), normalize=True)


def test_values_of_another_builder():
    ours, theirs = dptrain.Builder("ours"), dptrain.Builder("theirs")
    x = ours.flatten(ours.input(1, 8, 8))
    z = theirs.flatten(theirs.input(1, 8, 8))
    with pytest.raises(InvalidError, match="of the network theirs cannot be used in the network o"):
        ours.linear(z, "fc", out=3)
    with pytest.raises(InvalidError, match="cannot be used in the network ours"):
        ours.concatenate([x, z], 0)
    with pytest.raises(TypeError, match="what a method of the builder has returned, and no int"):
        ours.finish(3)
    assert ours.finish(ours.linear(x, "fc", out=3)).parameter_count == 195


def test_a_builder_after_a_failure():
    b = dptrain.Builder("b")
    x = b.input(1, 8, 8)
    with pytest.raises(InvalidError, match="takes a flat input"):
        b.linear(x, "fc", out=3)
    with pytest.raises(dptrain.errors.StateError, match="begin again with a new Builder"):
        b.flatten(x)
    with pytest.raises(ValueError, match="out=-1"):
        b.linear(x, "fc", out=-1)
    for options in (dict(input=(1, 8, 8), classes=0), dict(input=(-1, 8, 8), classes=3)):
        with pytest.raises(InvalidError, match="all numbers are 1 or more"):
            dptrain.Model("mlp", **options)


def test_a_list_in_place_of_a_pair(net, digits):
    with pytest.raises(InvalidError, match=r"\(300, 1, 8, 8\), \(300,\). Give .* a tuple \(x, y\)"):
        train(net, list(digits))


def test_a_warning_names_the_line_of_the_program(net, digits, tmp_path):
    folder = str(tmp_path)
    options = dict(batch_size=50, checkpoint=folder)
    train(net, digits, epochs=9, max_steps=9, on_step=lambda step: step.step == 2, **options)
    for name in os.listdir(folder):
        if name.startswith("checkpoint-"):
            os.truncate(os.path.join(folder, name), 100)
    with pytest.warns(RuntimeWarning, match="checksum does not fit") as caught:
        with pytest.raises(dptrain.errors.FormatError):
            dptrain.fit(net, digits, devices="cpu", epochs=9, max_steps=9, resume=True, **options)
    assert {warning.filename for warning in caught} == {__file__}


def test_a_closed_model_is_closed_for_everything(net, digits, tmp_path):
    path = tmp_path / "net.safetensors"
    net.initialize().save(path)
    net.close()
    for call in (
        net.copy,
        lambda: net.weights,
        lambda: net.save(path),
        lambda: net.load(path),
        lambda: pickle.dumps(net),
        lambda: dptrain.predict(net, digits[0], devices="cpu"),
        lambda: train(net, digits),
    ):
        with pytest.raises(dptrain.errors.ClosedError, match="is closed"):
            call()


def test_times_of_predictions(net, digits):
    net.initialize()
    wanted = dptrain.predict(net, digits[0], devices="cpu")
    found = dptrain.predict(net, digits[0], devices="cpu", device_timeout="2m")
    assert np.array_equal(found, wanted)
    with pytest.raises(ValueError, match="no time"):
        dptrain.predict(net, digits[0], devices="cpu", device_timeout="soon")
