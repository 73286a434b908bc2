"""`fit`, the training loop with its callbacks, and the run that it returns."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional, Sequence, Union

import numpy as np

from . import _options
from ._context import leave_if_forked
from ._library import error_of, ffi, lib, text
from ._structs import as_dict, empty
from .data import Data
from .errors import Error, InvalidError, StateError
from .model import Model
from .training import Device, Event, Trainer, _epoch, _event, _step

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import FitOptions


@dataclass
class Run:
    """What a training did.

    history   {"epoch": [...], "train_loss": [...], ...}: the fields of `Epoch`, one entry an epoch;
              None where nothing was evaluated.
    losses    The loss of each step that this call made.
    devices   The devices and what they did.
    stopped   Whether Ctrl-C, a callback or the end of the interpreter ended the training early.
    """

    net: Model = field(repr=False)
    steps: int = 0
    epochs: int = 0
    seconds: float = 0.0
    images_per_second: float = 0.0
    train_loss: float = float("nan")
    test_loss: float = float("nan")
    test_accuracy: float = float("nan")
    best_epoch: int = 0
    best_validation_loss: float = float("nan")
    stopped: bool = False
    no_patience: bool = False
    history: dict[str, list] = field(default_factory=dict, repr=False)
    losses: list[float] = field(default_factory=list, repr=False)
    devices: list[Device] = field(default_factory=list, repr=False)
    events: list[Event] = field(default_factory=list, repr=False)
    notices: list[str] = field(default_factory=list, repr=False)
    svg: str = field(default="", repr=False)
    checkpoint: Optional[str] = None

    def plot(self, path: Union[str, os.PathLike, None] = None) -> Any:
        """The picture of the training: losses, accuracies and shards, as the library draws it (SVG).

        A notebook shows what this gives.  With `path` the picture is also written to that file."""
        from ._picture import Picture

        if not self.svg:
            raise StateError("there is no picture: this training made no step")
        picture = Picture(self.svg)
        if path is not None:
            picture.save(path)
        return picture


class _Loop:
    """A call of dpt_fit: its callbacks, and what they collect."""

    def __init__(self, trainer: Trainer, run: Run, callbacks: Mapping[str, Any], bar: Any):
        self.trainer, self.run, self.callbacks, self.bar = trainer, run, callbacks, bar
        self.failure: Optional[BaseException] = None
        self.interrupted = False

    def progress(self, p: Any) -> int:
        if p.step:
            self._step(p)
        if p.epoch:
            self._epoch(p.epoch)
        if p.event:
            self._event(p.event)
        return int(self.interrupted or self.trainer._context.closing)

    def _tell(self, name: str, what: Any) -> None:
        """Calls the program's functions.  One that returns True ends the training."""
        for function in self.callbacks[name]:
            answer = function(what)
            if isinstance(answer, (bool, np.bool_)) and answer:
                self.interrupted = True

    def _step(self, p: Any) -> None:
        self.run.losses.append(p.step.loss)
        if self.callbacks["on_step"] or self.bar:
            step = _step(p.step, self.trainer._regression)
            if self.bar:
                self.bar.step(step, p.steps_done, p.steps_total)
            self._tell("on_step", step)

    def _epoch(self, m: Any) -> None:
        epoch = _epoch(m, self.trainer)
        for name in _EPOCH_FIELDS:
            self.run.history.setdefault(name, []).append(getattr(epoch, name))
        if self.bar:
            self.bar.epoch(epoch, self.trainer._regression)
        self._tell("on_epoch", epoch)

    def _event(self, e: Any) -> None:
        event = _event(e)
        self.run.events.append(event)
        self._tell("on_event", event)

    def wants_checkpoint(self) -> bool:
        function = self.callbacks["wants_checkpoint"]
        return function is not None and bool(function())

    def notice(self, kind: int, message: str) -> None:
        self.run.notices.append(message)
        if kind == lib.DPT_NOTICE_WARNING:
            warnings.warn(message, RuntimeWarning, stacklevel=_TO_CALLER_OF_FIT)

    def fail(self, failure: BaseException) -> None:
        """Takes an exception of a callback: the training ends, and `fit` raises it."""
        if isinstance(failure, KeyboardInterrupt):
            self.interrupted = True
        elif self.failure is None:
            self.failure = failure


_TO_CALLER_OF_FIT = 6  # from a notice: the frames of notice, _notice, _call_fit, _run and fit
_EPOCH_FIELDS = (
    "epoch",
    "train_loss",
    "train_accuracy",
    "validation_loss",
    "validation_accuracy",
    "test_loss",
    "test_accuracy",
    "seconds",
    "images_per_second",
    "validation_metrics",
    "test_metrics",
)
_loops = threading.local()  # the loops of each thread, the innermost last


def _callback_failed(kind: Any, failure: Any, trace: Any) -> int:
    leave_if_forked(failure)
    _loops.stack[-1].fail(failure)
    return 1


@ffi.callback("int(*)(dpt_fit_progress const *, void *)", onerror=_callback_failed, error=1)
def _progress(progress: Any, user: Any) -> int:
    answer = ffi.from_handle(user).progress(progress)
    leave_if_forked()
    return answer


def _notice_failed(kind: Any, failure: Any, trace: Any) -> None:
    leave_if_forked(failure)
    _loops.stack[-1].fail(failure)


@ffi.callback("void(*)(dpt_notice, char const *, void *)", onerror=_notice_failed)
def _notice(kind: int, message: Any, user: Any) -> None:
    ffi.from_handle(user).notice(kind, text(message))
    leave_if_forked()


def _wish_failed(kind: Any, failure: Any, trace: Any) -> bool:
    leave_if_forked(failure)
    loop = _loops.stack[-1]
    loop.fail(failure)
    loop.interrupted = True
    return False


@ffi.callback("bool(*)(void *)", onerror=_wish_failed, error=False)
def _wants_checkpoint(user: Any) -> bool:
    answer = ffi.from_handle(user).wants_checkpoint()
    leave_if_forked()
    return answer


class _Interrupts:
    """Ctrl-C during a training in the main thread asks it to end.  A second one raises at once."""

    def __init__(self, loop: _Loop):
        self.loop = loop
        main = threading.current_thread() is threading.main_thread()
        self.mine = main and signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def handle(self, number: int, frame: Any) -> None:
        if self.loop.interrupted:
            raise KeyboardInterrupt
        self.loop.interrupted = True

    def __enter__(self) -> None:
        if self.mine:
            signal.signal(signal.SIGINT, self.handle)

    def __exit__(self, *_: Any) -> None:
        if self.mine:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _functions(name: str, functions: Any) -> list[Callable]:
    if functions is None:
        return []
    found = list(functions) if isinstance(functions, (list, tuple)) else [functions]
    for function in found:
        if not callable(function):
            raise TypeError(
                f"{name} is a function or a list of functions, and {function!r} is not one"
            )
    return found


def fit(
    net: Union[Model, str],
    data: Data,
    *,
    devices: Union[str, Sequence[str], None] = None,
    validation: Any = None,
    test: Any = None,
    normalize: bool = False,
    precision: Optional[str] = None,
    load: Union[str, os.PathLike, None] = None,
    fresh: Optional[str] = None,
    load_partial: bool = False,
    lora: Union[int, str, None] = None,
    on_step: Any = None,
    on_epoch: Any = None,
    on_event: Any = None,
    wants_checkpoint: Optional[Callable[[], bool]] = None,
    progress: Optional[bool] = None,
    **options: Unpack[FitOptions],
) -> Run:
    """Trains a network, and returns what happened as a Run.  The network then has the weights.

    net          A Model, or the name of one.  A network that has weights goes on from them.
    data         (x, y), a Dataset, the name of a data set, a DataLoader, or an iterable: see Dataset.
    devices      A device list: "cpu", "cuda:0,cpu", ["cuda:0", "cuda:1"].  Default: all devices.
    validation   The part of the data that is set apart, such as 0.1, or data.
    test         Data that are evaluated after each epoch.
    normalize    Subtract the mean of each channel of the data and divide by the deviation.
    precision    "fp32", "tf32" or "bf16".
    load, fresh  A file of first weights, and layers that begin anew nevertheless.
    load_partial
                 Take the weights of the file that fit by name and shape, and begin anew with others.
    lora         RANK[:ALPHA][:LAYERS], such as "8:16": adapters of low rank are trained in place of
                 the weights of a language model by name.  At the end they are added to the weights.
                 The folder of `checkpoint` has them alone, as PEFT reads them.
    on_step, on_epoch, on_event
                 A function or a list of them.  They get a Step, an Epoch or an Event.  One that
                 returns True ends the training in good order.  An exception does so, too, and is
                 raised by `fit`.
    wants_checkpoint
                 A function without arguments, which is called after each step.  If it returns
                 True, a checkpoint is written, and training goes on.
    progress     Show progress: by default in a terminal and in a notebook.
    loss         The name of a loss, or a function loss(outputs, answers) of NumPy arrays.  `outputs` is
                 (samples, outputs) of float32, and `answers` has the labels (samples,) or the targets
                 (samples, outputs).  It returns the loss of each sample (samples,) and the derivatives
                 of each of them by the sample's outputs (samples, outputs), and, as a third array if
                 there is an accuracy, which samples are predicted right (samples,).
    options      All options of the command by their names: epochs, batch_size, lr, momentum,
                 optimizer, schedule, checkpoint, resume, ... (FitOptions; docs/python.md).
                 Default: one epoch, and batches of 256 samples, or of all if there are fewer.

    Ctrl-C ends the training after the step.  With `checkpoint` the last checkpoint is written.  `fit`
    returns, and `run.stopped` is True.

    Arrays are copied before the first step: they may change while the training runs.

    Errors: InvalidError if data do not fit the network (the text has both shapes) or an option is
    out of range; TypeError for an unknown option, with the nearest name; NotFiniteError if the loss
    is not finite; all others of dptrain.errors.
    """
    _options.check_known(options, [*_options.TRAINER, *_options.FIT], "fit")
    net = net if isinstance(net, Model) else Model(net)
    if options.get("recipe") is True:
        options["recipe"] = net.name
    if lora is not None:
        from ._lora import Adapted

        if fresh is not None or load_partial:
            raise InvalidError(
                "fresh, load_partial and lora: the base keeps the weights of its file"
            )
        net = Adapted(net, lora, load)
        load = net.source
    callbacks = {
        "on_step": _functions("on_step", on_step),
        "on_epoch": _functions("on_epoch", on_epoch),
        "on_event": _functions("on_event", on_event),
        "wants_checkpoint": wants_checkpoint,
    }
    if wants_checkpoint is not None and not callable(wants_checkpoint):
        raise TypeError(f"wants_checkpoint is a function, and {wants_checkpoint!r} is not one")
    if options.get("checkpoint") is None:
        given = {**options, "wants_checkpoint": wants_checkpoint}
        for name in ("checkpoint_every", "checkpoint_keep", "wants_checkpoint"):
            if given.get(name) is not None:
                raise InvalidError(f"{name} goes with checkpoint, the folder of the checkpoints")
    for_trainer = {k: v for k, v in options.items() if k in _options.TRAINER}
    trainer = Trainer(
        net,
        data,
        devices=devices,
        precision=precision,
        validation=validation,
        test=test,
        normalize=normalize,
        load=load,
        fresh=fresh,
        load_partial=load_partial,
        **for_trainer,  # type: ignore[arg-type]
    )
    try:
        run = _run(
            trainer, {k: v for k, v in options.items() if k in _options.FIT}, callbacks, progress
        )
    finally:
        trainer._abandon()
    if lora is not None:
        run.net = net.base  # type: ignore[attr-defined]
        net.merge()  # type: ignore[attr-defined]
    return run


def _warmup_steps(warmup: Any, trainer: Trainer) -> int:
    number, unit = _options.span(warmup)
    if unit == "steps":
        return number
    options = trainer._options
    batch = options.get("batch_size") or min(256, trainer._count)
    accumulate = options.get("accumulate") or 1
    if accumulate <= trainer._count // batch:
        batch *= accumulate
    return number * -(-trainer._count // batch)


def _c_fit_options(trainer: Trainer, options: dict, folder: str) -> tuple[Any, list, str]:
    """The library's options, what must live as long, and the path of the picture."""
    path = os.fspath(options.get("plot") or os.path.join(folder, "plot.svg"))
    struct, keep = _options.make("dpt_fit_options", _options.FIT, {**options, "plot": path})
    if options.get("warmup") is not None:
        try:
            struct.schedule.warmup_steps = _warmup_steps(options["warmup"], trainer)
        except ValueError as why:
            raise ValueError(f"warmup={options['warmup']!r}: {why}") from None
    for name in ("test", "validation"):
        node = getattr(trainer, f"_{name}")
        if node is not None:
            setattr(struct, name, node.get())
    struct.progress, struct.notice = _progress, _notice
    struct.wants_checkpoint = _wants_checkpoint
    return struct, keep, path


def _run(
    trainer: Trainer, options: dict, callbacks: Mapping[str, Any], progress: Optional[bool]
) -> Run:
    from ._progress import bar_for

    run = Run(trainer.net, checkpoint=options.get("checkpoint"))
    bar = bar_for(progress)
    loop = _Loop(trainer, run, callbacks, bar)
    folder = tempfile.mkdtemp(prefix="dptrain-")
    try:
        struct, keep, path = _c_fit_options(trainer, options, folder)
        with _Interrupts(loop):
            status, message = _call_fit(loop, struct)
        if os.path.isfile(path):  # and neither a pipe nor a device, which may have no end
            with open(path, encoding="utf-8") as file:
                run.svg = file.read()
        del keep
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if bar:
            bar.close()
    _finish(loop, status, message)
    return run


def _call_fit(loop: _Loop, struct: Any) -> tuple[int, str]:
    """Calls dpt_fit, and puts its result into the run."""
    trainer, run = loop.trainer, loop.run
    handle, result = ffi.new_handle(loop), empty("dpt_fit_result")
    struct.user = handle
    _loops.stack = [*getattr(_loops, "stack", []), loop]
    try:
        with trainer._context as context:
            status = lib.dpt_fit(trainer._get().get(), struct, result)
            message = text(lib.dpt_error_message(context.pointer)) if status != lib.DPT_OK else ""
    finally:
        _loops.stack = _loops.stack[:-1]
    if status == lib.DPT_OK:
        for name, value in as_dict(result).items():
            if name in run.__dataclass_fields__:
                setattr(run, name, value)
    return status, message


def _finish(loop: _Loop, status: int, message: str) -> None:
    """Takes the weights.  Raises what a callback has raised, or the failure of the training."""
    trainer = loop.trainer
    if not trainer._context.closing and trainer._get().pointer and trainer.steps > 0:
        try:
            trainer.keep_weights()
        except Error:
            if status == lib.DPT_OK:
                raise
    if loop.failure is not None:
        raise loop.failure
    if status != lib.DPT_OK:
        raise error_of(status, message) from trainer._cause(message)
    loop.run.devices = trainer.devices()
