"""Data sets: arrays, samples that are read on demand, and the data sets that the library knows."""

from __future__ import annotations

import concurrent.futures
import threading
from dataclasses import dataclass
from typing import Any, Callable, Mapping, Optional, Sequence, Union

import numpy as np

from ._arrays import as_array, as_library_array, dtype_of, looks_channels_first
from ._context import Context, Node, plain_context, within_a_call
from ._library import encoded, ffi, lib, text, write_reason
from ._structs import empty
from .errors import Error, InvalidError, UnsupportedError

IGNORED_LABEL: int = lib.DPT_IGNORED_LABEL


@dataclass(frozen=True)
class DatasetInfo:
    """What the library says of a data set: see `dpt_dataset_info` in dptrain/data.h."""

    name: str
    count: int
    height: int
    width: int
    channels: int
    outputs: int
    source: str
    class_names: Optional[tuple]
    read_as_needed: bool
    vocabulary: int
    labels_per_sample: int


def describe(node: Node) -> DatasetInfo:
    info = empty("dpt_dataset_info")
    with node.context:
        lib.dpt_dataset_describe(node.get(), info)
        names = info.class_names
        classes = tuple(text(names[i]) for i in range(info.outputs)) if names else None
        return DatasetInfo(
            text(info.name),
            info.count,
            info.height,
            info.width,
            info.channels,
            info.outputs,
            text(info.source),
            classes,
            info.read_as_needed,
            info.vocabulary,
            info.labels_per_sample,
        )


class Dataset:
    """Samples with their labels or targets.

    Dataset(x, y)
        Arrays: `x` is (n, ...), `y` is (n,), (n, k) or None.  NumPy arrays, tensors of PyTorch,
        other producers of DLPack, and lists.  A dict {input: array}, or a tuple of arrays in the
        order of the network's inputs, is for networks with several inputs.  Without `y`, the dict's
        `labels`, `targets` or `y` is it.  Integers in `y` are labels, real numbers are targets.
    Dataset.open(name, ...)
        A data set that the command knows: "fashion-mnist", "folder:64x64", "npz:FILE", ...
    Dataset.read(samples, ...)
        Samples that are read while training runs, of a `torch.utils.data.Dataset` or anything with
        `len()` and `[]`.
    Dataset.collect(iterable)
        All samples of an iterable, which are read once and kept in memory.

    Types: uint8 is value / 255 for the network; other integers and booleans are numbers, or ids
    for a network that reads ids; real numbers become float32.  Images are (channels, height,
    width) or (height, width, channels).

    A data set of arrays keeps the arrays and not a copy.  Each training, evaluation and prediction
    copies them when it begins.  A change of the arrays after that changes nothing that runs.
    """

    batch_size: Optional[int] = None  # what a DataLoader said; the default of `fit`
    shuffle: Optional[bool] = None

    def __init__(self, x: Any, y: Any = None):
        self._source: _Source = _Arrays(x, y)

    @classmethod
    def _of_source(cls, source: _Source) -> Dataset:
        new = cls.__new__(cls)
        new._source = source
        return new

    @classmethod
    def open(cls, name: str, data: Optional[str] = None, part: str = "train") -> Dataset:
        """Opens a data set by name, as `--dataset` and `--data` of the command do.

        `part` is "train" or "test".  Errors: InvalidError for an unknown name; NotFoundError, whose
        text tells how to get the data; FormatError for damaged files."""
        if part not in ("train", "test"):
            raise ValueError(f'part is "train" or "test", not {part!r}')
        source = _Named(name, data, part)
        source.open(plain_context(), None, False).release()
        return cls._of_source(source)

    @classmethod
    def read(
        cls,
        samples: Any,
        labels: Any = None,
        *,
        threads: int = 0,
        seeded: bool = False,
        names: Optional[Sequence[str]] = None,
    ) -> Dataset:
        """Samples that are read on demand, ahead of the steps, by threads of the library.

        samples   Anything with `len()` and `[i]`.  A sample is `x`, or a pair `(x, y)`; `x` is an
                  array, a dict {input: array}, or a tuple of arrays with the names in `names`.  A
                  dict may hold the sample's `y`, too, as `labels`, `targets` or `y`.
                  Several threads call `[i]` at once.
        labels    (n,) or (n, k): the labels or targets of all samples.  Default: the attribute
                  `targets` or `labels` of `samples`; else all samples are read once for them.
        threads   Threads that read; 0: one a processor, at most 16.
        seeded    For samples that are changed at random: one thread reads at a time, and the global
                  generators of `random`, NumPy and PyTorch get a seed of the sample and the epoch
                  before each call.  So a training can be repeated and resumed.

        The same sample must be the same whenever it is read, or `seeded` must be set.  An exception
        of `[i]` fails the step that needs the sample, and is the `__cause__` of the error.
        """
        return cls._of_source(_Reader(samples, labels, threads, seeded, names))

    @classmethod
    def collect(cls, samples: Any, *, batched: bool = False) -> Dataset:
        """All samples of an iterable, which is read once.  They are kept in memory.

        `batched`: each element is a batch, as a DataLoader gives it; else it is a sample."""
        return cls._of_source(_collect(samples, batched))

    @classmethod
    def of(cls, data: Any, inputs: int = 0) -> Dataset:
        """Makes a data set of what `fit` takes: a Dataset, a name, a pair (x, y), a dict of arrays, a
        list of samples, a DataLoader, anything with `len()` and `[]`, or an iterable.

        inputs   If no labels are wanted: the number of inputs of the network.  A tuple of so many
                 arrays is then all inputs, and no pair (x, y)."""
        if isinstance(data, Dataset):
            return data
        if isinstance(data, tuple) and len(data) == inputs > 1:
            if not isinstance(data[0], (tuple, Mapping)):
                return cls(data)
        if isinstance(data, str):
            return cls.open(data)
        if isinstance(data, tuple) and len(data) == 2:
            return cls(*data)
        if isinstance(data, Mapping):
            return cls(data)
        if isinstance(data, list) and data and _is_sample(data[0]):
            return cls.read(data)
        if isinstance(data, list) and len({getattr(one, "shape", None) for one in data}) > 1:
            shapes = ", ".join(str(tuple(getattr(one, "shape", ()))) for one in data[:3])
            raise InvalidError(
                f"a list is one array of samples, but the shapes of these elements differ: {shapes}. Give samples and "
                "their labels as a tuple (x, y)"
            )
        if hasattr(data, "dataset") and hasattr(data, "collate_fn"):
            return _of_loader(data)
        if (
            hasattr(data, "__array__")
            or hasattr(data, "__dlpack__")
            or isinstance(data, (list, tuple))
        ):
            return cls(data)
        if hasattr(data, "__getitem__") and hasattr(data, "__len__"):
            return cls.read(data)
        if hasattr(data, "__iter__"):
            return cls.collect(data)
        raise TypeError(
            f"a data set cannot be made of {type(data).__name__}: give (x, y), a DataLoader or a Dataset"
        )

    def __len__(self) -> int:
        return self._source.count()

    def __repr__(self) -> str:
        return f"Dataset({self._source.what()}, {len(self)} samples)"

    def info(self) -> DatasetInfo:
        """What the library says of these data."""
        node = self._open(plain_context())
        try:
            return describe(node)
        finally:
            node.release()

    def _open(self, context: Context, model: Optional[Node] = None, targets: bool = False) -> Node:
        """The library's data set in a context, arranged for a model.  `targets`: labels are numbers."""
        return self._source.open(context, model, targets)

    def _image_shape(self) -> Optional[tuple]:
        """(height, width, channels), if the arrays tell it otherwise than the library reads them."""
        return self._source.image_shape()

    def _cause(self) -> Optional[BaseException]:
        """Takes the exception that the reader of samples has raised."""
        return self._source.take_failure()


class _Source:
    """Where the samples of a data set come from."""

    failure: Optional[BaseException] = None

    def count(self) -> int:
        raise NotImplementedError

    def what(self) -> str:
        raise NotImplementedError

    def open(self, context: Context, model: Optional[Node], targets: bool) -> Node:
        raise NotImplementedError

    def image_shape(self) -> Optional[tuple]:
        return None

    def kind(self) -> Any:
        """What tells apart data of several types: predictors are made for one type."""
        return self.what()

    def check_classes(self) -> None:
        """Raises InvalidError if there are no answers that can be classes."""

    def _check_classes(self, found: Optional[np.ndarray]) -> None:
        if found is None:
            raise InvalidError(
                "the data have no labels, and the loss is cross-entropy, which needs them: give (x, y)"
            )
        if found.dtype.kind == "f":
            raise InvalidError(
                f"y has the type {found.dtype} and the shape {found.shape}: real numbers are targets, and the loss is "
                'cross-entropy, which needs labels. Give integers (y.astype("int64"); y.argmax(1) of one column a '
                'class), or another loss, such as loss="squared-error"'
            )

    def take_failure(self) -> Optional[BaseException]:
        failure, self.failure = self.failure, None
        return failure


def arrange(node: Node, model: Optional[Node]) -> Node:
    """Puts the records of a data set into the order of a model."""
    if model is not None:
        try:
            node.context.call(
                lib.dpt_dataset_arrange, node.context.pointer, node.get(), model.get()
            )
        except BaseException:
            node.release()
            raise
    return node


class _Named(_Source):
    """A data set that dpt_dataset_open opens."""

    def __init__(self, name: str, data: Optional[str], part: str):
        self.name, self.data, self.part = name, data, part

    def count(self) -> int:
        node = self.open(plain_context(), None, False)
        try:
            return describe(node).count
        finally:
            node.release()

    def what(self) -> str:
        return f"{self.name!r}, {self.part}"

    def open(self, context: Context, model: Optional[Node], targets: bool) -> Node:
        data = ffi.new("char[]", encoded(self.data)) if self.data else ffi.NULL
        part = lib.DPT_TEST if self.part == "test" else lib.DPT_TRAIN
        node = context.make(
            "dataset", lib.dpt_dataset_open, context.pointer, encoded(self.name), data, part
        )
        return arrange(node, model)


# ---- Arrays -----------------------------------------------------------------------------------


_ANSWERS = ("labels", "targets", "y")  # names that no input of a network can have


def _parts(sample: Any) -> tuple[Any, Any]:
    """The inputs and the answer of a sample, or of all samples: of a pair, or of a dict with a name of
    an answer."""
    if isinstance(sample, (tuple, list)) and len(sample) == 2:
        return sample[0], sample[1]
    if isinstance(sample, Mapping):
        for name in _ANSWERS:
            if name in sample:
                return {n: value for n, value in sample.items() if n != name}, sample[name]
    return sample, None


def _is_sample(element: Any) -> bool:
    """Whether an element of a list is a sample: a dict, or a pair of an array and its answer.  Other
    lists are arrays."""
    if isinstance(element, tuple) and len(element) == 2:
        return not np.isscalar(element[0])
    return isinstance(element, Mapping)


def _named_inputs(x: Any) -> dict[str, Any]:
    """The inputs by name.  A tuple of arrays has the numbers of the inputs as names."""
    if isinstance(x, Mapping):
        wrong = [name for name in x if not isinstance(name, str)]
        if wrong:
            raise InvalidError(f"the inputs of a dict have names, not {wrong[0]!r}")
        return dict(x)
    if isinstance(x, tuple):
        return {str(i): array for i, array in enumerate(x)}
    return {"x": x}


def model_inputs(model: Node) -> list[str]:
    """The names of a model's inputs."""
    info, names = empty("dpt_input_info"), []
    with model.context:
        for i in range(lib.dpt_model_input_count(model.get())):
            lib.dpt_model_input(model.get(), i, info)
            names.append(text(info.name))
    return names


def _names_for(model: Optional[Node], given: Sequence[str]) -> list[str]:
    """Numbers become the names of the model's inputs, in their order."""
    if model is None or len(given) < 2 or not all(name.isdigit() for name in given):
        return list(given)
    names = model_inputs(model)
    if len(names) != len(given):
        raise InvalidError(
            f"a tuple of {len(given)} arrays is given, but the network's inputs are: {', '.join(names)}. Samples and "
            "their labels are a pair (x, y)"
        )
    return names


class _Arrays(_Source):
    """Arrays in memory."""

    def __init__(self, x: Any, y: Any):
        if y is None and isinstance(x, Mapping):
            x, y = _parts(x)
        self.inputs = {name: as_array(value, name) for name, value in _named_inputs(x).items()}
        self.y = None if y is None else as_array(y, "y")
        self._check()

    def _check(self) -> None:
        if not self.inputs:
            raise InvalidError("no array of inputs is given")
        arrays = dict(self.inputs)
        if self.y is not None:
            arrays["y"] = self.y
        for name, array in arrays.items():
            if array.ndim == 0 or 0 in array.shape[1:] or array.dtype.kind not in "biuf":
                as_library_array(array, name)  # says what is wrong
        (first, one), *others = arrays.items()
        for name, array in others:
            if len(array) != len(one):
                raise InvalidError(
                    f"{first} has {len(one)} samples, but {name} has {len(array)}: their shapes are {one.shape} and "
                    f"{array.shape}"
                )
        if len(one) == 0:
            raise InvalidError(f"{first} has no samples: its shape is {one.shape}")

    def count(self) -> int:
        return len(next(iter(self.inputs.values())))

    def what(self) -> str:
        return ", ".join(
            f"{name}: {array.dtype}{array.shape}" for name, array in self.inputs.items()
        )

    def image_shape(self) -> Optional[tuple]:
        if len(self.inputs) != 1:
            return None
        shape = next(iter(self.inputs.values())).shape[1:]
        if len(shape) != 3 or not looks_channels_first(shape):
            return None
        return (shape[1], shape[2], shape[0])

    def kind(self) -> Any:
        return tuple((name, array.dtype == np.uint8) for name, array in self.inputs.items())

    def check_classes(self) -> None:
        self._check_classes(self.y)

    def answers(self, targets: bool) -> Optional[tuple[str, np.ndarray]]:
        if self.y is None:
            return None
        labels = self.y.dtype.kind in "biu" and not targets
        return ("labels" if labels else "targets"), as_library_array(self.y, "y", real=not labels)

    def open(self, context: Context, model: Optional[Node], targets: bool) -> Node:
        names = _names_for(model, list(self.inputs))
        arrays = [(n, as_library_array(a, n)) for n, a in zip(names, self.inputs.values())]
        answers = self.answers(targets)
        if answers:
            arrays.append(answers)
        if answers and answers[0] == "labels":
            check_labels(answers[1], model)
        c_arrays, keep = _array_list(arrays)
        node = context.make(
            "dataset", lib.dpt_dataset_from_arrays, context.pointer, c_arrays, len(arrays)
        )
        del keep
        return arrange(node, model)


def _array_list(arrays: Sequence[tuple[str, np.ndarray]], data: bool = True) -> tuple[Any, list]:
    """dpt_dataset_array[] of arrays, and what must live as long."""
    c_arrays, keep = ffi.new("dpt_dataset_array[]", len(arrays)), []
    for one, (name, array) in zip(c_arrays, arrays):
        if array.ndim > len(one.shape):
            raise InvalidError(
                f"{name} has {array.ndim} axes, at most {len(one.shape)} are possible: {array.shape}"
            )
        keep.append(ffi.new("char[]", encoded(name)))
        one.name = keep[-1]
        one.dtype, one.rank = dtype_of(array), array.ndim
        for axis, extent in enumerate(array.shape):
            one.shape[axis] = extent
        if data:
            keep.append(ffi.from_buffer(array))
            one.data = keep[-1]
    return c_arrays, keep


def check_labels(labels: np.ndarray, model: Optional[Node]) -> None:
    """Raises InvalidError if labels do not fit a model: for their shape, or with index and value."""
    outputs, each = 0, 0
    if model is not None and not lib.dpt_model_gives_loss(model.get()):
        outputs, each = lib.dpt_model_outputs(model.get()), lib.dpt_model_labels(model.get())
    if outputs == 1:
        return  # the numbers of a regression, which are integers
    if each and labels.size != len(labels) * each:
        wanted = f"({len(labels)},)" if each == 1 else f"({len(labels)}, {each})"
        raise InvalidError(
            f"the labels have the shape {labels.shape}, but the network needs {wanted}"
        )
    ignored = (labels == IGNORED_LABEL) & (labels.ndim > 1)
    wrong = (labels < 0) & ~ignored
    if outputs:
        wrong |= labels >= outputs
    if not wrong.any():
        return
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    where = ", ".join(map(str, place))
    span = f"0 to {outputs - 1}" if outputs else "0 or more"
    raise InvalidError(f"labels[{where}] is {labels[place]}: the labels of this network are {span}")


# ---- Samples that are read on demand -----------------------------------------------------------


def _seed_all(seed: int) -> Callable[[], None]:
    """Seeds the global generators; returns a function that puts them back."""
    import random
    import sys

    state, numpy_state = random.getstate(), np.random.get_state()
    torch = sys.modules.get("torch")
    torch_state = torch.get_rng_state() if torch else None
    random.seed(seed)
    np.random.seed(seed % 2**32)
    if torch:
        torch.manual_seed(seed)

    def restore() -> None:
        random.setstate(state)
        np.random.set_state(numpy_state)
        if torch:
            torch.set_rng_state(torch_state)

    return restore


class _Reader(_Source):
    """Samples of anything with len() and [], read by threads of the library."""

    def __init__(
        self, samples: Any, labels: Any, threads: int, seeded: bool, names: Optional[Sequence[str]]
    ):
        self.samples, self.threads, self.seeded = samples, threads, seeded
        self.one_at_a_time = threading.Lock()
        self.names = list(names) if names else None
        if len(samples) == 0:
            raise InvalidError(f"this {type(samples).__name__} has no samples")
        x, y = _parts(self.sample(0, 0))
        self.declared = [(n, as_library_array([a], n)) for n, a in self._inputs(x).items()]
        self.labels = self._labels(labels, y)
        self.has_answers = y is not None
        self.bytes = all(a.dtype == np.uint8 for _, a in self.declared)

    def __getstate__(self) -> dict:
        return {**self.__dict__, "one_at_a_time": None, "failure": None}

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state, one_at_a_time=threading.Lock())

    def sample(self, index: int, epoch: int) -> Any:
        if not self.seeded:
            return self.samples[index]
        with self.one_at_a_time:
            restore = _seed_all(index * 1000003 + epoch)
            try:
                return self.samples[index]
            finally:
                restore()

    def _inputs(self, x: Any) -> dict[str, np.ndarray]:
        named = _named_inputs(x)
        if isinstance(x, tuple) and self.names:
            named = dict(zip(self.names, x))
        return {name: as_array(value, name) for name, value in named.items()}

    def _answer_of(self, index: int) -> np.ndarray:
        answer = _parts(self.sample(index, 0))[1]
        if answer is None:
            raise InvalidError(f"sample {index} has no labels, targets or y, but sample 0 has")
        return np.asarray(answer)

    def _labels(self, labels: Any, first: Any) -> Optional[np.ndarray]:
        for name in ("targets", "labels"):
            if labels is None and first is not None and hasattr(self.samples, name):
                found = getattr(self.samples, name)
                if hasattr(found, "__len__") and len(found) == len(self.samples):
                    labels = found
        if labels is None and first is not None:
            with concurrent.futures.ThreadPoolExecutor(self.threads or None) as pool:
                labels = list(pool.map(self._answer_of, range(len(self.samples))))
        if labels is None:
            return None
        array = as_array(labels, "labels")
        if len(array) != len(self.samples):
            raise InvalidError(f"{len(array)} labels are given for {len(self.samples)} samples")
        return array

    def count(self) -> int:
        return len(self.samples)

    def what(self) -> str:
        return f"{type(self.samples).__name__}, read on demand"

    def image_shape(self) -> Optional[tuple]:
        shape = self.declared[0][1].shape[1:]
        if len(self.declared) != 1 or len(shape) != 3 or not looks_channels_first(shape):
            return None
        return (shape[1], shape[2], shape[0])

    def kind(self) -> Any:
        return self.bytes

    def check_classes(self) -> None:
        self._check_classes(self.labels)

    def write(self, index: int, epoch: int, record: Any) -> None:
        """Writes the record of a sample into the library's memory."""
        x, y = _parts(self.sample(index, epoch))
        if self.has_answers and self.labels is not None:
            self._check_label(index, y, self.labels[index])
        at = 0
        given = self._inputs(x)
        for name, declared in self.declared:
            array = given.get(name)
            if array is None or array.shape != declared.shape[1:]:
                shape = None if array is None else array.shape
                raise InvalidError(
                    f"{name} of sample {index} has the shape {shape}, sample 0 has {declared.shape[1:]}"
                )
            size = declared.size * (1 if self.bytes else 4)
            kind = (
                np.uint8 if self.bytes else np.float32 if declared.dtype == np.float32 else np.int32
            )
            to = np.frombuffer(record, kind, declared.size, at).reshape(declared.shape[1:])
            np.copyto(to, array, casting="unsafe")
            at += size

    def _check_label(self, index: int, y: Any, given: Any) -> None:
        if not np.array_equal(np.asarray(y, given.dtype), given):
            raise InvalidError(
                f"sample {index} has the answer {y}, but {given} was given for it: give labels= that "
                "are those of the samples"
            )

    def open(self, context: Context, model: Optional[Node], targets: bool) -> Node:
        memory = empty("dpt_dataset_memory")
        n = len(self.samples)
        names = _names_for(model, [name for name, _ in self.declared])
        declared = [
            (name, np.broadcast_to(a, (n, *a.shape[1:])))
            for name, (_, a) in zip(names, self.declared)
        ]
        inputs, keep = _array_list(declared, data=False)
        memory.inputs, memory.n_inputs, memory.count = inputs, len(declared), n
        keep += self._answer(memory, model, targets)
        reader = empty("dpt_dataset_reader")
        handle = ffi.new_handle(self)
        reader.read, reader.user = _read_sample, handle
        reader.n_threads = 1 if self.seeded else self.threads
        try:
            node = context.make(
                "dataset", lib.dpt_dataset_from_reader, context.pointer, memory, reader
            )
            node.keep = (handle, self, keep)
            return arrange(node, model)
        except Error as why:
            raise why from self.take_failure()

    def _answer(self, memory: Any, model: Optional[Node], targets: bool) -> list:
        """Puts labels or targets into the description; returns what must live as long."""
        memory.outputs = 2
        if self.labels is None:
            return []
        if self.labels.dtype.kind == "f" or targets:
            numbers = as_library_array(self.labels, "labels", real=True)
            memory.outputs = numbers.size // len(numbers)
            memory.targets = ffi.from_buffer("float[]", numbers)
            return [numbers]
        labels = as_library_array(self.labels, "labels").astype(np.int32)
        check_labels(labels, model)
        memory.outputs = max(2, int(labels.max()) + 1)
        memory.labels, memory.label_dtype = ffi.from_buffer(labels), lib.DPT_I32
        memory.labels_per_sample = labels.size // len(labels)
        return [labels]


def _reader_failed(kind: Any, value: Any, trace: Any) -> int:
    return lib.DPT_E_IO


@ffi.callback(
    "dpt_status(void *user, size_t sample, size_t epoch, void *image, char *why)",
    onerror=_reader_failed,
    error=lib.DPT_E_IO,
)
def _read_sample(user: Any, sample: int, epoch: int, image: Any, why: Any) -> int:
    source = ffi.from_handle(user)
    try:
        size = sum(a.size for _, a in source.declared) * (1 if source.bytes else 4)
        with within_a_call():
            source.write(sample, epoch, ffi.buffer(image, size))
        return lib.DPT_OK
    except BaseException as failure:  # of the program: it is the cause of the library's failure
        source.failure = failure
        write_reason(failure, why, lib.DPT_READER_WHY_BYTES)
        return lib.DPT_E_IO


# ---- Loaders and iterables ---------------------------------------------------------------------


def _stack(parts: list, batched: bool) -> Any:
    """Joins the arrays of samples, or of batches."""
    first = parts[0]
    if isinstance(first, Mapping):
        _same_parts(parts, lambda part: isinstance(part, Mapping) and set(part))
        return {name: _stack([part[name] for part in parts], batched) for name in first}
    if isinstance(first, (tuple, list)) and first and not np.isscalar(first[0]):
        _same_parts(parts, lambda part: isinstance(part, (tuple, list)) and len(part))
        return tuple(_stack([part[i] for part in parts], batched) for i in range(len(first)))
    arrays = [as_array(part, "x") for part in parts]
    for i, array in enumerate(arrays):
        if batched and array.ndim == 0:
            raise InvalidError(
                f"element {i} has one number where a batch is needed, whose first axis counts samples: give "
                "elements (x, y), or a dict"
            )
        shape, other = (
            (array.shape[1:], arrays[0].shape[1:]) if batched else (array.shape, arrays[0].shape)
        )
        if shape != other:
            raise InvalidError(f"element {i} has the shape {shape}, element 0 has {other}")
    return np.concatenate(arrays) if batched else np.stack(arrays)


def _same_parts(parts: list, kind: Callable[[Any], Any]) -> None:
    """Raises InvalidError if parts of elements are not all of one kind."""
    for i, part in enumerate(parts):
        if kind(part) != kind(parts[0]):
            raise InvalidError(
                f"element {i} has other parts than element 0: {_words_of(part)}, and {_words_of(parts[0])}"
            )


def _words_of(part: Any) -> str:
    if isinstance(part, Mapping):
        return f"a dict with {', '.join(map(str, part))}"
    return f"a {type(part).__name__}" + (
        f" of {len(part)}" if isinstance(part, (tuple, list)) else ""
    )


def _collect(samples: Any, batched: bool) -> _Source:
    elements = [_parts(sample) for sample in samples]
    if not elements:
        raise InvalidError(f"this {type(samples).__name__} has no samples")
    has_answers = elements[0][1] is not None
    for i, (_, y) in enumerate(elements):
        if (y is not None) != has_answers:
            raise InvalidError(
                f"element {i} has {'no' if has_answers else 'a'} label, unlike element 0: give each as (x, y)"
            )
    x = _stack([x for x, _ in elements], batched)
    return _Arrays(x, _stack([y for _, y in elements], batched) if has_answers else None)


def _of_loader(loader: Any) -> Dataset:
    """Of a DataLoader: its data set, read by our threads; or its batches, if they are more than that."""
    from torch.utils import data

    plain = loader.collate_fn is data.default_collate and isinstance(
        loader.batch_sampler, data.BatchSampler
    )
    if isinstance(loader.dataset, data.IterableDataset) or not plain:
        dataset = Dataset.collect(
            loader, batched=loader.batch_size is not None or loader.batch_sampler is not None
        )
    else:
        # With batch_sampler= the loader's own sampler and batch size say nothing.
        sampler = getattr(loader.batch_sampler, "sampler", loader.sampler)
        if not _takes_all_once(sampler, loader.dataset):
            raise UnsupportedError(
                f"the order of {type(sampler).__name__} is not used: give Dataset.read(loader.dataset), or "
                "Dataset.collect(loader, batched=True) to take the samples as the loader gives them once"
            )
        dataset = Dataset.read(loader.dataset, threads=min(loader.num_workers, 16))
        dataset.shuffle = isinstance(sampler, data.RandomSampler)
    dataset.batch_size = getattr(loader.batch_sampler, "batch_size", loader.batch_size)
    return dataset


def _takes_all_once(sampler: Any, samples: Any) -> bool:
    """Whether a sampler gives each sample once an epoch, in order or in a random order."""
    from torch.utils import data

    if isinstance(sampler, data.RandomSampler):
        return not sampler.replacement and sampler.num_samples == len(samples)
    return type(sampler) is data.SequentialSampler and len(sampler) == len(samples)


Data = Union[Dataset, str, tuple, Mapping[str, Any], Any]
