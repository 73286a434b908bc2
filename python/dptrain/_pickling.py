"""Networks as pickle stores them: what makes the network, and the file of its weights.

A network by name is stored as its name and its sizes, one of an ONNX file or of a module of PyTorch as
the file, and one built layer by layer as the calls of its builder.  So the network that is read
can be trained as the one that was written: batch-norm, dropout and constants are kept.
"""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Optional

import numpy as np

from ._context import Context, Node, context_for
from ._library import lib
from .errors import ClosedError, Error, InvalidError

if TYPE_CHECKING:
    from .builder import Builder
    from .model import Model


@dataclass(frozen=True)
class Reference:
    """A value of a builder, as an argument of a recorded call."""

    id: int
    ids: bool


@dataclass
class Calls:
    """The calls of a builder: names, positional arguments and keywords.  The last is `finish`."""

    list: list[tuple[str, tuple, dict]]


def _stored(builder: Builder, argument: Any) -> Any:
    """An argument with references in place of values, and copies of what may change."""
    from .builder import Value

    if isinstance(argument, Value):
        if argument._builder is not builder:
            raise InvalidError(
                f"a value of the network {argument._builder.name} cannot be used in the network {builder.name}"
            )
        return Reference(argument._id, argument._ids)
    if isinstance(argument, dict):
        return {key: _stored(builder, value) for key, value in argument.items()}
    if isinstance(argument, (list, tuple)):
        return type(argument)(_stored(builder, one) for one in argument)
    return argument.copy() if isinstance(argument, np.ndarray) else argument


def _argument(builder: Builder, stored: Any) -> Any:
    from .builder import Value

    if isinstance(stored, Reference):
        return Value(builder, stored.id, stored.ids)
    if isinstance(stored, dict):
        return {key: _argument(builder, value) for key, value in stored.items()}
    if isinstance(stored, (list, tuple)):
        return type(stored)(_argument(builder, one) for one in stored)
    return stored


def recorded(method: Callable) -> Callable:
    """A method of the builder whose calls are recorded, unless another method makes them."""

    @functools.wraps(method)
    def call(self: Builder, *arguments: Any, **keywords: Any) -> Any:
        if self._within:
            return method(self, *arguments, **keywords)
        stored = (method.__name__, _stored(self, arguments), _stored(self, keywords))
        self._within = True
        try:
            result = method(self, *arguments, **keywords)
        finally:
            self._within = False
        self._calls.list.append(stored)
        return result

    return call


def _build(name: str, calls: Calls) -> Model:
    from .builder import Builder

    builder = Builder(name)
    result = None
    for method, arguments, keywords in calls.list:
        result = getattr(builder, method)(
            *_argument(builder, arguments), **_argument(builder, keywords)
        )
    return result  # type: ignore[return-value]


class OnnxFile:
    """A network's ONNX file in a folder of its own, which goes with this object.

    Without `content` the caller writes the file."""

    def __init__(self, name: str, content: Optional[bytes] = None):
        from .model import Folder

        self.folder = Folder()
        self.path = os.path.join(self.folder.path, name)
        if content is not None:
            with open(self.path, "wb") as file:
                file.write(content)

    def open(self, context: Context) -> Node:
        path = os.fsencode(self.path)
        return context.make("model", lib.dpt_model_from_onnx, context.pointer, path)


def _onnx_bytes(path: str, name: str) -> bytes:
    """The file, which must have all weights: ONNX allows others beside it."""
    with open(path, "rb") as file:
        content = file.read()
    if b"location" in content:  # the key by which a tensor names another file
        try:
            OnnxFile("net.onnx", content).open(context_for("cpu")).release()
        except Error as why:
            raise TypeError(
                f"{name} cannot be pickled: its ONNX file cannot be read without the files beside "
                f"it ({why}). Write the weights into the file, or save them with net.save(path)"
            ) from why
    return content


_PLAIN = ("name", "_shape", "_sized", "frozen", "_brings_weights", "_outputs", "_statistics")


def _read(path: Optional[str]) -> Optional[bytes]:
    if path is None:
        return None
    with open(path, "rb") as file:
        return file.read()


def state_of(model: Model) -> dict[str, Any]:
    if model._closed:
        raise ClosedError(f"this model, {model.name}, is closed")
    state: dict[str, Any] = {name: getattr(model, name) for name in _PLAIN}
    source = model._source
    state["weights"] = _read(model._weights_path)
    state["calls"] = source if isinstance(source, Calls) else None
    path = source.path if isinstance(source, OnnxFile) else None
    if source is None and model._brings_weights:
        path = model.name
    if path is not None:
        state["onnx"] = (os.path.basename(path), _onnx_bytes(path, model.name))
    return state


def restore(model: Model, state: dict[str, Any]) -> None:
    make, source = None, None
    if state["calls"]:
        built = _build(state["name"], state["calls"])
        make, source = built._make, built._source
    elif "onnx" in state:
        source = OnnxFile(*state["onnx"])
        make = source.open
    model._begin(make, state["name"])
    model._source = source
    for name in _PLAIN:
        setattr(model, name, state[name])
    if state["weights"] is not None:
        path = model._new_file()
        with open(path, "wb") as file:
            file.write(state["weights"])
        model._take_file(path)
    if model._sized:
        model._any_node()
