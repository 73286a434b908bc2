"""Networks built layer by layer: the functions of dptrain/model.h, tensor.h and sequence.h."""

from __future__ import annotations

from typing import Any, Callable, Sequence, Union

import numpy as np

from ._context import Context, Node, plain_context
from ._library import encoded, error_of, ffi, lib, text
from ._pickling import Calls, recorded
from ._structs import constant, fill
from .errors import InvalidError, StateError
from .model import Model


class Value:
    """What a layer gives.  `axes` are those of PyTorch without the batch: (channels, height, width)."""

    __slots__ = ("_builder", "_id", "_ids")

    def __init__(self, builder: Builder, number: int, ids: bool = False):
        self._builder, self._id, self._ids = builder, number, ids

    @property
    def axes(self) -> tuple:
        extents = ffi.new("size_t[]", lib.DPT_MAX_AXES)
        n = lib.dpt_value_axes(self._builder._node.get(), _c_value(self), extents)
        return tuple(extents[0:n])

    def __repr__(self) -> str:
        return f"Value(axes={self.axes})"


def _c_value(value: Any) -> Any:
    if not isinstance(value, Value):
        raise TypeError(
            f"a layer takes what a method of the builder has returned, and no {type(value).__name__}"
        )
    out = ffi.new("dpt_value *")
    out.id = value._id
    return out[0]


def _c_values(values: Sequence[Value]) -> Any:
    out = ffi.new("dpt_value[]", len(values))
    for i, value in enumerate(values):
        out[i] = _c_value(value)
    return out


def _sizes(extents: Sequence[int]) -> Any:
    return ffi.new("size_t[]", [int(extent) for extent in extents])


class Builder:
    """Builds a network, layer by layer.

        b = dptrain.Builder("mine")
        x = b.flatten(b.input(1, 28, 28))
        x = b.linear(x, "fc1", out=64, activation="relu")
        net = b.finish(b.linear(x, "fc2", out=10))

    Each method is the function of the same name in the C library (`b.conv2d` is `dpt_conv2d`), and
    its keywords are the fields of the function's options struct.  The headers say what they mean:
    dptrain/model.h, tensor.h and sequence.h.  A pair such as `kernel` is a number for both axes, or
    (height, width).  An activation is a word: "relu", "tanh", "sigmoid", "gelu".

    Errors: a layer that is not possible raises InvalidError at once, with the library's message.
    An unknown keyword raises TypeError with the nearest one.
    """

    def __init__(self, name: str):
        self.name = name
        self._steps: list[
            Callable[[Any], Any]
        ] = []  # what was called, to build the same in other contexts
        self._keep: list = []
        self._calls = Calls([])  # to build the same in another process
        self._within = False  # one of the methods
        self._ended = ""  # why nothing can be added
        context = plain_context()
        self._node: Node = context.make(
            "model", lib.dpt_model_create, context.pointer, encoded(name)
        )

    def __del__(self) -> None:
        node = self.__dict__.pop("_node", None)
        if node is not None:
            node.release()

    # ---- Calls ----

    def _do(self, step: Callable[[Any], Any]) -> Any:
        """Makes a call on the model, and remembers it."""
        self._check_not_ended()
        with self._node.context:
            result = step(self._node.get())
        self._steps.append(step)
        return result

    def _add(self, function: Callable, *arguments: Any) -> Value:
        value = self._do(lambda model: function(model, *arguments))
        if value.id == 0:
            self._fail()
        return Value(self, value.id)

    def _check_not_ended(self) -> None:
        if self._ended:
            raise StateError(f"the network {self.name} {self._ended}")

    def _fail(self) -> None:
        """Raises the first failure of the model."""
        self._ended = "has a layer that failed: begin again with a new Builder"
        node = self._node
        with node.context:
            status = lib.dpt_model_finish(node.get(), ffi.new("dpt_value *")[0])
            raise error_of(status, text(lib.dpt_error_message(node.context.pointer)))

    def _options(self, kind: str, options: dict) -> Any:
        values = {k: _c_value(v) if isinstance(v, Value) else v for k, v in options.items()}
        struct, keep = fill(kind, values, kind[4:].replace("_options", ""))
        self._keep.append((struct, keep))
        return struct

    def _named(self, function: Callable, x: Value, name: str, options: Any) -> Value:
        return self._add(function, _c_value(x), encoded(name), options)

    # ---- Inputs ----

    def input(self, *shape: int) -> Value:
        """The input: (channels, height, width) of images, or (n,) for n numbers."""
        if len(shape) not in (1, 3):
            raise InvalidError(f"an input is (channels, height, width) or (n,), not {shape}")
        channels, height, width = (shape[0], 1, 1) if len(shape) == 1 else shape
        image = self._add(lib.dpt_input, height, width, channels)
        return self.flatten(image) if len(shape) == 1 else image

    def input_ids(self, count: int) -> Value:
        """The input of a network that reads ids: `count` integers a sample."""
        value = self._add(lib.dpt_input_ids, count)
        value._ids = True
        return value

    def inputs(self, **shapes: Union[int, Sequence[int]]) -> list[Value]:
        """Several inputs by name: (channels, height, width), (n,) for numbers, or a number of ids."""
        options = ffi.new("dpt_input_options[]", len(shapes))
        for one, (name, shape) in zip(options, shapes.items()):
            self._keep.append(ffi.new("char[]", encoded(name)))
            one.name = self._keep[-1]
            if isinstance(shape, int):
                one.ids = shape
            else:
                one.channels, one.height, one.width = (
                    (shape[0], 1, 1) if len(shape) == 1 else tuple(shape)
                )
        values = ffi.new("dpt_value[]", len(shapes))
        self._do(lambda model: lib.dpt_inputs(model, options, len(shapes), values))
        return self._several(values, [isinstance(shape, int) for shape in shapes.values()])

    def _several(self, values: Any, ids: Sequence[bool] = ()) -> list[Value]:
        if any(value.id == 0 for value in values):
            self._fail()
        return [Value(self, value.id, bool(ids and ids[i])) for i, value in enumerate(values)]

    # ---- Layers with a name ----

    def conv2d(self, x: Value, name: str, **options: Any) -> Value:
        """out_channels, kernel, stride, padding, dilation, groups, no_bias, activation."""
        return self._named(lib.dpt_conv2d, x, name, self._options("dpt_conv2d_options", options))

    def linear(self, x: Value, name: str, **options: Any) -> Value:
        """out, no_bias, activation."""
        return self._named(lib.dpt_linear, x, name, self._options("dpt_linear_options", options))

    def batch_norm(self, x: Value, name: str, **options: Any) -> Value:
        """epsilon, momentum, activation."""
        return self._named(lib.dpt_batch_norm, x, name, self._options("dpt_norm_options", options))

    def layer_norm(self, x: Value, name: str, **options: Any) -> Value:
        """epsilon, activation."""
        return self._named(lib.dpt_layer_norm, x, name, self._options("dpt_norm_options", options))

    def rms_norm(self, x: Value, name: str, **options: Any) -> Value:
        """epsilon."""
        return self._named(lib.dpt_rms_norm, x, name, self._options("dpt_norm_options", options))

    def embedding(self, ids: Value, name: str, **options: Any) -> Value:
        """rows, width, deviation."""
        return self._named(
            lib.dpt_embedding, ids, name, self._options("dpt_embedding_options", options)
        )

    def lstm(self, x: Value, name: str, **options: Any) -> Value:
        """hidden, layers, bidirectional, no_bias, last."""
        return self._named(lib.dpt_lstm, x, name, self._options("dpt_recurrent_options", options))

    def gru(self, x: Value, name: str, **options: Any) -> Value:
        """hidden, layers, bidirectional, no_bias, last."""
        return self._named(lib.dpt_gru, x, name, self._options("dpt_recurrent_options", options))

    def rnn(self, x: Value, name: str, **options: Any) -> Value:
        """hidden, layers, bidirectional, no_bias, last, relu."""
        return self._named(lib.dpt_rnn, x, name, self._options("dpt_recurrent_options", options))

    def attention(self, x: Value, name: str, **options: Any) -> Value:
        """heads, memory (a value), causal, no_bias."""
        return self._named(
            lib.dpt_attention, x, name, self._options("dpt_attention_options", options)
        )

    def sequence_linear(self, x: Value, name: str, **options: Any) -> Value:
        """out, table, deviation, no_bias, in_first."""
        return self._named(
            lib.dpt_sequence_linear, x, name, self._options("dpt_sequence_linear_options", options)
        )

    def positions(self, x: Value, name: str, **options: Any) -> Value:
        """rows, deviation."""
        return self._named(
            lib.dpt_positions, x, name, self._options("dpt_positions_options", options)
        )

    # ---- Layers without a name ----

    def rotary(self, x: Value, **options: Any) -> Value:
        """heads, base."""
        return self._add(lib.dpt_rotary, _c_value(x), self._options("dpt_rotary_options", options))

    def attend(self, x: Value, **options: Any) -> Value:
        """keys and values (values of this builder), heads, key_heads, causal."""
        return self._add(lib.dpt_attend, _c_value(x), self._options("dpt_attend_options", options))

    def pool2d(self, x: Value, **options: Any) -> Value:
        """kind ("max" or "average"), kernel, stride, padding."""
        return self._add(lib.dpt_pool2d, _c_value(x), self._options("dpt_pool2d_options", options))

    def global_average_pool(self, x: Value) -> Value:
        return self._add(lib.dpt_global_average_pool, _c_value(x))

    def dropout(self, x: Value, p: float) -> Value:
        return self._add(lib.dpt_dropout, _c_value(x), p)

    def activate(self, x: Value, kind: str) -> Value:
        return self._add(lib.dpt_activate, _c_value(x), constant("dpt_activation", kind))

    def add(self, a: Value, b: Value) -> Value:
        return self._add(lib.dpt_add, _c_value(a), _c_value(b))

    def elementwise(self, formula: str, *inputs: Value) -> Value:
        """A formula of one to four values, which it calls a, b, c and d: "a * sigmoid(a)"."""
        return self._add(lib.dpt_elementwise, encoded(formula), _c_values(inputs), len(inputs))

    def flatten(self, x: Value) -> Value:
        return self._add(lib.dpt_flatten, _c_value(x))

    # ---- Values with any number of axes ----

    def parameter(self, name: str, extents: Sequence[int], initial: Any = None) -> Value:
        """A parameter that is read as a value.  `initial` is an array of that shape."""
        numbers = self._numbers(extents, initial) if initial is not None else ffi.NULL
        return self._add(lib.dpt_parameter, encoded(name), _sizes(extents), len(extents), numbers)

    def constant(self, numbers: Any) -> Value:
        """Numbers that never change: an array."""
        array = np.atleast_1d(np.asarray(numbers, np.float32))
        return self._add(
            lib.dpt_constant, _sizes(array.shape), array.ndim, self._numbers(array.shape, array)
        )

    def _numbers(self, extents: Sequence[int], numbers: Any) -> Any:
        array = np.ascontiguousarray(numbers, np.float32)
        if array.shape != tuple(extents):
            raise InvalidError(
                f"the numbers have the shape {array.shape}, but {tuple(extents)} is declared"
            )
        self._keep.append(array)
        return ffi.from_buffer("float[]", array)

    def reshape(self, x: Value, extents: Sequence[int]) -> Value:
        return self._add(lib.dpt_reshape, _c_value(x), _sizes(extents), len(extents))

    def transpose(self, x: Value, order: Sequence[int]) -> Value:
        return self._add(lib.dpt_transpose, _c_value(x), _sizes(order), len(order))

    def expand(self, x: Value, extents: Sequence[int]) -> Value:
        return self._add(lib.dpt_expand, _c_value(x), _sizes(extents), len(extents))

    def slice(self, x: Value, **options: Any) -> Value:
        """axis, begin, count, step."""
        return self._add(lib.dpt_slice, _c_value(x), self._options("dpt_slice_options", options))

    def split_axis(self, x: Value, axis: int, parts: Sequence[int]) -> list[Value]:
        """Cuts x along an axis into values with parts[0], parts[1], ... elements."""
        values, sizes = ffi.new("dpt_value[]", len(parts)), _sizes(parts)
        self._do(
            lambda model: lib.dpt_split_axis(model, _c_value(x), axis, sizes, len(parts), values)
        )
        return self._several(values)

    def concatenate(self, values: Sequence[Value], axis: int) -> Value:
        return self._add(lib.dpt_concatenate, _c_values(values), len(values), axis)

    def as_image(self, x: Value) -> Value:
        return self._add(lib.dpt_as_image, _c_value(x))

    def matmul(self, a: Value, b: Value) -> Value:
        return self._add(lib.dpt_matmul, _c_value(a), _c_value(b))

    def softmax(self, x: Value, axis: int) -> Value:
        return self._add(lib.dpt_softmax, _c_value(x), axis)

    def log_softmax(self, x: Value, axis: int) -> Value:
        return self._add(lib.dpt_log_softmax, _c_value(x), axis)

    def reduce_axes(
        self, x: Value, kind: str = "sum", axes: Sequence[int] = (), keep: bool = False
    ) -> Value:
        """kind is "sum", "mean", "max" or "min"; without axes all are reduced."""
        options = self._options(
            "dpt_reduce_options", {"kind": kind, "keep": keep, "n_axes": len(axes)}
        )
        for i, axis in enumerate(axes):
            options.axes[i] = axis
        return self._add(lib.dpt_reduce_axes, _c_value(x), options)

    def operator(
        self, name: str, inputs: Sequence[Value], forward: Callable, **options: Any
    ) -> Value:
        """An operator of the program, computed in host memory with NumPy.  It is slow.

        forward(*inputs) -> output; each input is (samples, elements), float32 or int32, and so is the
        output: (samples, elements).  Keywords: `backward(*inputs, gradient)`, which returns a list of
        the gradients of the inputs; `elements` of an output that is a vector, or `height`, `width`
        and `channels` of an image; `deterministic`.  See dptrain/callback.h for the order of elements
        and for the rules.  An exception fails the step, and is the `__cause__` of CallbackError."""
        from ._callbacks import operator_options

        sizes = [(int(np.prod(value.axes)), value._ids) for value in inputs]
        struct, keep = operator_options(forward, sizes, options)
        self._keep.append(keep)
        return self._add(lib.dpt_operator, encoded(name), _c_values(inputs), len(inputs), struct)

    # ---- The end ----

    def finish(self, logits: Value, per_pixel: bool = False) -> Model:
        """Ends the network: `logits` are the scores of the classes, or the predictions of a regression.

        `per_pixel`: each pixel, or token, is scored."""
        self._check_not_ended()
        function = lib.dpt_model_finish_per_pixel if per_pixel else lib.dpt_model_finish
        value = _c_value(logits)
        self._node.context.call(function, self._node.get(), value)
        self._ended = "is finished"
        steps, keep, name = self._steps, self._keep, self.name

        def make(context: Context) -> Node:
            node = context.make("model", lib.dpt_model_create, context.pointer, encoded(name))
            with context:
                for step in steps:
                    step(node.get())
                context.check(function(node.get(), value))
            node.keep = keep
            return node

        model = Model._made(make, name)
        model._source = self._calls
        node = self.__dict__.pop("_node")
        node.keep = keep
        model._nodes[node.context] = node
        return model


for _name, _method in list(vars(Builder).items()):
    if not _name.startswith("_"):
        setattr(Builder, _name, recorded(_method))
