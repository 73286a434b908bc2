"""Reads and writes safetensors files of float32 tensors, as the library writes them."""

from __future__ import annotations

import json
import os
from typing import Any, Mapping

import numpy as np

from .errors import FormatError, NotFoundError

_HEAD = 8
_MOST_HEADER = 1 << 27
_TYPES = {
    "F32": np.float32,
    "F16": np.float16,
    "F64": np.float64,
    "I64": np.int64,
    "I32": np.int32,
    "U8": np.uint8,
}


def read(path: str) -> dict[str, np.ndarray]:
    """The tensors of a file: copies that may be changed.

    Errors: NotFoundError; FormatError if the file is damaged or has tensors of another type."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        raise NotFoundError(f"{path}: no such file") from None
    try:
        size = int.from_bytes(data[:_HEAD], "little")
        if size > min(len(data) - _HEAD, _MOST_HEADER):
            raise ValueError("its header is longer than the file")
        header = json.loads(data[_HEAD : _HEAD + size])
        header.pop("__metadata__", None)
        body = memoryview(data)[_HEAD + size :]
        return {name: _tensor(entry, body) for name, entry in header.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as why:
        raise FormatError(f"{path} is no safetensors file: {why}") from why


def _tensor(entry: Mapping[str, Any], body: memoryview) -> np.ndarray:
    begin, end = entry["data_offsets"]
    if not 0 <= begin <= end <= len(body):
        raise ValueError("a tensor is outside of the file")
    part = body[begin:end]
    if entry["dtype"] == "BF16":
        return (
            (np.frombuffer(part, np.uint16).astype(np.uint32) << 16)
            .view(np.float32)
            .reshape(entry["shape"])
        )
    return np.frombuffer(part, _TYPES[entry["dtype"]]).reshape(entry["shape"]).copy()


def write(path: str, tensors: Mapping[str, np.ndarray]) -> None:
    """Writes tensors as float32.  The file is complete or is not there."""
    header: dict[str, Any] = {}
    arrays, at = [], 0
    for name, tensor in tensors.items():
        arrays.append(np.ascontiguousarray(tensor, np.float32))
        header[name] = {
            "dtype": "F32",
            "shape": list(np.shape(tensor)),
            "data_offsets": [at, at + arrays[-1].nbytes],
        }
        at += arrays[-1].nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _HEAD)
    with open(f"{path}.new", "wb") as file:
        file.write(len(text).to_bytes(_HEAD, "little") + text)
        for array in arrays:
            file.write(array.tobytes())
    os.replace(f"{path}.new", path)
