"""The trainer, which makes single steps, and what a training tells."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable, Iterable, Mapping, Optional, Sequence, Union

import numpy as np

from . import _options
from ._callbacks import Loss, loss_function, take_failure
from ._context import Context, Node, Owned, context_for, device_list
from ._library import encoded, ffi, lib, text
from ._metrics import Metrics, metrics_of
from ._structs import as_dict, empty, word_of
from .data import Data, Dataset, describe
from .errors import Error, InvalidError, StateError
from .model import Model

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import TrainerOptions


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
    """An epoch.  What was not evaluated is None.  `trainer` may evaluate, predict, get and save.  With
    `metrics=True` there are metrics of what was evaluated."""

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
    validation_metrics: Optional[Metrics] = field(repr=False, compare=False, default=None)
    test_metrics: Optional[Metrics] = field(repr=False, compare=False, default=None)

    def __getstate__(self) -> dict:
        return {**self.__dict__, "trainer": None}


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
    """Loss and accuracy over a data set.  `accuracy` is NaN with a loss of targets.  `metrics` is None
    if it was not asked for."""

    loss: float
    accuracy: float
    samples: int
    seconds: float
    metrics: Optional[Metrics] = field(repr=False, compare=False, default=None)


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
        metrics_of(m.validation_classes),
        metrics_of(m.test_classes),
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
            name = encoded(precision) if precision else ffi.NULL
            context.check(lib.dpt_context_set_precision(context.pointer, name))
            text_of = encoded(devices) if devices else ffi.NULL
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
        load_partial: bool = False,
        **options: Unpack[TrainerOptions],
    ):
        self._nodes: list[Node] = []  # what this trainer holds beside its own node
        self._statistics: Optional[Statistics] = None  # mean and deviation of each channel
        self._validation: Optional[Node] = None
        self._test: Optional[Node] = None
        _options.check_known(options, _options.TRAINER, "Trainer")
        self.net = net if isinstance(net, Model) else Model(net)
        self._dataset = Dataset.of(data, self.net._unlabelled_inputs())
        self._datasets = [self._dataset]
        self._context = context_for(device_list(devices))
        try:
            self._open(devices, precision, validation, test, normalize, dict(options))
            self._load(load, fresh, load_partial)
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
        loss = options.get("loss")
        targets = _options.wants_targets(loss)
        self._needs_classes = loss in (None, "cross-entropy") and not self.net._unlabelled_inputs()
        if self._needs_classes:
            data._source.check_classes()
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
        self._datasets.append(Dataset.of(data, self.net._unlabelled_inputs()))
        if self._needs_classes:
            self._datasets[-1]._source.check_classes()
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

    def _balanced(self) -> np.ndarray:
        """A weight for each class that occurs, as scikit-learn's class_weight="balanced"; 1 for the others."""
        counts = np.zeros(describe(self._train).outputs, np.uintp)
        with self._context as context:
            buffer = ffi.from_buffer("size_t[]", counts)
            context.check(lib.dpt_dataset_count_classes(self._train.get(), buffer))
        present = counts > 0
        weights = np.ones(len(counts))
        weights[present] = counts.sum() / (present.sum() * counts[present])
        return weights

    def _c_options(self) -> tuple[Any, list]:
        options = dict(self._options)
        if isinstance(options.get("class_weights"), str):
            if options["class_weights"] != "balanced":
                raise InvalidError(
                    f"class_weights={options['class_weights']!r}: give 'balanced' or a number for each class"
                )
            options["class_weights"] = self._balanced()
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

    def _load(self, load: Any, fresh: Optional[str], partial: bool) -> None:
        if (fresh or partial) and load is None:
            what = "fresh" if fresh else "load_partial"
            raise InvalidError(f"{what} goes with load, the file of the other layers")
        path = load if load is not None else self.net._weights_path
        if path is None:
            return
        path = os.path.join(path, "model.safetensors") if os.path.isdir(path) else path
        how = ffi.new("dpt_load_options *", {"size": ffi.sizeof("dpt_load_options")})
        layers = ffi.new("char[]", encoded(fresh)) if fresh else ffi.NULL
        how.partial = partial
        setattr(how, "except", layers)  # a keyword of Python
        self._call(lib.dpt_trainer_load_with, encoded(path), how)

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

    @property
    def shard(self) -> str:
        """What the devices hold in parts: "none", "optimizer", "gradients" or "parameters"."""
        return word_of("dpt_shard", lib.dpt_trainer_sharded(self._get().get()))

    @property
    def candidates(self) -> list[dict[str, Any]]:
        """What shard="auto" has tried, the cheapest combination first; the last one fits and was chosen.
        Each has the fields of dpt_candidate (dptrain/report.h).  Empty without shard="auto"."""
        found = []
        for i in range(lib.dpt_trainer_candidate_count(self._get().get())):
            out = empty("dpt_candidate")
            self._call(lib.dpt_trainer_candidate, i, out)
            found.append(as_dict(out))
        return found

    @property
    def offloaded(self) -> bool:
        """Whether the CPUs hold these parts for all devices."""
        return bool(lib.dpt_trainer_offloaded(self._get().get()))

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

    def end_round(self) -> None:
        """Ends a round of local steps early, in all processes alike; see the keyword local_steps."""
        self._call(lib.dpt_trainer_end_round)

    def events(self) -> list[Event]:
        """What happened to devices since the last call."""
        found, event = [], empty("dpt_device_event")
        with self._context:
            while lib.dpt_trainer_next_event(self._get().get(), event):
                found.append(_event(event))
        return found

    def evaluate(self, data: Data, *, metrics: bool = False) -> Evaluation:
        """Loss and accuracy over data, and with `metrics` figures of classes: see `dptrain.evaluate`."""
        dataset = Dataset.of(data, self.net._unlabelled_inputs())
        node = dataset._open(
            self._context, self._model_node, _options.wants_targets(self._options.get("loss"))
        )
        try:
            apply_statistics(node, self._statistics)
            return self._evaluate(node, metrics)
        finally:
            node.release()

    def _evaluate(self, node: Node, metrics: bool = False) -> Evaluation:
        out = empty("dpt_evaluation")
        self._call(lib.dpt_trainer_evaluate, node.get(), out)
        accuracy = float("nan") if self._regression else out.accuracy
        classes = self._classify(node) if metrics else None
        return Evaluation(out.loss, accuracy, out.samples, out.seconds, classes)

    def _classify(self, node: Node) -> Optional[Metrics]:
        out = ffi.new("dpt_classification **")
        self._call(lib.dpt_trainer_classify, node.get(), out)
        try:
            return metrics_of(out[0])
        finally:
            lib.dpt_classification_destroy(out[0])

    def predict(self, x: Any) -> np.ndarray:
        """Outputs for samples: (n, outputs), or (n, labels, outputs).  Probabilities of classes, or what
        a loss of targets predicts."""
        node = Dataset.of(x, len(self.net.inputs))._open(self._context, self._model_node)
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
            lib.dpt_trainer_get, device, self._kind(kind), encoded(name), pointer, result.size
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
        self._call(lib.dpt_trainer_set, self._kind(kind), encoded(name), pointer, array.size)

    def set_lr(self, lr: float) -> None:
        """Sets the learning rate from the next step on."""
        self._call(lib.dpt_trainer_set_lr, lr)

    def save(self, path: Union[str, os.PathLike]) -> None:
        """Writes the weights as a safetensors file."""
        self._call(lib.dpt_trainer_save, encoded(path))

    def load(self, path: Union[str, os.PathLike]) -> None:
        """Reads the weights of a safetensors file."""
        self._call(lib.dpt_trainer_load, encoded(path))

    def save_state(self, path: Union[str, os.PathLike]) -> None:
        """Writes everything that is needed to resume."""
        self._call(lib.dpt_trainer_save_state, encoded(path))

    def load_state(self, path: Union[str, os.PathLike]) -> None:
        """Reads a file of save_state, of the same network, data and options."""
        self._call(lib.dpt_trainer_load_state, encoded(path))

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
