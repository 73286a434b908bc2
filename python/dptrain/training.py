"""Training: `fit`, the trainer with single steps, and what a training gives."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable, Iterable, Mapping, Optional, Sequence, Union

import numpy as np

from . import _options
from ._callbacks import Loss, loss_function, take_failure
from ._context import Context, Node, Owned, context_for, device_list
from ._library import error_of, ffi, lib, text
from ._structs import as_dict, empty, word_of
from .data import Data, Dataset, describe
from .errors import Error, InvalidError, StateError
from .model import Model

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import FitOptions, TrainerOptions


# ---- What a training tells ----------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """A step.  `loss` is the mean over the labels of the batch; `accuracy` is NaN with a loss of
    targets.  `shards` has the samples of each device, `device_seconds` the time in which it was busy."""

    step: int
    epoch: int
    lr: float
    samples: int
    loss: float
    accuracy: float
    seconds: float
    shards: tuple
    device_seconds: tuple
    last_of_epoch: bool
    lost_devices: int


@dataclass(frozen=True)
class Epoch:
    """An epoch.  What was not evaluated is None.  `trainer` may evaluate, predict, get and save."""

    epoch: int
    train_loss: float
    train_accuracy: float
    validation_loss: Optional[float]
    validation_accuracy: Optional[float]
    test_loss: Optional[float]
    test_accuracy: Optional[float]
    seconds: float
    images_per_second: float
    weights_sha256: str
    trainer: Any = field(repr=False, compare=False, default=None)


@dataclass(frozen=True)
class Event:
    """Something that happened to a device, such as "device-lost"."""

    kind: str
    device: int
    id: str
    step: int
    message: str


@dataclass(frozen=True)
class Device:
    """A device of a training, and what it did.  `share` is its part of all samples."""

    id: str
    name: str
    backend: str
    threads: int
    memory_bytes: int
    samples: int
    share: float
    busy_seconds: float
    exchange_seconds: float
    waiting_seconds: float
    throughput: float


@dataclass(frozen=True)
class Evaluation:
    """Loss and accuracy over a data set.  `accuracy` is NaN with a loss of targets."""

    loss: float
    accuracy: float
    samples: int
    seconds: float


def _step(m: Any, regression: bool) -> Step:
    n = m.n_devices
    accuracy = m.hits / m.labels if m.labels and not regression else float("nan")
    shards = tuple(ffi.unpack(m.shards, n)) if n else ()
    busy = tuple(ffi.unpack(m.device_seconds, n)) if n else ()
    return Step(
        m.step,
        m.epoch,
        m.lr,
        m.samples,
        m.loss,
        accuracy,
        m.seconds,
        shards,
        busy,
        m.last_of_epoch,
        m.n_lost,
    )


def _epoch(m: Any, trainer: Trainer) -> Epoch:
    def if_(done: bool, value: float) -> Optional[float]:
        return value if done else None

    return Epoch(
        m.epoch,
        m.train_loss,
        m.train_accuracy,
        if_(m.validated, m.validation_loss),
        if_(m.validated, m.validation_accuracy),
        if_(m.tested, m.test_loss),
        if_(m.tested, m.test_accuracy),
        m.seconds,
        m.images_per_second,
        text(m.weights_sha256),
        trainer,
    )


def _event(e: Any) -> Event:
    return Event(
        word_of("dpt_device_event_kind", e.kind), e.device, text(e.id), e.step, text(e.message)
    )


# ---- The trainer --------------------------------------------------------------------------------


def open_devices(context: Context, devices: Optional[str], precision: Optional[str]) -> Node:
    """A set of devices.  The last one of a context stays open, because opening takes time."""
    key = (devices, precision)
    with context:
        known = context.device_sets.get(key)
        if known is None:
            for old in context.device_sets.values():
                old.release()
            context.device_sets.clear()
            if context.depth == 1:
                context.destroy_dropped()
            name = precision.encode() if precision else ffi.NULL
            context.check(lib.dpt_context_set_precision(context.pointer, name))
            text_of = devices.encode() if devices else ffi.NULL
            known = context.make("device_set", lib.dpt_device_set_open, context.pointer, text_of)
            context.device_sets[key] = known
        known.users += 1
        return known


Statistics = tuple  # (means, deviations) of up to four channels


def apply_statistics(node: Node, statistics: Optional[Statistics]) -> None:
    """Makes the network get (value - mean) / deviation of data that the program gives."""
    if statistics:
        mean, deviation = (ffi.new("float[4]", list(numbers)) for numbers in statistics)
        node.context.call(lib.dpt_dataset_normalize, node.get(), mean, deviation)


class Trainer(Owned):
    """A network on every device of a list, trained step by step.

        with dptrain.Trainer(net, (x, y), devices="cpu,cpu", lr=0.05) as trainer:
            for _ in range(100):
                print(trainer.step().loss)

    `fit` is the whole loop.  The keywords are those of `fit` (see there), without those of the loop.
    `validation` and `normalize` are those of `fit`, too.  `close`, or the end of `with`, gives the
    network the trained weights and frees the devices.
    """

    def __init__(
        self,
        net: Union[Model, str],
        data: Data,
        *,
        devices: Union[str, Sequence[str], None] = None,
        precision: Optional[str] = None,
        validation: Any = None,
        test: Any = None,
        normalize: Union[bool, Statistics] = False,
        load: Union[str, os.PathLike, None] = None,
        fresh: Optional[str] = None,
        **options: Unpack[TrainerOptions],
    ):
        self._nodes: list[Node] = []  # what this trainer holds beside its own node
        self._statistics: Optional[Statistics] = None  # mean and deviation of each channel
        self._validation: Optional[Node] = None
        self._test: Optional[Node] = None
        _options.check_known(options, _options.TRAINER, "Trainer")
        self.net = net if isinstance(net, Model) else Model(net)
        self._dataset = Dataset.of(data)
        self._datasets = [self._dataset]
        self._context = context_for(device_list(devices))
        try:
            self._open(devices, precision, validation, test, normalize, dict(options))
            self._load(load, fresh)
        except BaseException:
            self._abandon()
            raise

    # ---- Making ----

    def _open(
        self,
        devices: Any,
        precision: Any,
        validation: Any,
        test: Any,
        normalize: Any,
        options: dict,
    ) -> None:
        data, context = self._dataset, self._context
        self._options = self._with_data_defaults(options)
        targets = _options.wants_targets(options.get("loss"))
        self._size_model(targets)
        model = self.net._node(context)
        self._model_node = self._hold(model, borrowed=True)
        whole = self._hold(data._open(context, model, targets))
        part = isinstance(validation, (float, np.floating))
        held_out = None if part else self._open_more(validation, targets)
        tested = self._open_more(test, targets)
        if isinstance(normalize, tuple):  # what the weights were trained with
            self._statistics = normalize
            apply_statistics(whole, normalize)
        elif normalize:
            self._normalize(whole, [n for n in (held_out, tested) if n])
        self._train = whole
        if part:
            self._train, held_out = self._split(whole, validation, int(options.get("seed") or 0))
        self._validation, self._test = held_out, tested
        self._devices = self._hold(open_devices(context, device_list(devices), precision))
        struct, keep = self._c_options()
        self._node = self._make(struct)
        self._node.keep = keep
        self._count = describe(self._train).count

    def _open_more(self, data: Any, targets: bool) -> Optional[Node]:
        """Opens data for evaluation."""
        if data is None:
            return None
        self._datasets.append(Dataset.of(data))
        return self._hold(self._datasets[-1]._open(self._context, self._model_node, targets))

    def _hold(self, node: Node, borrowed: bool = False) -> Node:
        if borrowed:
            with node.context:
                node.users += 1
        self._nodes.append(node)
        return node

    def _with_data_defaults(self, options: dict) -> dict:
        data = self._dataset
        if data.batch_size and not options.get("batch_size"):
            options["batch_size"] = min(data.batch_size, len(data))
        if data.shuffle is not None and options.get("shuffle") is None:
            options["shuffle"] = data.shuffle
        if options.get("recipe") is True:
            options["recipe"] = self.net.name
        return options

    def _size_model(self, targets: bool) -> None:
        """Gives a network by name the sizes of the data."""
        if self.net._sized:
            return
        raw = self._dataset._open(self._context, None, targets)
        try:
            info = describe(raw)
        finally:
            raw.release()
        image = self._dataset._image_shape() or (info.height, info.width, info.channels)
        height, width, channels = image
        classes = max(info.outputs, info.vocabulary) if info.vocabulary else info.outputs
        self.net._set_shape((channels, height, width), classes)

    def _normalize(self, whole: Node, others: Iterable[Node]) -> None:
        mean, deviation = ffi.new("float[4]"), ffi.new("float[4]")
        with self._context as context:
            context.check(lib.dpt_dataset_statistics(whole.get(), mean, deviation))
        self._statistics = (tuple(mean), tuple(deviation))
        for node in (whole, *others):
            apply_statistics(node, self._statistics)

    def _split(self, whole: Node, part: float, seed: int) -> tuple[Node, Node]:
        first, second = ffi.new("dpt_dataset **"), ffi.new("dpt_dataset **")
        with self._context as context:
            context.check(lib.dpt_dataset_split(whole.get(), part, seed, first, second))
            nodes = tuple(context.adopt("dataset", out[0], (whole,)) for out in (first, second))
        return self._hold(nodes[0]), self._hold(nodes[1])

    def _c_options(self) -> tuple[Any, list]:
        options = dict(self._options)
        loss = options.get("loss")
        if callable(loss):
            options["loss"] = (
                "own-of-labels" if describe(self._train).labels_per_sample else "own-of-targets"
            )
        struct, keep = _options.make("dpt_trainer_options", _options.TRAINER, options)
        if not options.get("batch_size"):  # that of a recipe may be more than there are
            struct.batch_size = min(struct.batch_size, describe(self._train).count)
        if callable(loss):
            handle = ffi.new_handle(Loss(loss, self.net.labels_per_sample, self.net.outputs))
            struct.own_loss, struct.own_loss_user = loss_function, handle
            keep.append(handle)
        freeze = self.net.frozen if options.get("freeze") is None else options["freeze"]
        groups = _options.groups_of(options.get("group"), freeze)
        if groups:
            _options.set_groups(struct, groups, keep)
        self._regression = struct.loss != lib.DPT_LOSS_CROSS_ENTROPY or self.net.gives_loss
        if callable(loss):
            self._regression = struct.loss == lib.DPT_LOSS_OWN_OF_TARGETS
        binary = struct.loss == lib.DPT_LOSS_BINARY_CROSS_ENTROPY
        self.net._outputs = (
            "sigmoid" if binary else "logits" if self._regression else "probabilities"
        )
        return struct, keep

    def _make(self, struct: Any) -> Node:
        parents = (self._devices, self._model_node, self._train)
        arguments = [node.get() for node in parents]
        return self._context.make(
            "trainer", lib.dpt_trainer_create, *arguments, struct, parents=parents
        )

    def _load(self, load: Any, fresh: Optional[str]) -> None:
        if fresh and load is None:
            raise InvalidError("fresh goes with load, the file of the other layers")
        path = load if load is not None else self.net._weights_path
        if path is None:
            return
        path = os.path.join(path, "model.safetensors") if os.path.isdir(path) else path
        layers = fresh.encode() if fresh else ffi.NULL
        self._call(lib.dpt_trainer_load_except, os.fsencode(path), layers)

    # ---- Calls ----

    def _call(self, function: Callable, *arguments: Any) -> None:
        """Calls a function of the trainer.  A failure of the program's own functions is its cause."""
        try:
            self._context.call(function, self._get().get(), *arguments)
        except Error as why:
            raise why from self._cause(str(why))

    def _cause(self, message: str) -> Optional[BaseException]:
        causes = (dataset._cause() for dataset in self._datasets)
        return take_failure(message) or next(filter(None, causes), None)

    @property
    def device_count(self) -> int:
        return lib.dpt_trainer_device_count(self._get().get())

    @property
    def steps(self) -> int:
        """The number of steps that the weights contain."""
        return lib.dpt_trainer_steps(self._get().get())

    @property
    def trained_count(self) -> int:
        """The number of scalars that are trained."""
        return lib.dpt_trainer_trained_count(self._get().get())

    def step(self) -> Step:
        """Makes one step.  Errors: NotFiniteError if the loss is not finite, and nothing has changed;
        DeviceError, DeviceLostError if no device is left."""
        metrics = empty("dpt_step_metrics")
        with self._context:
            self._call(lib.dpt_trainer_step, metrics)
            return _step(metrics, self._regression)

    def submit(self) -> None:
        """Begins a step.  At most two steps are in flight."""
        self._call(lib.dpt_trainer_submit)

    def collect(self) -> Step:
        """Waits for the oldest step in flight."""
        metrics = empty("dpt_step_metrics")
        with self._context:
            self._call(lib.dpt_trainer_collect, metrics)
            return _step(metrics, self._regression)

    def events(self) -> list[Event]:
        """What happened to devices since the last call."""
        found, event = [], empty("dpt_device_event")
        with self._context:
            while lib.dpt_trainer_next_event(self._get().get(), event):
                found.append(_event(event))
        return found

    def evaluate(self, data: Data) -> Evaluation:
        """Loss and accuracy over data: see `dptrain.evaluate`."""
        dataset = Dataset.of(data)
        node = dataset._open(
            self._context, self._model_node, _options.wants_targets(self._options.get("loss"))
        )
        try:
            apply_statistics(node, self._statistics)
            return self._evaluate(node)
        finally:
            node.release()

    def _evaluate(self, node: Node) -> Evaluation:
        out = empty("dpt_evaluation")
        self._call(lib.dpt_trainer_evaluate, node.get(), out)
        accuracy = float("nan") if self._regression else out.accuracy
        return Evaluation(out.loss, accuracy, out.samples, out.seconds)

    def predict(self, x: Any) -> np.ndarray:
        """Outputs for samples: (n, outputs), or (n, labels, outputs).  Probabilities of classes, or what
        a loss of targets predicts."""
        node = Dataset.of(x)._open(self._context, self._model_node)
        try:
            apply_statistics(node, self._statistics)
            n = describe(node).count
            labels, outputs = self.net.labels_per_sample, self.net.outputs
            result = np.empty((n, labels, outputs), np.float32)
            self._call(
                lib.dpt_trainer_predict, node.get(), 0, n, ffi.from_buffer("float[]", result)
            )
            return result[:, 0] if labels == 1 else result
        finally:
            node.release()

    _KINDS = {
        "parameter": "DPT_PARAMETER",
        "gradient": "DPT_GRADIENT",
        "velocity": "DPT_VELOCITY",
        "squares": "DPT_SQUARES",
    }

    def _kind(self, kind: str) -> int:
        if kind not in self._KINDS:
            raise ValueError(f"kind is one of {', '.join(self._KINDS)}, not {kind!r}")
        return getattr(lib, self._KINDS[kind])

    def get(self, name: str, kind: str = "parameter", device: int = 0) -> np.ndarray:
        """A tensor of a device, by its name in `net.tensors`.  `kind`: "parameter", "gradient",
        "velocity" or "squares"."""
        shapes = {tensor.name: tensor.shape for tensor in self.net.tensors}
        result = np.empty(shapes.get(name, (1,)), np.float32)
        pointer = ffi.from_buffer("float[]", result)
        self._call(
            lib.dpt_trainer_get, device, self._kind(kind), name.encode(), pointer, result.size
        )
        return result

    def set(self, name: str, values: Any, kind: str = "parameter") -> None:
        """Writes a tensor to every device.  `values` has the tensor's shape."""
        array = np.ascontiguousarray(values, np.float32)
        shapes = {tensor.name: tensor.shape for tensor in self.net.tensors}
        if name in shapes and array.shape != shapes[name]:
            raise InvalidError(
                f"{name} has the shape {shapes[name]}, the values have {array.shape}"
            )
        pointer = ffi.from_buffer("float[]", array)
        self._call(lib.dpt_trainer_set, self._kind(kind), name.encode(), pointer, array.size)

    def set_lr(self, lr: float) -> None:
        """Sets the learning rate from the next step on."""
        self._call(lib.dpt_trainer_set_lr, lr)

    def save(self, path: Union[str, os.PathLike]) -> None:
        """Writes the weights as a safetensors file."""
        self._call(lib.dpt_trainer_save, os.fsencode(path))

    def load(self, path: Union[str, os.PathLike]) -> None:
        """Reads the weights of a safetensors file."""
        self._call(lib.dpt_trainer_load, os.fsencode(path))

    def save_state(self, path: Union[str, os.PathLike]) -> None:
        """Writes everything that is needed to resume."""
        self._call(lib.dpt_trainer_save_state, os.fsencode(path))

    def load_state(self, path: Union[str, os.PathLike]) -> None:
        """Reads a file of save_state, of the same network, data and options."""
        self._call(lib.dpt_trainer_load_state, os.fsencode(path))

    def devices(self) -> list[Device]:
        """The devices, and what they did."""
        with self._context:
            node = self._get().get()
            reports = [self._device(node, i) for i in range(lib.dpt_trainer_device_count(node))]
        total = sum(report["samples"] for _, report in reports) or 1
        return [_device_of(info, report, report["samples"] / total) for info, report in reports]

    def _device(self, node: Any, i: int) -> tuple[dict, dict]:
        info, report = empty("dpt_device_info"), empty("dpt_device_report")
        self._context.check(lib.dpt_trainer_device(node, i, info))
        self._context.check(lib.dpt_trainer_device_report(node, i, report))
        return as_dict(info), as_dict(report)

    def plan(self, device: int = 0) -> dict[str, Any]:
        """Memory and operations of a device: the fields of dpt_device_plan (dptrain/report.h)."""
        out = empty("dpt_device_plan")
        self._call(lib.dpt_trainer_plan, device, out)
        return as_dict(out)

    # ---- The end ----

    def keep_weights(self) -> None:
        """Gives the network the weights of this trainer."""
        path = self.net._new_file()
        self.save(path)
        self.net._take_file(path)
        self.net._statistics = self._statistics

    def close(self) -> None:
        """Gives the network the weights, and frees the devices.  Closing twice does nothing."""
        if self._node is not None and self._node.pointer and self.steps > 0:
            self.keep_weights()
        self._abandon()

    def _abandon(self) -> None:
        super().close()
        nodes, self._nodes = self._nodes, []
        for node in reversed(nodes):
            node.release()

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            self.close()
        else:
            self._abandon()

    def __del__(self) -> None:
        if hasattr(self, "_nodes"):
            self._abandon()


def _device_of(info: Mapping[str, Any], report: Mapping[str, Any], share: float) -> Device:
    return Device(
        info["id"],
        info["name"],
        info["backend"],
        info["n_threads"],
        info["memory_bytes"],
        report["samples"],
        share,
        report["busy_seconds"],
        report["exchange_seconds"],
        report["waiting_seconds"],
        report["throughput"],
    )


def _some_samples(net: Model) -> Dataset:
    """Two samples of zeros for a network with one input."""
    if not net._sized:
        raise StateError(
            f"the sizes of {net.name} are not known: give Model({net.name!r}, input=, classes=)"
        )
    if len(net.inputs) > 1:
        raise InvalidError(f"{net.name} has several inputs: give data= with samples that fit it")
    first, one = net.layers[0], net.inputs[0]
    shape = (one.elements,) if one.vocabulary else (first.channels, first.height, first.width)
    x = np.zeros((2, *shape), np.int32 if one.vocabulary else np.float32)
    labels = net.labels_per_sample
    y = None if net.gives_loss else np.zeros((2, labels) if labels > 1 else 2, np.int32)
    return Dataset(x, y)


def initialize(net: Model, data: Any, **options: Any) -> None:
    """Gives a network first weights: those of a trainer that makes no step."""
    data = _some_samples(net) if data is None else data
    with Trainer(net, data, devices="cpu:threads=1", **options) as trainer:
        trainer.keep_weights()


# ---- fit ----------------------------------------------------------------------------------------


@dataclass
class Run:
    """What a training did.

    history   {"epoch": [...], "train_loss": [...], ...}: the fields of `Epoch`, one entry an epoch;
              None where nothing was evaluated.
    losses    The loss of each step that this call made.
    devices   The devices and what they did.
    stopped   Whether Ctrl-C, a callback or the end of the interpreter ended the training early.
    """

    net: Model = field(repr=False)
    steps: int = 0
    epochs: int = 0
    seconds: float = 0.0
    images_per_second: float = 0.0
    train_loss: float = float("nan")
    test_loss: float = float("nan")
    test_accuracy: float = float("nan")
    best_epoch: int = 0
    best_validation_loss: float = float("nan")
    stopped: bool = False
    no_patience: bool = False
    history: dict[str, list] = field(default_factory=dict, repr=False)
    losses: list[float] = field(default_factory=list, repr=False)
    devices: list[Device] = field(default_factory=list, repr=False)
    events: list[Event] = field(default_factory=list, repr=False)
    notices: list[str] = field(default_factory=list, repr=False)
    svg: str = field(default="", repr=False)
    checkpoint: Optional[str] = None

    def plot(self, path: Union[str, os.PathLike, None] = None) -> Any:
        """The picture of the training: losses, accuracies and shards, as the library draws it (SVG).

        A notebook shows what this gives.  With `path` the picture is also written to that file."""
        from ._picture import Picture

        if not self.svg:
            raise StateError("there is no picture: this training made no step")
        picture = Picture(self.svg)
        if path is not None:
            picture.save(path)
        return picture


class _Loop:
    """A call of dpt_fit: its callbacks, and what they collect."""

    def __init__(self, trainer: Trainer, run: Run, callbacks: Mapping[str, Any], bar: Any):
        self.trainer, self.run, self.callbacks, self.bar = trainer, run, callbacks, bar
        self.failure: Optional[BaseException] = None
        self.interrupted = False

    def progress(self, p: Any) -> int:
        if p.step:
            self._step(p)
        if p.epoch:
            self._epoch(p.epoch)
        if p.event:
            self._event(p.event)
        return int(self.interrupted or self.trainer._context.closing)

    def _tell(self, name: str, what: Any) -> None:
        """Calls the program's functions.  One that returns True ends the training."""
        for function in self.callbacks[name]:
            answer = function(what)
            if isinstance(answer, (bool, np.bool_)) and answer:
                self.interrupted = True

    def _step(self, p: Any) -> None:
        self.run.losses.append(p.step.loss)
        if self.callbacks["on_step"] or self.bar:
            step = _step(p.step, self.trainer._regression)
            if self.bar:
                self.bar.step(step, p.steps_done, p.steps_total)
            self._tell("on_step", step)

    def _epoch(self, m: Any) -> None:
        epoch = _epoch(m, self.trainer)
        for name in _EPOCH_FIELDS:
            self.run.history.setdefault(name, []).append(getattr(epoch, name))
        if self.bar:
            self.bar.epoch(epoch, self.trainer._regression)
        self._tell("on_epoch", epoch)

    def _event(self, e: Any) -> None:
        event = _event(e)
        self.run.events.append(event)
        self._tell("on_event", event)

    def notice(self, kind: int, message: str) -> None:
        self.run.notices.append(message)
        if kind == lib.DPT_NOTICE_WARNING:
            warnings.warn(message, RuntimeWarning, stacklevel=2)

    def fail(self, failure: BaseException) -> None:
        """Takes an exception of a callback: the training ends, and `fit` raises it."""
        if isinstance(failure, KeyboardInterrupt):
            self.interrupted = True
        elif self.failure is None:
            self.failure = failure


_EPOCH_FIELDS = (
    "epoch",
    "train_loss",
    "train_accuracy",
    "validation_loss",
    "validation_accuracy",
    "test_loss",
    "test_accuracy",
    "seconds",
    "images_per_second",
)
_loops = threading.local()  # the loops of each thread, the innermost last


def _callback_failed(kind: Any, failure: Any, trace: Any) -> int:
    _loops.stack[-1].fail(failure)
    return 1


@ffi.callback("int(*)(dpt_fit_progress const *, void *)", onerror=_callback_failed, error=1)
def _progress(progress: Any, user: Any) -> int:
    return ffi.from_handle(user).progress(progress)


def _notice_failed(kind: Any, failure: Any, trace: Any) -> None:
    _loops.stack[-1].fail(failure)


@ffi.callback("void(*)(dpt_notice, char const *, void *)", onerror=_notice_failed)
def _notice(kind: int, message: Any, user: Any) -> None:
    ffi.from_handle(user).notice(kind, text(message))


class _Interrupts:
    """Ctrl-C during a training in the main thread asks it to end.  A second one raises at once."""

    def __init__(self, loop: _Loop):
        self.loop = loop
        main = threading.current_thread() is threading.main_thread()
        self.mine = main and signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def handle(self, number: int, frame: Any) -> None:
        if self.loop.interrupted:
            raise KeyboardInterrupt
        self.loop.interrupted = True

    def __enter__(self) -> None:
        if self.mine:
            signal.signal(signal.SIGINT, self.handle)

    def __exit__(self, *_: Any) -> None:
        if self.mine:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _functions(functions: Any) -> list[Callable]:
    if functions is None:
        return []
    return [functions] if callable(functions) else list(functions)


def fit(
    net: Union[Model, str],
    data: Data,
    *,
    devices: Union[str, Sequence[str], None] = None,
    validation: Any = None,
    test: Any = None,
    normalize: bool = False,
    precision: Optional[str] = None,
    load: Union[str, os.PathLike, None] = None,
    fresh: Optional[str] = None,
    on_step: Any = None,
    on_epoch: Any = None,
    on_event: Any = None,
    progress: Optional[bool] = None,
    **options: Unpack[FitOptions],
) -> Run:
    """Trains a network, and returns what happened as a Run.  The network then has the weights.

    net          A Model, or the name of one.  A network that has weights goes on from them.
    data         (x, y), a Dataset, the name of a data set, a DataLoader, or an iterable: see Dataset.
    devices      A device list: "cpu", "cuda:0,cpu", ["cuda:0", "cuda:1"].  Default: all devices.
    validation   The part of the data that is set apart, such as 0.1, or data.
    test         Data that are evaluated after each epoch.
    normalize    Subtract the mean of each channel of the data and divide by the deviation.
    precision    "fp32", "tf32" or "bf16".
    load, fresh  A file of first weights, and layers that begin anew nevertheless.
    on_step, on_epoch, on_event
                 A function or a list of them.  They get a Step, an Epoch or an Event.  One that
                 returns True ends the training in good order.  An exception does so, too, and is
                 raised by `fit`.
    progress     Show progress: by default in a terminal and in a notebook.
    options      All options of the command by their names: epochs, batch_size, lr, momentum,
                 optimizer, schedule, checkpoint, resume, ... (FitOptions; docs/python.md).

    Ctrl-C ends the training after the step.  With `checkpoint` the last checkpoint is written.  `fit`
    returns, and `run.stopped` is True.

    Arrays are copied before the first step: they may change while the training runs.

    Errors: InvalidError if data do not fit the network (the text has both shapes) or an option is
    out of range; TypeError for an unknown option, with the nearest name; NotFiniteError if the loss
    is not finite; all others of dptrain.errors.
    """
    _options.check_known(options, [*_options.TRAINER, *_options.FIT], "fit")
    net = net if isinstance(net, Model) else Model(net)
    if options.get("recipe") is True:
        options["recipe"] = net.name
    for_trainer = {k: v for k, v in options.items() if k in _options.TRAINER}
    trainer = Trainer(
        net,
        data,
        devices=devices,
        precision=precision,
        validation=validation,
        test=test,
        normalize=normalize,
        load=load,
        fresh=fresh,
        **for_trainer,  # type: ignore[arg-type]
    )
    callbacks = {
        "on_step": _functions(on_step),
        "on_epoch": _functions(on_epoch),
        "on_event": _functions(on_event),
    }
    try:
        return _run(
            trainer, {k: v for k, v in options.items() if k in _options.FIT}, callbacks, progress
        )
    finally:
        trainer._abandon()


def _warmup_steps(warmup: Any, trainer: Trainer) -> int:
    number, unit = _options.span(warmup)
    if unit == "steps":
        return number
    options = trainer._options
    batch = options.get("batch_size") or min(256, trainer._count)
    accumulate = options.get("accumulate") or 1
    if accumulate <= trainer._count // batch:
        batch *= accumulate
    return number * -(-trainer._count // batch)


def _c_fit_options(trainer: Trainer, options: dict, folder: str) -> tuple[Any, list, str]:
    """The library's options, what must live as long, and the path of the picture."""
    path = os.fspath(options.get("plot") or os.path.join(folder, "plot.svg"))
    struct, keep = _options.make("dpt_fit_options", _options.FIT, {**options, "plot": path})
    if options.get("warmup") is not None:
        struct.schedule.warmup_steps = _warmup_steps(options["warmup"], trainer)
    for name in ("test", "validation"):
        node = getattr(trainer, f"_{name}")
        if node is not None:
            setattr(struct, name, node.get())
    struct.progress, struct.notice = _progress, _notice
    return struct, keep, path


def _run(
    trainer: Trainer, options: dict, callbacks: Mapping[str, Any], progress: Optional[bool]
) -> Run:
    from ._progress import bar_for

    run = Run(trainer.net, checkpoint=options.get("checkpoint"))
    bar = bar_for(progress)
    loop = _Loop(trainer, run, callbacks, bar)
    folder = tempfile.mkdtemp(prefix="dptrain-")
    try:
        struct, keep, path = _c_fit_options(trainer, options, folder)
        with _Interrupts(loop):
            status, message = _call_fit(loop, struct)
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                run.svg = file.read()
        del keep
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if bar:
            bar.close()
    _finish(loop, status, message)
    return run


def _call_fit(loop: _Loop, struct: Any) -> tuple[int, str]:
    """Calls dpt_fit, and puts its result into the run."""
    trainer, run = loop.trainer, loop.run
    handle, result = ffi.new_handle(loop), empty("dpt_fit_result")
    struct.user = handle
    _loops.stack = [*getattr(_loops, "stack", []), loop]
    try:
        with trainer._context as context:
            status = lib.dpt_fit(trainer._get().get(), struct, result)
            message = text(lib.dpt_error_message(context.pointer)) if status != lib.DPT_OK else ""
    finally:
        _loops.stack = _loops.stack[:-1]
    if status == lib.DPT_OK:
        for name, value in as_dict(result).items():
            if name in run.__dataclass_fields__:
                setattr(run, name, value)
    return status, message


def _finish(loop: _Loop, status: int, message: str) -> None:
    """Takes the weights.  Raises what a callback has raised, or the failure of the training."""
    trainer = loop.trainer
    if not trainer._context.closing and trainer._get().pointer and trainer.steps > 0:
        try:
            trainer.keep_weights()
        except Error:
            if status == lib.DPT_OK:
                raise
    if loop.failure is not None:
        raise loop.failure
    if status != lib.DPT_OK:
        raise error_of(status, message) from trainer._cause(message)
    loop.run.devices = trainer.devices()
