"""Opens libdptrain, and calls it.

The library is the first of: the path in DPTRAIN_LIBRARY; `_lib/libdptrain.so` in this package; the
library that the system's loader finds.
"""

from __future__ import annotations

import ctypes.util
import os
import re
import tempfile
from typing import Any, Union

from .errors import BY_STATUS, Error, LibraryError

try:
    from ._declarations import VERSION, ffi
except ImportError as why:
    if (why.name or "").split(".")[0] in ("cffi", "_cffi_backend"):
        raise LibraryError(
            "dptrain needs the package cffi: pip install cffi (in Debian: python3-cffi)"
        ) from why
    raise LibraryError(
        f"dptrain._declarations cannot be imported ({why}). In a checkout of the sources, write it with: "
        "python3 python/declarations.py python/dptrain/_declarations.py"
    ) from why

# What a version of the library may be: before version 1, the minor number is that of the interface.
_COMPATIBLE = 2


def _candidates() -> list[str]:
    chosen = os.environ.get("DPTRAIN_LIBRARY")
    if chosen:
        return [chosen]
    packaged = os.path.join(os.path.dirname(__file__), "_lib", "libdptrain.so")
    if os.path.exists(packaged):
        return [packaged]
    interface = ".".join(VERSION.split(".")[:_COMPATIBLE])
    found = ctypes.util.find_library("dptrain")
    return [f"libdptrain.so.{interface}"] + ([found] if found else [])


def _open() -> Any:
    reasons = []
    for path in _candidates():
        try:
            return ffi.dlopen(path)
        except OSError as why:
            reasons.append(str(why))
    raise LibraryError(
        f"libdptrain cannot be opened: {'; '.join(reasons)}. Set DPTRAIN_LIBRARY to the path of libdptrain.so"
    )


def check_version(found: str, wanted: str = VERSION) -> None:
    """Raises LibraryError if a library of version `found` does not fit these declarations."""
    if found.split(".")[:_COMPATIBLE] != wanted.split(".")[:_COMPATIBLE]:
        raise LibraryError(
            f"libdptrain has version {found}, but this package was made for version {wanted}: install both of one "
            "version, or set DPTRAIN_LIBRARY to the path of the right libdptrain.so"
        )


lib: Any = _open()
check_version(ffi.string(lib.dpt_version()).decode())


def text(pointer: Any) -> str:
    """The text of a char pointer; "" for NULL."""
    return ffi.string(pointer).decode("utf-8", "replace") if pointer else ""


def encoded(value: Union[str, bytes, os.PathLike]) -> bytes:
    """Text or a path as the library reads it.  Raises ValueError for a zero byte, which would end it."""
    found = os.fsencode(value)
    if b"\0" in found:
        raise ValueError(f"{value!r} has a zero byte, which neither names nor paths can have")
    return found


def write_reason(failure: BaseException, to: Any, n_bytes: int) -> str:
    """Writes the reason of an exception to memory of the library.  Returns the part that fits."""
    why = f"{type(failure).__name__}: {failure}".replace("\n", " ")
    found = why.encode(errors="backslashreplace")[: n_bytes - 1]
    ffi.memmove(to, found + b"\0", len(found) + 1)
    return found.decode("utf-8", "ignore")


# The folder of a file that the package itself has written, such as the ONNX file of a module.
_OWN_FOLDER = re.compile(re.escape(os.path.join(tempfile.gettempdir(), "dptrain-")) + "[^/ ]+/")


def error_of(status: int, message: str = "") -> Error:
    """The exception of a status, with the library's message or, if that is empty, its words."""
    message = _OWN_FOLDER.sub("", message)
    kind = BY_STATUS.get(status, Error)
    return kind(message or text(lib.dpt_status_words(status)))


def words(prefix: str, enum: str) -> dict[str, int]:
    """The constants of an enum by their names without the prefix, in lower case with hyphens."""
    names = ffi.typeof(enum).relements
    return {
        n[len(prefix) :].lower().replace("_", "-"): v
        for n, v in names.items()
        if n.startswith(prefix)
    }
