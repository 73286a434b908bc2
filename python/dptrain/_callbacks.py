"""Functions of the program within a network: operators and losses in NumPy."""

from __future__ import annotations

import threading
from typing import Any, Callable, Optional

import numpy as np

from ._context import within_a_call
from ._library import ffi, lib, write_reason
from ._structs import fill
from .errors import InvalidError

_failures: dict[str, BaseException] = {}
_failures_lock = threading.Lock()


def take_failure(message: str) -> Optional[BaseException]:
    """Takes the exception of a function whose reason the library's message has."""
    with _failures_lock:
        for why in list(_failures):
            if why in message:
                return _failures.pop(why)
    return None


def _fail(call: Any, failure: BaseException) -> int:
    why = write_reason(failure, call.why, lib.DPT_CALLBACK_WHY_BYTES)
    with _failures_lock:
        _failures.clear()
        _failures[why] = failure
    return lib.DPT_E_CALLBACK


def _copy(pointer: Any, shape: tuple, kind: Any = np.float32) -> np.ndarray:
    """The library's numbers for the program, which may keep them longer than the call."""
    return _view(pointer, shape, kind).copy()


def _view(pointer: Any, shape: tuple, kind: Any = np.float32) -> np.ndarray:
    """The library's numbers, without a copy.  Valid during the call."""
    size = int(np.prod(shape))
    return np.frombuffer(ffi.buffer(pointer, size * 4), kind).reshape(shape)


class _Operator:
    def __init__(
        self, forward: Callable, backward: Optional[Callable], inputs: list, elements: int
    ):
        self.forward, self.backward, self.inputs, self.elements = (
            forward,
            backward,
            inputs,
            elements,
        )

    def arrays(self, call: Any) -> list[np.ndarray]:
        kinds = ((size, np.int32 if ids else np.float32) for size, ids in self.inputs)
        return [
            _copy(call.inputs[i], (call.n_samples, size), kind)
            for i, (size, kind) in enumerate(kinds)
        ]

    def run_forward(self, call: Any) -> None:
        result = np.asarray(self.forward(*self.arrays(call)), np.float32)
        wanted = (call.n_samples, self.elements)
        _view(call.output, wanted)[...] = _checked(result, wanted, "forward")

    def run_backward(self, call: Any) -> None:
        gradient = _copy(call.output_gradient, (call.n_samples, self.elements))
        results = self.backward(*self.arrays(call), gradient)  # type: ignore[misc]
        for i, (size, _) in enumerate(self.inputs):
            if call.input_gradients[i]:
                wanted = (call.n_samples, size)
                result = np.asarray(results[i], np.float32)
                _view(call.input_gradients[i], wanted)[...] = _checked(result, wanted, "backward")


def _checked(result: np.ndarray, wanted: tuple, name: str) -> np.ndarray:
    if result.size != np.prod(wanted) or len(result) != wanted[0]:
        raise InvalidError(f"{name} gave the shape {result.shape}, but {wanted} is needed")
    return result.reshape(wanted)


@ffi.callback("dpt_operator_function", error=lib.DPT_E_CALLBACK)
def _forward(call: Any) -> int:
    try:
        with within_a_call():
            ffi.from_handle(call.user).run_forward(call)
        return lib.DPT_OK
    except BaseException as failure:  # of the program: it becomes the cause of CallbackError
        return _fail(call, failure)


@ffi.callback("dpt_operator_function", error=lib.DPT_E_CALLBACK)
def _backward(call: Any) -> int:
    try:
        with within_a_call():
            ffi.from_handle(call.user).run_backward(call)
        return lib.DPT_OK
    except BaseException as failure:  # of the program
        return _fail(call, failure)


def operator_options(forward: Callable, inputs: list, options: dict) -> tuple[Any, Any]:
    """The options of dpt_operator, and what must live as long as the model.

    inputs   (elements, whether they are ids) of each input."""
    options = dict(options)
    backward = options.pop("backward", None)
    struct, keep = fill("dpt_operator_options", options, "operator")
    elements = struct.elements or struct.height * struct.width * struct.channels
    handle = ffi.new_handle(_Operator(forward, backward, inputs, elements))
    struct.forward, struct.user = _forward, handle
    if backward:
        struct.backward = _backward
    return struct, (handle, keep)


class Loss:
    """A loss of the program: see `loss` of dptrain.fit."""

    def __init__(self, function: Callable, labels: int, outputs: int):
        self.function, self.labels, self.outputs = function, labels, outputs

    def run(self, call: Any) -> None:
        n = call.n_samples
        outputs = _copy(
            call.outputs, (n, self.labels, self.outputs) if self.labels > 1 else (n, self.outputs)
        )
        if call.targets:
            answers = _copy(call.targets, (n, self.outputs))
        else:
            answers = _copy(call.labels, (n, self.labels) if self.labels > 1 else (n,), np.int32)
        losses, gradients, *hits = self.function(outputs, answers)
        _view(call.losses, (n,))[...] = _checked(np.asarray(losses, np.float32), (n,), "the loss")
        if call.gradients:
            wanted = outputs.shape
            result = _checked(
                np.asarray(gradients, np.float32).reshape(n, -1),
                (n, int(np.prod(wanted[1:]))),
                "the loss",
            )
            _view(call.gradients, wanted)[...] = result.reshape(wanted)
        if hits:
            _view(call.hits, (n,))[...] = hits[0]


@ffi.callback("dpt_loss_function", error=lib.DPT_E_CALLBACK)
def loss_function(call: Any) -> int:
    """The dpt_loss_function of a Loss."""
    try:
        with within_a_call():
            ffi.from_handle(call.user).run(call)
        return lib.DPT_OK
    except BaseException as failure:  # of the program
        return _fail(call, failure)
