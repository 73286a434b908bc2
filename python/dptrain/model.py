"""Networks: by name, from ONNX files, and built layer by layer; their weights."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from dataclasses import dataclass
from typing import Any, Callable, Mapping, Optional, Sequence, Union

import numpy as np

from . import _safetensors
from ._context import Context, Node, context_for, plain_context
from ._library import encoded, ffi, lib, text
from ._pickling import restore, state_of
from ._structs import as_dict, empty, fill
from .errors import ClosedError, InvalidError, NotFoundError, StateError


@dataclass(frozen=True)
class Tensor:
    """A tensor of a network, as a checkpoint stores it."""

    name: str
    shape: tuple
    trained: bool


@dataclass(frozen=True)
class Input:
    """An input of a network.  `vocabulary` is 0 for real numbers."""

    name: str
    elements: int
    vocabulary: int


@dataclass(frozen=True)
class Layer:
    """A layer, with the size of its output for one sample."""

    name: str
    kind: str
    height: int
    width: int
    channels: int
    parameters: int
    multiply_adds: float


def _names(pointer: Any) -> list[str]:
    found, i = [], 0
    while pointer[i]:
        found.append(text(pointer[i]))
        i += 1
    return found


def model_names() -> list[str]:
    """The names of the networks that the library knows."""
    return _names(lib.dpt_model_names()) + _names(lib.dpt_text_model_names())


class Folder:
    """A temporary folder that is removed with this object, or at the end of the interpreter."""

    def __init__(self) -> None:
        self.path = tempfile.mkdtemp(prefix="dptrain-")
        self.remove = weakref.finalize(self, _remove_folder, self.path, os.getpid())


def _remove_folder(path: str, process: int) -> None:
    if os.getpid() == process:  # a forked process must leave it to its parent
        shutil.rmtree(path, ignore_errors=True)


class Model:
    """A network.

    Model("lenet")
        A network by name (`dptrain.model_names()`).  Its sizes are those of the first data that it
        is trained on, or `Model("lenet", input=(1, 28, 28), classes=10)`: `input` is (channels,
        height, width), or (n,) for numbers or ids.
    Model("net.onnx")
        A network of an ONNX file, with the weights of the file.
    dptrain.from_torch(module, example)
        A module of PyTorch.
    dptrain.Builder(name)
        A network built layer by layer.

    After `dptrain.fit` a model has the trained weights, and a further training begins with them.

    `pickle` and `copy.deepcopy` store the network with its weights.  Functions of an operator of the
    program (`Builder.operator`) must be such as pickle stores: those at the top of a module.  Errors:
    TypeError for an ONNX file that has weights in other files; ClosedError.
    """

    def __init__(
        self, name: str, input: Optional[Sequence[int]] = None, classes: Optional[int] = None
    ):
        if not isinstance(name, (str, os.PathLike)):
            raise TypeError(
                f"a network is a Model or the name of one, and no {type(name).__name__}; a module of PyTorch becomes "
                "one by dptrain.from_torch(module, example)"
            )
        self._begin(None, os.fspath(name))
        self._sized = str(name).endswith(".onnx")
        if (
            not self._sized
            and not lib.dpt_model_is_known(encoded(self.name))
            and not os.path.exists(self.name)
        ):
            self._check_name()
        if input is not None or classes is not None:
            if input is None or classes is None:
                raise TypeError("give both input and classes, or neither")
            self._set_shape(tuple(input), classes)
        if self._sized:
            self._node(plain_context())

    @classmethod
    def _made(cls, make: Callable[[Context], Node], name: str) -> Model:
        """A model whose function makes the library's model in a context."""
        new = cls.__new__(cls)
        new._begin(make, name)
        new._sized = True
        return new

    def _begin(self, make: Optional[Callable[[Context], Node]], name: str) -> None:
        self.name = name
        self._closed = False
        self._make = make  # None: by the name
        self._source: Any = None  # the calls of a builder, or the file of a module (_pickling)
        self._shape: Optional[dict[str, int]] = None
        self._nodes: dict[Context, Node] = {}
        self._weights_path: Optional[str] = None
        self._version = 0  # grows with each change of the weights
        self._predictors: dict[Any, Any] = {}
        self.frozen: list[str] = []  # tensors that `fit` freezes unless it is told otherwise
        self._brings_weights = name.endswith(".onnx")  # the file has weights
        self._outputs = "probabilities"  # what `predict` gives: set by the loss of a training
        self._statistics: Optional[tuple] = None  # (means, deviations) of the data of the training
        self._folder: Optional[Folder] = None  # of the file of weights

    # ---- The library's model ----

    def _check_name(self) -> None:
        """Raises the library's error for an unknown name."""
        shape = {"height": 1, "width": 1, "channels": 1, "classes": 2}
        context = plain_context()
        c_shape, _ = fill("dpt_model_shape", shape)
        context.make(
            "model", lib.dpt_model_by_name, context.pointer, encoded(self.name), c_shape
        ).release()

    def _set_shape(self, shape: tuple, classes: int) -> None:
        if len(shape) not in (1, 3):
            raise InvalidError(f"input is (channels, height, width) or (n,), not {shape}")
        channels, height, width = (shape[0], 1, 1) if len(shape) == 1 else shape
        if min(channels, height, width, classes) < 1:
            raise InvalidError(f"input={shape}, classes={classes}: all numbers are 1 or more")
        self._shape = {"height": height, "width": width, "channels": channels, "classes": classes}
        self._sized = True
        try:
            self._node(plain_context())
        except BaseException:
            self._sized = False
            raise

    def _by_name(self, context: Context) -> Node:
        if not self._sized:
            raise StateError(
                f"the sizes of {self.name} are not known: give Model({self.name!r}, input=, classes=)"
            )
        c_shape, _ = fill("dpt_model_shape", self._shape or {})
        return context.make(
            "model", lib.dpt_model_by_name, context.pointer, encoded(self.name), c_shape
        )

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(f"this model, {self.name}, is closed")

    def _node(self, context: Context) -> Node:
        """The library's model in a context.  The model owns it."""
        self._check_open()
        node = self._nodes.get(context)
        if node is None or not node.pointer:
            node = self._nodes[context] = (self._make or self._by_name)(context)
        return node

    def _any_node(self) -> Node:
        """The library's model in any context."""
        for node in self._nodes.values():
            if node.pointer:
                return node
        return self._node(plain_context())

    def close(self) -> None:
        """Frees what the model holds.  Closing twice does nothing."""
        self._closed = True
        self._forget_predictors()
        for node in self._nodes.values():
            node.release()
        self._nodes.clear()
        self._folder, self._weights_path, self._make = None, None, None

    def __del__(self) -> None:
        if "_folder" in self.__dict__:
            self.close()

    def copy(self) -> Model:
        """A model of the same network, with copies of the weights."""
        self._check_open()
        new = Model.__new__(Model)
        new._begin(self._make, self.name)
        new._source = self._source
        new._shape, new._sized, new.frozen = self._shape, self._sized, list(self.frozen)
        new._brings_weights = self._brings_weights
        new._outputs, new._statistics = self._outputs, self._statistics
        if self._weights_path:
            path = new._new_file()
            shutil.copyfile(self._weights_path, path)
            new._take_file(path)
        return new

    def __getstate__(self) -> dict:
        return state_of(self)

    def __setstate__(self, state: dict) -> None:
        restore(self, state)

    def __repr__(self) -> str:
        if not self._sized or self._closed:
            return f"Model({self.name!r}{', closed' if self._closed else ''})"
        return f"Model({self.name!r}, {self.parameter_count} parameters)"

    # ---- Descriptions ----

    @property
    def parameter_count(self) -> int:
        """The number of scalars that are trained."""
        return lib.dpt_model_parameter_count(self._any_node().get())

    @property
    def outputs(self) -> int:
        """The number of outputs: the classes, or the predictions of a regression."""
        return lib.dpt_model_outputs(self._any_node().get())

    @property
    def labels_per_sample(self) -> int:
        """1, or the number of pixels or tokens that have a label each."""
        return lib.dpt_model_labels(self._any_node().get())

    @property
    def gives_loss(self) -> bool:
        """Whether the output is the loss of a sample."""
        return lib.dpt_model_gives_loss(self._any_node().get())

    def _unlabelled_inputs(self) -> int:
        """The number of inputs if training takes no labels: see Dataset.of."""
        return len(self.inputs) if self._sized and self.gives_loss else 0

    @property
    def tensors(self) -> list[Tensor]:
        """All parameters and running statistics, with PyTorch's names and shapes."""
        node, info, found = self._any_node(), empty("dpt_parameter_info"), []
        for i in range(lib.dpt_model_tensor_count(node.get())):
            lib.dpt_model_tensor(node.get(), i, info)
            found.append(Tensor(text(info.name), tuple(info.shape[0 : info.rank]), info.trained))
        return found

    @property
    def inputs(self) -> list[Input]:
        """The inputs of the network."""
        node, info, found = self._any_node(), empty("dpt_input_info"), []
        for i in range(lib.dpt_model_input_count(node.get())):
            lib.dpt_model_input(node.get(), i, info)
            found.append(Input(text(info.name), info.elements, info.vocabulary))
        return found

    @property
    def layers(self) -> list[Layer]:
        """The layers in the order of computation, the input first."""
        node, info, found = self._any_node(), empty("dpt_layer_info"), []
        for i in range(lib.dpt_model_layer_count(node.get())):
            lib.dpt_model_layer(node.get(), i, info)
            found.append(Layer(**as_dict(info)))
        return found

    @property
    def remarks(self) -> list[str]:
        """What the library remarks about an ONNX file: what is left out, or looks changed."""
        node = self._any_node()
        found: list[str] = []
        while lib.dpt_model_remark(node.get(), len(found)):
            found.append(text(lib.dpt_model_remark(node.get(), len(found))))
        return found

    # ---- Weights ----

    @property
    def has_weights(self) -> bool:
        """Whether the network was trained, or weights were loaded or set."""
        return self._weights_path is not None

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """The weights and running statistics, as float32 arrays with PyTorch's names and shapes.

        The arrays are copies.  Assign a dictionary to set weights; tensors that it lacks keep their
        values, if the network has weights.  Errors: StateError if the network has none yet;
        InvalidError for another name or shape."""
        self._check_open()
        if self._weights_path is None:
            raise StateError(
                f"{self.name} has no weights of its own yet: train it (dptrain.fit), load a file (net.load), or "
                "initialise it (net.initialize)"
            )
        return _safetensors.read(self._weights_path)

    @weights.setter
    def weights(self, tensors: Mapping[str, Any]) -> None:
        if not isinstance(tensors, Mapping):
            raise TypeError(
                f"weights are a dict of arrays by name, and no {type(tensors).__name__}"
            )
        shapes = {tensor.name: tensor.shape for tensor in self.tensors}
        given = {name: np.asarray(value, np.float32) for name, value in tensors.items()}
        for name, array in given.items():
            if name not in shapes:
                raise InvalidError(
                    f"{self.name} has no tensor {name}; its tensors are {', '.join(shapes)}"
                )
            if array.shape != shapes[name]:
                raise InvalidError(
                    f"{name} has the shape {array.shape}, but {self.name} has {shapes[name]}"
                )
        old = self.weights if self._weights_path else {}
        new = {**old, **given}
        missing = [name for name in shapes if name not in new]
        if missing:
            raise InvalidError(
                f"the weights lack {', '.join(missing)}, and {self.name} has no weights yet"
            )
        path = self._new_file()
        _safetensors.write(path, {name: new[name] for name in shapes})
        self._take_file(path)

    def save(self, path: Union[str, os.PathLike]) -> None:
        """Writes the weights as a safetensors file.  Errors: StateError if there are none."""
        self._check_open()
        if self._weights_path is None:
            raise StateError(f"{self.name} has no weights of its own yet")
        new = f"{os.fspath(path)}.new"
        shutil.copyfile(self._weights_path, new)
        os.replace(new, path)

    def load(self, path: Union[str, os.PathLike]) -> Model:
        """Takes the weights of a safetensors file, or of the folder of a checkpoint.  Returns self.

        The file is copied.  Tensors are checked when they are used, by the library.  Errors:
        NotFoundError; FormatError if the file is damaged."""
        self._check_open()
        source = os.fspath(path)
        if os.path.isdir(source):
            source = os.path.join(source, "model.safetensors")
        if not os.path.exists(source):
            raise NotFoundError(f"{source}: no such file")
        found = describe_weights(source)
        copy = self._new_file()
        shutil.copyfile(source, copy)
        self._take_file(copy)
        normalized = found["stat_channels"] and (
            any(found["mean"]) or any(d != 1 for d in found["deviation"])
        )
        self._statistics = (found["mean"], found["deviation"]) if normalized else None
        return self

    def initialize(self, seed: int = 0, init: str = "default", data: Any = None) -> Model:
        """Gives the network the weights that a training would begin with.  Returns self.

        Those of an ONNX file or of a module of PyTorch, else random ones by `seed` and `init`.
        `data` are samples that fit the network, as for `fit`, which networks with several inputs
        need.  Errors: StateError if the sizes of the network are not known; InvalidError."""
        from .training import initialize

        initialize(self, data, seed=seed, init=init)
        return self

    def _new_file(self) -> str:
        """The path of a new file in a folder that is removed with the model."""
        self._folder = self._folder or Folder()
        self._version += 1
        return os.path.join(self._folder.path, f"{self._version}.safetensors")

    def _take_file(self, path: str) -> None:
        old, self._weights_path = self._weights_path, path
        self._forget_predictors()
        if old:
            os.unlink(old)

    def _forget_predictors(self) -> None:
        for predictor in self._predictors.values():
            predictor.close()
        self._predictors.clear()

    def to_torch(self, module: Any, strict: bool = True) -> Any:
        """Copies the weights into a module of PyTorch by their names.  Returns the module.

        Errors: InvalidError if a shape differs, or, with `strict`, if a tensor of the module has no
        weight here.  See dptrain.from_torch."""
        from ._torch import to_torch

        return to_torch(self, module, strict)

    def to_onnx(self, path: Union[str, os.PathLike], opset: int = 18) -> None:
        """Writes the network as an ONNX file for inference (docs/onnx.md).  `opset` is 13 to 25."""
        node = self._any_node()
        options, _ = fill("dpt_onnx_options", {"opset": opset})
        weights = encoded(self._weights_path) if self._weights_path else ffi.NULL
        node.context.call(lib.dpt_model_to_onnx, node.get(), weights, encoded(path), options)


def describe_weights(path: str) -> dict[str, Any]:
    """What a file of weights records: model, data set, classes, mean and deviation of the data."""
    context = context_for("cpu")
    info = empty("dpt_weights_info")
    with context:
        context.check(lib.dpt_weights_describe(context.pointer, encoded(path), info))
        try:
            found = as_dict(info)
            names = info.class_names
            found["class_names"] = (
                tuple(text(names[i]) for i in range(info.classes)) if names else None
            )
            return found
        finally:
            lib.dpt_weights_release(info)
