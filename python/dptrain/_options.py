"""The keywords of `fit` and `Trainer`: names of the command's options, and fields of the library."""

from __future__ import annotations

import re
from typing import Any, Callable, Iterable, Mapping, Optional, Sequence, TypedDict, Union

import numpy as np

from ._library import encoded, ffi, lib
from ._structs import constant, empty, fields_of, nearest

Time = Union[float, str]


class TrainerOptions(TypedDict, total=False):
    """Keywords of `Trainer`, and of `fit`.  They are the options of the command, with _ for -.

    dptrain/trainer.h describes each field; docs/python.md has a table.  Times are seconds, or text
    such as "10m".
    """

    recipe: Union[bool, str]  # how the network, or the one of this name, is trained well
    batch_size: int
    accumulate: int
    micro_batch: int
    split: str  # "measured", "equal", "5:2:1", "replay:LOG"
    standby: Union[bool, str]
    overlap: Union[bool, str]
    compress: str  # "none", "bf16", "int8", "lowrank"
    compress_rank: int
    local_steps: int
    outer_lr: float
    outer_momentum: float
    outer_delay: int
    outer_fragments: int
    bucket_bytes: int
    optimizer: str  # "sgd", "adamw"
    lr: float
    lr_base_batch: int
    momentum: float
    nesterov: bool
    weight_decay: float
    no_bias_decay: bool
    beta1: float
    beta2: float
    epsilon: float
    clip_norm: float
    loss: Union[str, Callable]  # "cross-entropy", "squared-error", "absolute", "huber", ...
    loss_deterministic: bool
    huber_delta: float
    label_smoothing: float
    class_weights: Union[Sequence[float], str]
    batchnorm: str  # "sync", "local", "frozen"
    freeze_batch_norm: bool
    freeze: Union[str, Sequence[str]]  # patterns of names
    group: Union[str, Mapping[str, Mapping[str, float]]]  # {"*.bias": {"lr": 2, "decay": 0}}
    augment: Union[str, Mapping[str, Any]]  # "crop,flip", {"crop": 4, "flip": True}
    init: str  # "default", "normal:0.01", "xavier", "he"
    seed: int
    shuffle: bool
    no_shuffle: bool
    deterministic: bool
    stop_on_loss: bool
    device_timeout: Time
    verify_replicas: int
    readmit: Time
    recompute: Union[bool, str]  # "auto", "on", "off"
    rows_of_logits: int
    shard: str  # "none", "optimizer", "gradients", "parameters", "auto"
    offload: bool


class FitOptions(TrainerOptions, total=False):
    """Keywords of `fit` alone.  dptrain/fit.h describes each field."""

    epochs: int
    max_steps: int
    max_time: Time
    patience: int
    schedule: str  # "constant", "step", "cosine", "onecycle", ...
    warmup: Union[int, str]  # steps, or "5epochs"
    step_every: int
    step_factor: float
    min_lr: float
    schedule_steps: int
    log: str
    plot: str
    trace: str
    checkpoint: str
    checkpoint_every: Union[int, str]  # steps, or "2epochs", "10m"
    checkpoint_keep: int
    host_copy: int
    copies: str  # a folder in memory; see dpt_fit_options
    again: bool
    resume: bool
    metrics: bool  # of classes, after each epoch: Epoch.test_metrics, and in the log


# ---- Values ------------------------------------------------------------------------------------

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}
_LOSSES = {"absolute": "absolute-error"}
_PADDING, _ERASE, _AREA, _ALPHA = 4, 0.25, 0.08, 1


def seconds(value: Time) -> float:
    """Seconds of a number, or of text with a unit: "90s", "10m", "2h"."""
    if not isinstance(value, str):
        return float(value)
    match = re.fullmatch(r"([0-9.]+)([smh]?)", value)
    if not match:
        raise ValueError(f"{value!r} is no time: give seconds, or text such as '10m'")
    return float(match[1]) * _UNITS[match[2]]


def on(value: Any) -> bool:
    if isinstance(value, str) and value not in ("on", "off"):
        raise ValueError(f'give True, False, "on" or "off", not {value!r}')
    return value == "on" if isinstance(value, str) else bool(value)


def span(value: Union[int, str]) -> tuple[int, str]:
    """A number and its unit: 5, "5steps", "5epochs"."""
    match = re.fullmatch(r"(\d+)(steps|epochs|)", str(value))
    if not match:
        raise ValueError(f"{value!r} is neither a number of steps nor text such as '5epochs'")
    return int(match[1]), match[2] or "steps"


def _numbers(text: str) -> Union[float, list[float]]:
    numbers = [float(number) for number in text.split(":")]
    return numbers if len(numbers) > 1 else numbers[0]


def _words(value: Union[str, Sequence[str], Mapping[str, Any]]) -> dict[str, Any]:
    if not isinstance(value, (str, Mapping)):
        value = ",".join(value)
    if isinstance(value, str):
        parts = (word.partition(":") for word in value.split(","))
        return {name: _numbers(number) if number else True for name, _, number in parts}
    return {name.replace("_", "-"): n for name, n in value.items() if n is not False}


# ---- Setting fields ----------------------------------------------------------------------------

Setter = Callable[[Any, Any, list], None]


def _plain(field: str, convert: Callable = lambda value: value) -> Setter:
    def put(struct: Any, value: Any, keep: list) -> None:
        setattr(struct, field, convert(value))

    return put


def _enum(field: str, enum: str, names: Mapping[str, str] = {}) -> Setter:
    return _plain(field, lambda value: constant(enum, names.get(value, value)))


def _path(field: str) -> Setter:
    def put(struct: Any, value: Any, keep: list) -> None:
        keep.append(ffi.new("char[]", encoded(value)))
        setattr(struct, field, keep[-1])

    return put


def _outer_momentum(struct: Any, value: float, keep: list) -> None:
    struct.outer_momentum = value
    struct.no_outer_momentum = value == 0


def _outer_lr(struct: Any, value: float, keep: list) -> None:
    if value == 0:  # which the struct has for the default
        raise ValueError("an outer learning rate of 0 is not in [1e-6, 10]; leave outer_lr out for 0.7")
    struct.outer_lr = value


def _split(struct: Any, value: Any, keep: list) -> None:
    keep.append(ffi.new("char[]", encoded(str(value))))
    struct.split = lib.dpt_split_from(keep[-1])


def _recompute(struct: Any, value: Any, keep: list) -> None:
    word = value if isinstance(value, str) else "on" if value else "off"
    struct.recompute = constant("dpt_recompute", word)


def _shard(struct: Any, value: Any, keep: list) -> None:
    if not isinstance(value, str):
        raise ValueError(
            f'shard is "none", "optimizer", "gradients", "parameters" or "auto", not {value!r}'
        )
    struct.shard = constant("dpt_shard", value)


def _jitter(struct: Any, value: Any) -> None:
    fields = ("brightness", "contrast", "saturation", "hue")
    numbers = [value] if isinstance(value, (int, float)) else list(value)
    if value is True or not 1 <= len(numbers) <= len(fields):
        raise ValueError("jitter needs one to four numbers, such as jitter:0.4:0.4:0.4:0.1")
    for field, number in zip(fields, numbers):
        setattr(struct.jitter, field, number)


def _randaugment(struct: Any, value: Any) -> None:
    numbers = [] if value is True else [value] if isinstance(value, (int, float)) else list(value)
    if len(numbers) > 2:
        raise ValueError("randaugment takes operations and magnitude, such as randaugment:2:9")
    ops, magnitude = (*numbers, *(2, 9)[len(numbers) :])
    struct.randaugment.ops, struct.randaugment.magnitude = int(ops), int(magnitude)


def _augment(struct: Any, value: Any, keep: list) -> None:
    known = (
        *("crop", "flip", "rotate", "randaugment", "jitter"),
        *("mixup", "cutmix", "erase", "resized-crop"),
    )
    for name, number in _words(value).items():
        if name not in known:
            raise ValueError(f"unknown augmentation {name!r}{nearest(name, known)}")
        if name == "crop":
            struct.augment.crop_padding = _PADDING if number is True else int(number)
        elif name == "flip":
            struct.augment.flip = True
        elif name == "erase":
            struct.augment.erase = _ERASE if number is True else number
        elif name == "rotate":
            if number is True:
                raise ValueError("rotate needs an angle in degrees, such as rotate:15")
            struct.rotate = number
        elif name in ("mixup", "cutmix"):
            setattr(struct, name, _ALPHA if number is True else number)
        elif name == "randaugment":
            _randaugment(struct, number)
        elif name == "jitter":
            _jitter(struct, number)
        else:
            struct.augment.resized_crop = _AREA if number is True else number


def _init(struct: Any, value: str, keep: list) -> None:
    if not isinstance(value, str):
        raise TypeError("give text, such as 'he' or 'normal:0.01'")
    word, _, number = value.partition(":")
    struct.init.kind = constant("dpt_init_kind", word)
    struct.init.deviation = float(number) if number else 0


def _class_weights(struct: Any, value: Sequence[float], keep: list) -> None:
    keep.append(np.ascontiguousarray(value, np.float32))
    struct.class_weights, struct.n_class_weights = (
        ffi.from_buffer("float[]", keep[-1]),
        len(keep[-1]),
    )


def groups_of(group: Any, freeze: Any) -> list[dict[str, Any]]:
    """The groups of parameters that `group` and `freeze` name."""
    try:
        return _groups_of(group, freeze)
    except (TypeError, ValueError, AttributeError) as why:
        raise ValueError(
            f'group={group!r}: {why}; give {{"*.bias": {{"lr": 2, "decay": 0}}}} or text such as "*.bias:lr=2:decay=0"'
        ) from None


def _groups_of(group: Any, freeze: Any) -> list[dict[str, Any]]:
    patterns = freeze.split(",") if isinstance(freeze, str) else list(freeze or ())
    found = [{"pattern": pattern, "frozen": True} for pattern in patterns]
    if isinstance(group, str):
        parts = (part.split(":") for part in group.split(","))
        group = {
            p[0]: {k: float(v) for k, _, v in (q.partition("=") for q in p[1:])} for p in parts
        }
    for pattern, how in (group or {}).items():
        unknown = set(how) - {"lr", "decay"}
        if unknown or not how:
            raise ValueError(
                f'group {pattern!r} has "lr" and "decay", not {", ".join(sorted(unknown)) or "nothing"}'
            )
        one: dict[str, Any] = {"pattern": pattern, "lr_factor": how.get("lr", 0)}
        if "decay" in how:
            one.update(weight_decay=how["decay"], has_weight_decay=True)
        found.append(one)
    return found


def set_groups(struct: Any, groups: Iterable[Mapping[str, Any]], keep: list) -> None:
    groups = list(groups)
    array = ffi.new("dpt_parameter_group[]", len(groups))
    for one, values in zip(array, groups):
        keep.append(ffi.new("char[]", encoded(values["pattern"])))
        for name, value in {**values, "pattern": keep[-1]}.items():
            setattr(one, name, value)
    keep.append(array)
    struct.groups, struct.n_groups = array, len(groups)


def _every(struct: Any, value: Union[int, str], keep: list) -> None:
    if isinstance(value, str) and not re.fullmatch(r"\d+(steps|epochs|)", value):
        struct.checkpoint_every.seconds = seconds(value)
        return
    number, unit = span(value)
    setattr(struct.checkpoint_every, unit, number)


def _schedule(field: str, convert: Callable = lambda value: value) -> Setter:
    def put(struct: Any, value: Any, keep: list) -> None:
        setattr(struct.schedule, field, convert(value))

    return put


def _recipe_of(name: str, trainer: Any) -> Any:
    """Writes the recipe of a network to a trainer's options; returns its schedule."""
    function, schedule = getattr(lib, "dpt_training_recipe", None), ffi.new("dpt_schedule *")
    if function is None or not function(encoded(name), trainer, schedule):
        raise ValueError(f"the library has no recipe for {name}")
    return schedule[0]


def _recipe(struct: Any, name: str, keep: list) -> None:
    _recipe_of(name, struct)


def _recipe_schedule(struct: Any, name: str, keep: list) -> None:
    struct.schedule = _recipe_of(name, empty("dpt_trainer_options"))


def _by_others(struct: Any, value: Any, keep: list) -> None:
    """For keywords that need more than their value: Trainer and fit set the fields."""


def _same_names(kind: str, others: Iterable[str]) -> dict[str, Setter]:
    """Setters of the fields whose keywords have their names, and need no word of ours."""
    found: dict[str, Setter] = {}
    for name, field in fields_of(kind).items():
        if name in others:
            continue
        if field.kind == "pointer" and field.item.cname == "char":
            found[name] = _path(name)
        elif field.kind == "enum":
            found[name] = _enum(name, field.cname.replace("enum ", ""))
        elif field.kind == "primitive":
            found[name] = _plain(name)
    return found


# Fields whose keywords have other names, or that no keyword sets alone.
_TRAINER_OTHERS: tuple[str, ...] = (
    *("size", "batch_norm", "readmit_after", "logit_rows", "no_standby", "no_rest", "no_overlap"),
    *("own_loss_deterministic", "n_class_weights", "n_groups", "rotate", "jitter"),
    *("mixup", "cutmix", "randaugment", "outer_lr", "outer_momentum", "no_outer_momentum"),
)
_FIT_OTHERS = ("size", "max_seconds")

# What sets the fields of dpt_trainer_options, and of dpt_fit_options, by keyword.  A recipe comes
# first: the other keywords replace its values.
TRAINER: dict[str, Setter] = {
    "recipe": _recipe,
    **_same_names("dpt_trainer_options", _TRAINER_OTHERS),
    "split": _split,
    "outer_lr": _outer_lr,
    "outer_momentum": _outer_momentum,
    "standby": _plain("no_standby", lambda value: not on(value)),
    "overlap": _plain("no_overlap", lambda value: not on(value)),
    "loss": _enum("loss", "dpt_loss", _LOSSES),
    "loss_deterministic": _plain("own_loss_deterministic"),
    "class_weights": _class_weights,
    "batchnorm": _enum("batch_norm", "dpt_batch_norm_mode"),
    "freeze_batch_norm": _plain(
        "batch_norm", lambda value: lib.DPT_BATCH_NORM_FROZEN if value else 0
    ),
    "freeze": _by_others,
    "group": _by_others,
    "augment": _augment,
    "init": _init,
    "shuffle": _plain("no_shuffle", lambda value: not on(value)),
    "device_timeout": _plain("device_timeout", seconds),
    "readmit": _plain("readmit_after", seconds),
    "recompute": _recompute,
    "rows_of_logits": _plain("logit_rows"),
    "shard": _shard,
}

FIT: dict[str, Setter] = {
    "recipe": _recipe_schedule,
    **_same_names("dpt_fit_options", _FIT_OTHERS),
    "max_time": _plain("max_seconds", seconds),
    "schedule": _schedule("kind", lambda value: constant("dpt_schedule_kind", value)),
    "warmup": _by_others,
    "step_every": _schedule("every"),
    "step_factor": _schedule("factor"),
    "min_lr": _schedule("min_lr"),
    "checkpoint_every": _every,
}

# Losses that compare outputs with targets, and not with labels.
_OF_TARGETS = (
    "squared-error",
    "absolute",
    "absolute-error",
    "huber",
    "binary-cross-entropy",
    "own-of-targets",
)


def wants_targets(loss: Any) -> bool:
    """Whether a loss compares numbers, so that integers as labels are numbers, too."""
    return isinstance(loss, str) and loss.replace("_", "-") in _OF_TARGETS


def check_known(options: Iterable[str], known: Iterable[str], what: str) -> None:
    """Raises TypeError for an unknown keyword, with the nearest one."""
    known = list(known)
    for name in options:
        if name not in known:
            raise TypeError(f"{what} has no option {name!r}{nearest(name, known)}")


# The library takes 0 for the default of these.  In Python the default is None, and 0 is a mistake.
_FROM_ONE = ("epochs", "max_steps", "batch_size")


def make(kind: str, table: Mapping[str, Setter], options: Mapping[str, Any]) -> tuple[Any, list]:
    """A struct of options, and what must live as long."""
    struct = empty(kind)
    keep: list = []
    for name, setter in table.items():
        value: Optional[Any] = options.get(name)
        if value is None:
            continue
        try:
            if name in _FROM_ONE and value == 0:
                raise ValueError("give a number from 1 on, or leave it out")
            setter(struct, value, keep)
        except OverflowError as why:
            least = "a number that is not negative" if value < 0 else "a smaller number"
            raise ValueError(f"{name}={value!r}: give {least}") from why
        except UnicodeError as why:
            raise ValueError(f"{name}={value!r}: {why}") from None
        except (TypeError, ValueError) as why:
            raise type(why)(f"{name}={value!r}: {why}") from None
    return struct, keep
