"""Contexts, and the objects of the C library with their lifetimes.

The library allows one thread at a time in a context.  Each `Context` here has a lock, which every
call takes.  An object is destroyed when nothing uses it any more, children before parents,
whatever thread drops the last reference, and never while another call of its context runs.

A process that was forked after a context was made has none of the library's threads.  All calls
raise ForkedError there, and nothing is destroyed.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
from collections import deque
from typing import Any, Callable, Iterable, Iterator, Optional

from ._library import encoded, error_of, ffi, lib, text
from .errors import ClosedError, ForkedError, InvalidError, StateError

# How long the end of the interpreter waits for a training that another thread runs.
EXIT_SECONDS = 60.0


class Node:
    """One object of the library, the objects that it depends on, and how many use it."""

    __slots__ = ("context", "destroy", "keep", "parents", "pointer", "users")

    def __init__(self, context: Context, pointer: Any, destroy: Callable, parents: Iterable[Node]):
        self.context, self.pointer, self.destroy = context, pointer, destroy
        self.parents = tuple(parents)
        self.users = 1
        self.keep: Any = (
            None  # what must live as long: callbacks, and memory that the library reads
        )
        for parent in self.parents:
            parent.users += 1

    def get(self) -> Any:
        """The pointer.  Raises ClosedError if the object was destroyed."""
        if not self.pointer:
            raise ClosedError("the object is closed: its interpreter or its context has ended")
        return self.pointer

    def release(self) -> None:
        """One user less.  Any thread may call it, also a finalizer."""
        self.context.drop(self)


class Context:
    """A context of the library.  Not part of the public interface."""

    def __init__(self, devices: Optional[str]):
        self.lock = threading.RLock()
        self.depth = 0
        self.closing = False
        self.nodes: dict[int, Node] = {}  # in the order of creation
        self.dropped: deque[Node] = deque()
        self.device_sets: dict[tuple, Node] = {}
        options = ffi.new("dpt_context_options *", {"size": ffi.sizeof("dpt_context_options")})
        name = ffi.new("char[]", encoded(devices)) if devices else ffi.NULL
        options.devices = name
        out = ffi.new("dpt_context **")
        status = lib.dpt_context_create_with(options, out)
        if status != lib.DPT_OK:
            raise error_of(status)
        self.pointer = out[0]

    # ---- Calls ----

    def __enter__(self) -> Context:
        if _state.forked:
            raise ForkedError(
                "this process was forked from one that was using dptrain, and has none of its threads; start "
                'processes with "spawn" or "forkserver" (multiprocessing.set_start_method), or before the first use'
            )
        if getattr(_calls, "within", False):
            raise StateError(
                "a function that the library calls for its samples cannot use dptrain: the call would wait for itself"
            )
        self.lock.acquire()
        self.depth += 1
        if not self.pointer:
            self.__exit__()
            raise ClosedError("the interpreter is ending: dptrain is closed")
        return self

    def __exit__(self, *_: Any) -> None:
        if self.depth == 1:
            self.destroy_dropped()
        self.depth -= 1
        self.lock.release()

    def call(self, function: Callable, *arguments: Any) -> None:
        """Calls a function that returns a status.  Raises the exception of a failure."""
        with self:
            self.check(function(*arguments))

    def check(self, status: int) -> None:
        """Raises the exception of a status with the context's message.  The lock must be held."""
        if status != lib.DPT_OK:
            raise error_of(status, text(lib.dpt_error_message(self.pointer)))

    def make(
        self, kind: str, function: Callable, *arguments: Any, parents: Iterable[Node] = ()
    ) -> Node:
        """Makes an object of `kind`, such as "dataset": the last argument of `function` receives it."""
        with self:
            out = ffi.new(f"dpt_{kind} **")
            self.check(function(*arguments, out))
            return self.adopt(kind, out[0], parents)

    def adopt(self, kind: str, pointer: Any, parents: Iterable[Node] = ()) -> Node:
        destroy = getattr(lib, _DESTROY.get(kind, f"dpt_{kind}_destroy"))
        node = Node(self, pointer, destroy, parents)
        self.nodes[id(node)] = node
        return node

    # ---- The end of objects ----

    def drop(self, node: Node) -> None:
        if _state.forked:
            return
        self.dropped.append(node)
        while self.dropped and self.lock.acquire(blocking=False):
            inner = self.depth > 0
            try:
                if not inner:
                    self.destroy_dropped()
            finally:
                self.lock.release()
            if inner:
                return  # the outer call does it at its end

    def destroy_dropped(self) -> None:
        while self.dropped:
            self._release(self.dropped.popleft())

    def _release(self, node: Node) -> None:
        node.users -= 1
        if node.users > 0 or not node.pointer:
            return
        self._destroy(node)
        for parent in node.parents:
            self._release(parent)

    def _destroy(self, node: Node) -> None:
        pointer, node.pointer = node.pointer, None
        self.nodes.pop(id(node), None)
        node.destroy(pointer)
        node.keep = None

    def close(self, failed: bool = False) -> None:
        """Ends the training that another thread may run, and destroys everything.

        failed   The program ends because of an exception.  The other processes of `mpirun` do not know of it and
                 may wait for this process.  So this process ends without them, and `mpirun` ends the others."""
        self.closing = True
        if not self.lock.acquire(timeout=EXIT_SECONDS):
            return  # a device does not answer: destroying what it uses would crash
        try:
            self.device_sets.clear()
            for node in reversed(list(self.nodes.values())):
                self._destroy(node)
            pointer, self.pointer = self.pointer, None
            if failed:
                lib.dpt_process_give_up(pointer)
            lib.dpt_context_destroy(pointer)
        finally:
            self.lock.release()


_calls = threading.local()


@contextlib.contextmanager
def within_a_call() -> Iterator[None]:
    """Within a function that the library calls in its own threads, which must not use dptrain."""
    _calls.within = True
    try:
        yield
    finally:
        _calls.within = False
        leave_if_forked(sys.exc_info()[1])


_DESTROY = {"device_set": "dpt_device_set_close"}


class _State:
    """What the process has."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.contexts: dict[Optional[str], Context] = {}
        self.forked = False
        self.ended = False


_state = _State()


def _after_fork() -> None:
    if _state.contexts:
        _state.forked = True
    else:
        _state.lock = threading.Lock()


def _at_exit() -> None:
    _state.ended = True
    if _state.forked:
        return
    # The interpreter sets sys.last_value before it prints an exception that nothing has caught.
    failed = getattr(sys, "last_value", None) is not None
    for context in list(_state.contexts.values()):
        context.close(failed)


def leave_if_forked(failure: Optional[BaseException] = None) -> None:
    """Ends a process that a function of the program has forked, where that function returns to the
    library: the library would wait for threads that this process does not have.

    failure   What the function has raised: the process ends as SystemExit says, else with status 1."""
    if not _state.forked:
        return
    code = failure.code if isinstance(failure, SystemExit) else 1
    if not isinstance(failure, SystemExit):
        why = f"{type(failure).__name__}: {failure}; " if failure else ""
        told = f"dptrain: {why}a process that was forked within a function of the program cannot go on in the library"
        print(f"{told}: end it by os._exit in that function", file=sys.stderr)
    elif isinstance(code, str):
        print(code, file=sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)


def _only_cpus(devices: Optional[str]) -> bool:
    if not devices or "@" in devices or lib.dpt_processes_launched() > 1:
        return False
    return all(part.split(":")[0].strip() == "cpu" for part in devices.split(","))


def device_list(devices: Any) -> Optional[str]:
    """The text of a device list: None stands for all devices."""
    if devices is None:
        return None
    if not isinstance(devices, str):
        if not isinstance(devices, (list, tuple)):
            raise TypeError(
                f"devices={devices!r}: give text, such as 'cuda:0,cpu', or a list of such texts"
            )
        devices = ",".join(str(device) for device in devices)
    if not devices.strip():
        raise InvalidError("devices names no device: leave it out for all devices of the machine")
    return devices


def context_for(devices: Optional[str]) -> Context:
    """The context in which the devices of a list are opened.

    If the list has CPUs only, no other backend is loaded: looking for the devices of drivers can
    take longer than a short training.
    """
    backends = "cpu" if _only_cpus(devices) else None
    with _state.lock:
        context = _state.contexts.get(backends)
        if context is None:
            if _state.ended:
                raise ClosedError("the interpreter is ending: dptrain is closed")
            context = Context(backends)
            _state.contexts[backends] = context
            if backends is None:
                context.call(lib.dpt_processes_join, context.pointer)
        return context


def plain_context() -> Context:
    """A context for work that needs no device."""
    return _state.contexts.get(None) or context_for("cpu")


class Owned:
    """The base of classes that own one object of the library.

    `close` gives it back.  The library's object lives on while a training uses it.
    """

    _node: Optional[Node] = None
    _closed = False

    def _get(self) -> Node:
        if self._node is None:
            raise ClosedError(f"this {type(self).__name__} is closed")
        return self._node

    def close(self) -> None:
        """Frees what the object holds.  Closing twice does nothing."""
        node, self._node = self._node, None
        if node is not None:
            node.release()

    def __reduce__(self) -> Any:
        raise TypeError(
            f"a {type(self).__name__} can neither be copied nor pickled: it holds devices or memory of the library. "
            "A Model can, with its weights"
        )

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()
