"""Data sets: arrays, readers, iterables, and what is wrong with them."""

import threading

import numpy as np
import pytest

import dptrain
from conftest import DEVICES
from dptrain import Dataset
from dptrain.errors import FormatError, InvalidError, IOFailedError, NotFoundError


def losses(net, data, **options):
    return dptrain.fit(
        net.copy(), data, devices="cpu:threads=1", epochs=2, batch_size=50, **options
    ).losses


class Samples:
    """A map-style data set that counts its reads."""

    def __init__(self, x, y):
        self.x, self.y, self.reads, self.lock = x, y, 0, threading.Lock()

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        with self.lock:
            self.reads += 1
        return self.x[i], self.y[i]


def test_all_ways_to_give_data_are_the_same_training(net, digits):
    x, y = digits
    wanted = losses(net, (x, y))
    assert len(wanted) == 12
    assert losses(net, Dataset(x, y.astype(np.uint8))) == wanted
    assert losses(net, (x.astype(np.float64), y.astype(np.int16))) == wanted
    assert losses(net, (np.asfortranarray(x), y.tolist())) == wanted
    assert losses(net, (x.transpose(0, 2, 3, 1), y)) == wanted  # channels last
    assert losses(net, (x[:, 0], y)) == wanted  # without the axis of one channel
    assert losses(net, Dataset({"any": x}, y)) == wanted
    assert losses(net, Dataset.read(Samples(x, y))) == wanted
    assert losses(net, Dataset.read(Samples(x, y), labels=y, threads=2)) == wanted
    assert losses(net, ((a, b) for a, b in zip(x, y))) == wanted
    batches = ((x[i : i + 70], y[i : i + 70]) for i in range(0, 300, 70))
    assert losses(net, Dataset.collect(batches, batched=True)) == wanted
    # The order matters, so that equal losses above are no accident.
    assert losses(net, (x[::-1], y[::-1])) != wanted


class Producer:
    """Shares its memory by DLPack alone."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_dlpack_is_read_without_a_copy(net, digits):
    x, y = digits
    data = Dataset(Producer(x), Producer(y))
    assert np.shares_memory(data._source.inputs["x"], x)
    assert losses(net, data) == losses(net, (x, y))


def test_arrays_may_change_while_training_runs(net, digits):
    x, y = digits
    changing, labels = x.copy(), y.copy()

    def spoil(step):
        changing[...] = np.nan
        labels[...] = 99

    spoiled = losses(net, (changing, labels), on_step=spoil)
    assert np.isnan(changing).all()
    assert spoiled == losses(net, (x, y))


def test_bytes_are_values_from_0_to_1(net, digits):
    x, y = digits
    pixels = np.clip(x * 60 + 100, 0, 255).astype(np.uint8)
    assert np.allclose(
        losses(net, (pixels, y)), losses(net, (pixels.astype(np.float32) / 255, y)), atol=1e-5
    )


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda x, y: (x[:, :, :7], y), r"\(1, 7, 8\).*8, 8"),
        (lambda x, y: (x, y[:200]), r"300 samples.*200.*\(300, 1, 8, 8\) and \(200,\)"),
        (lambda x, y: (x, np.where(np.arange(300) == 17, 10, y)), r"labels\[17\] is 10.*0 to 9"),
        (lambda x, y: (x, np.where(np.arange(300) == 5, -1, y)), r"labels\[5\] is -1"),
        (lambda x, y: (x, np.where(np.arange(300) == 3, 2**40, y)), r"y\[3\] is 1099511627776"),
        (lambda x, y: (x[:0], y[:0]), r"no samples: its shape is \(0, 1, 8, 8\)"),
        (lambda x, y: (x.astype(np.complex64), y), r"complex64.*\(300, 1, 8, 8\)"),
        (lambda x, y: (np.array(["a"] * 300), y), r"<U1.*\(300,\)"),
        (lambda x, y: (np.float32(3), y), "one number"),
        (lambda x, y: (x, np.zeros((300, 2), np.int32)), r"\(300, 2\).*\(300,\)"),
        (lambda x, y: ({}, y), "no array"),
        (lambda x, y: (np.zeros((300,) + (1,) * 9), y), "axes"),
    ],
)
def test_wrong_arrays_are_refused(net, digits, change, message):
    with pytest.raises((InvalidError, FormatError), match=message):
        losses(net, change(*digits))


def test_a_wrong_type_of_data_is_named(net):
    with pytest.raises(TypeError, match="int"):
        dptrain.fit(net, 5)


def test_real_labels_are_targets(digits):
    b = dptrain.Builder("regression")
    net = b.finish(b.linear(b.flatten(b.input(1, 8, 8)), "fc", out=2))
    x, y = digits
    targets = np.stack([y, -y], 1).astype(np.float32) / 10
    run = dptrain.fit(net, (x, targets), devices=DEVICES, loss="squared-error", epochs=20, lr=0.05)
    assert run.losses[-1] < 0.5 * run.losses[0]
    predicted = dptrain.predict(net, x, devices="cpu")
    assert np.mean((predicted - targets) ** 2) == pytest.approx(
        dptrain.evaluate(net, (x, targets), devices="cpu", loss="squared-error").loss, rel=1e-4
    )
    # Integers are numbers for such a loss, too.
    dptrain.fit(net, (x, np.stack([y, y], 1)), devices="cpu", loss="squared-error", max_steps=1)


def test_the_reader_reads_ahead_and_each_epoch(net, digits):
    samples = Samples(*digits)
    data = Dataset.read(samples, labels=digits[1])
    before = samples.reads
    dptrain.fit(net, data, devices="cpu", epochs=2)
    assert samples.reads - before >= 600


class Failing(Samples):
    fails = False

    def __getitem__(self, i):
        if self.fails and i == 123:
            raise RuntimeError("no such record")
        return super().__getitem__(i)


def test_an_exception_of_the_reader_is_the_cause(net, digits):
    samples = Failing(*digits)
    data = Dataset.read(samples)
    samples.fails = True
    with pytest.raises(IOFailedError, match="sample 123.*no such record") as caught:
        dptrain.fit(net, data, devices="cpu", epochs=3)
    assert isinstance(caught.value.__cause__, RuntimeError)
    samples.fails = False
    assert dptrain.fit(net, data, devices="cpu", epochs=1).epochs == 1


def test_samples_of_several_shapes_are_named(net, digits):
    x, y = digits
    ragged = [(a[:, :5] if i == 40 else a, b) for i, (a, b) in enumerate(zip(x, y))]
    with pytest.raises(InvalidError, match=r"element 40 .*\(1, 5, 8\).*\(1, 8, 8\)"):
        Dataset.collect(iter(ragged))

    class Ragged(Samples):
        def __getitem__(self, i):
            return ragged[i]

    with pytest.raises(IOFailedError, match=r"sample 40.*\(1, 5, 8\)"):
        dptrain.fit(net, Dataset.read(Ragged(x, y)), devices="cpu")


def test_a_sample_that_uses_dptrain_is_an_error_and_no_deadlock(net, digits):
    class Predicting(Samples):
        ready = False

        def __getitem__(self, i):
            if self.ready:
                dptrain.predict(other, self.x[:1], devices="cpu")
            return super().__getitem__(i)

    other = net.copy().initialize()
    samples = Predicting(*digits)
    data = Dataset.read(samples)
    samples.ready = True
    with pytest.raises(IOFailedError, match="wait for itself"):
        dptrain.fit(net, data, devices="cpu")


def test_labels_that_are_not_those_of_the_samples(net, digits):
    x, y = digits
    with pytest.raises(IOFailedError, match="answer"):
        dptrain.fit(net, Dataset.read(Samples(x, y), labels=(y + 1) % 10), devices="cpu")


class Noisy(Samples):
    """Changes its samples at random, as augmentations do."""

    def __getitem__(self, i):
        x, y = super().__getitem__(i)
        return x + np.random.normal(0, 0.1, x.shape).astype(np.float32), y


def test_seeded_samples_can_be_repeated_and_resumed(net, digits, tmp_path):
    def data():
        return Dataset.read(Noisy(*digits), labels=digits[1], seeded=True)

    np.random.seed(5)
    state = np.random.get_state()[1].copy()
    whole = losses(net, data())
    assert np.array_equal(np.random.get_state()[1], state), "the generator is as it was"
    assert losses(net, data()) == whole
    options = dict(devices="cpu:threads=1", batch_size=50, checkpoint=str(tmp_path / "run"))
    first = dptrain.fit(net.copy(), data(), max_steps=5, **options).losses
    rest = dptrain.fit(net.copy(), data(), epochs=2, resume=True, **options).losses
    assert first + rest == whole


def test_several_inputs(digits):
    x, y = digits
    b = dptrain.Builder("two")
    image, number = b.inputs(image=(1, 8, 8), number=(3,))
    joined = b.concatenate([b.flatten(image), b.flatten(number)], 0)
    net = b.finish(b.linear(b.flatten(joined), "fc", out=10))
    extra = np.random.default_rng(0).random((300, 3)).astype(np.float32)
    with pytest.raises(InvalidError, match="several inputs"):
        net.initialize()
    net.initialize(data=({"image": x, "number": extra}, y))
    wanted = losses(net, ({"image": x, "number": extra}, y))
    assert losses(net, ({"number": extra, "image": x}, y)) == wanted
    assert losses(net, ((x, extra), y)) == wanted  # in the order of the inputs
    assert losses(net, Dataset.read(Pairs(x, extra, y))) == wanted
    assert losses(net, {"image": x, "number": extra, "labels": y}) == wanted
    assert losses(net, Records(x, extra, y)) == wanted
    assert losses(net, iter(list(Records(x, extra, y)))) == wanted
    assert losses(net, list(Records(x, extra, y))) == wanted
    assert losses(net, [((x[i], extra[i]), y[i]) for i in range(300)]) == wanted
    probabilities = dptrain.predict(net, {"image": x, "number": extra}, devices="cpu")
    assert np.array_equal(dptrain.predict(net, (x, extra), devices="cpu"), probabilities)
    assert np.array_equal(dptrain.predict(net, ((x, extra), y), devices="cpu"), probabilities)
    with pytest.raises(InvalidError, match="sample 7 has no labels"):
        losses(net, [{"image": x[i], **({"labels": y[i]} if i != 7 else {})} for i in range(9)])
    with pytest.raises(InvalidError, match="has no array number"):
        losses(net, ({"image": x, "nummer": extra}, y))
    with pytest.raises(InvalidError, match="3 arrays.*image, number"):
        losses(net, ((x, extra, extra), y))


class Pairs(Samples):
    def __init__(self, x, extra, y):
        super().__init__(x, y)
        self.extra = extra

    def __getitem__(self, i):
        return {"image": self.x[i], "number": self.extra[i]}, self.y[i]


class Records(Pairs):
    """Samples that are dicts with their labels, as those of transformers."""

    def __getitem__(self, i):
        image, number = self.x[i], self.extra[i]
        return {"image": image, "number": number, "labels": self.y[i]}

    def __iter__(self):
        return (self[i] for i in range(len(self)))


def test_named_data_sets():
    data = Dataset.open("synthetic:8x8x1:10:200")
    assert len(data) == 200
    assert data.info().outputs == 10
    run = dptrain.fit("mlp", data, devices="cpu", epochs=1, batch_size=100)
    assert run.steps == 2
    with pytest.raises(InvalidError, match="fashion"):
        Dataset.open("fashion-mnits")
    with pytest.raises(NotFoundError):
        Dataset.open("idx", "/nowhere")
