"""Turns arrays of NumPy, of PyTorch and of others (DLPack) into arrays that the library reads."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._library import lib
from .errors import InvalidError

INT32 = np.iinfo(np.int32)


def as_array(value: Any, name: str) -> np.ndarray:
    """A NumPy array of the same numbers, without a copy where the memory can be shared.

    Takes NumPy arrays, what has `__dlpack__` (a tensor of PyTorch; of a GPU it is copied to the
    host), and what `numpy.asarray` takes.  Raises InvalidError for anything else.
    """
    if isinstance(value, np.ndarray):
        return value
    if hasattr(value, "__dlpack__"):
        try:
            if hasattr(value, "detach"):  # a tensor of PyTorch
                value = value.detach().cpu()
                if "bfloat16" in str(value.dtype):
                    value = value.float()
            return np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError, ValueError) as why:
            raise InvalidError(
                f"{name}: this {type(value).__name__} cannot be read: {why}"
            ) from why
    try:
        return np.asarray(value)
    except (TypeError, ValueError) as why:
        raise InvalidError(
            f"{name}: no array can be made of this {type(value).__name__}: {why}"
        ) from why


def _as_int32(array: np.ndarray, name: str) -> np.ndarray:
    if array.size and (array.min() < INT32.min or array.max() > INT32.max):
        place = np.unravel_index(int(np.argmax(np.abs(array.astype(np.float64)))), array.shape)
        where = ", ".join(str(int(i)) for i in place)
        raise InvalidError(f"{name}[{where}] is {array[place]}, which does not fit into 32 bits")
    return array.astype(np.int32)


def _hint(array: np.ndarray) -> str:
    """What to do with an array of another type."""
    if array.dtype.kind in "SU" or (array.size and isinstance(array.flat[0], str)):
        return ". Classes are numbers: names, numbers = numpy.unique(y, return_inverse=True)"
    if array.dtype.kind == "O":
        return ". An array of numbers that has this type becomes one by x.astype(numpy.float32)"
    return ""


def as_library_array(value: Any, name: str, real: bool = False) -> np.ndarray:
    """A C-contiguous array of uint8, int32 or float32, as the library reads them.

    Bytes stay bytes; other integers and booleans become int32; real numbers become float32.  With
    `real` all become float32.  Raises InvalidError for text, objects and complex numbers, and for
    integers that do not fit.
    """
    array = as_array(value, name)
    if array.dtype.name == "bfloat16":  # of the package ml_dtypes
        array = array.astype(np.float32)
    if array.dtype.kind not in "biuf":
        raise InvalidError(
            f"{name} has the type {array.dtype}, but it must have integers, booleans or real numbers; its shape is "
            f"{array.shape}{_hint(array)}"
        )
    if array.ndim == 0:
        raise InvalidError(f"{name} is one number; its first axis must count the samples")
    if 0 in array.shape[1:]:
        raise InvalidError(f"{name} has the shape {array.shape}: a sample of it has no numbers")
    if real or array.dtype.kind == "f":
        return np.ascontiguousarray(array, np.float32)
    if array.dtype.kind == "b":
        return np.ascontiguousarray(array, np.int32)
    if array.dtype in (np.uint8, np.int32):
        return np.ascontiguousarray(array)
    return np.ascontiguousarray(_as_int32(array, name))


def dtype_of(array: np.ndarray) -> int:
    """The library's type of such an array."""
    return {"uint8": lib.DPT_U8, "int32": lib.DPT_I32, "float32": lib.DPT_F32}[array.dtype.name]


def looks_channels_first(shape: tuple) -> bool:
    """Whether a sample of three axes is (channels, height, width).

    One to four channels are taken for channels.  If both ends could be, the first is, as in PyTorch."""
    few = 4
    return shape[0] <= few or shape[2] > few
