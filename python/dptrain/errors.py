"""The exceptions of dptrain: one class for each status of the C library."""

from __future__ import annotations


class Error(Exception):
    """The base of all exceptions of dptrain.

    The text is the library's message: one line that says what failed and what to do.  `status` is
    the library's status (`DPT_E_INVALID` is -1), or None if Python raised the error itself.
    """

    status: int | None = None


class InvalidError(Error, ValueError):
    """An argument is not valid, or data do not fit a network (DPT_E_INVALID)."""

    status = -1


class NoMemoryError(Error, MemoryError):
    """Host or device memory is missing (DPT_E_NO_MEMORY)."""

    status = -2


class UnsupportedError(Error, NotImplementedError):
    """The library or a device cannot do what was asked (DPT_E_UNSUPPORTED)."""

    status = -3


class IOFailedError(Error, OSError):
    """A file, or the reader of a data set, failed (DPT_E_IO)."""

    status = -4


class FormatError(Error, ValueError):
    """A file, or arrays, hold something else than they should (DPT_E_FORMAT)."""

    status = -5


class NotFoundError(Error, LookupError):
    """A file, a data set or a tensor does not exist (DPT_E_NOT_FOUND)."""

    status = -6


class AbsentError(Error):
    """A backend has no driver or no device (DPT_E_ABSENT)."""

    status = -7


class DeviceError(Error):
    """A device failed (DPT_E_DEVICE)."""

    status = -8


class DeviceLostError(Error):
    """A device does not answer (DPT_E_DEVICE_LOST)."""

    status = -9


class NotFiniteError(Error, ArithmeticError):
    """The loss or a gradient is not finite (DPT_E_NOT_FINITE)."""

    status = -10


class CancelledError(Error):
    """The work was given up (DPT_E_CANCELLED)."""

    status = -11


class StateError(Error):
    """A call at a time at which it is not allowed (DPT_E_STATE)."""

    status = -12


class InternalError(Error):
    """A mistake in the library (DPT_E_INTERNAL).  Please report it."""

    status = -13


class CallbackError(Error):
    """A function of the program within a network failed (DPT_E_CALLBACK)."""

    status = -14


class ClosedError(Error, ValueError):
    """The object was closed."""


class ForkedError(Error):
    """This process was forked from a process that was using dptrain.

    The threads of the library exist in the parent only.  Start processes with "spawn" or
    "forkserver" (`multiprocessing.set_start_method`).
    """


class LibraryError(Error, ImportError):
    """libdptrain cannot be opened, or has another version than this package."""


class ExportError(Error):
    """PyTorch could not export a module.  The text has the exporter's message and the node."""


BY_STATUS: dict[int, type[Error]] = {
    kind.status: kind for kind in Error.__subclasses__() if kind.status is not None
}
