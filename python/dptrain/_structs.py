"""Fills the structs of the C library from Python values."""

from __future__ import annotations

import difflib
from typing import Any, Iterable, Mapping

from ._library import encoded, ffi, text, words

# The prefix of the constants of each enum that options have.
_PREFIXES = {
    "dpt_activation": "DPT_ACT_",
    "dpt_pool_kind": "DPT_POOL_",
    "dpt_reduction": "DPT_REDUCTION_",
    "dpt_optimizer": "DPT_OPTIMIZER_",
    "dpt_loss": "DPT_LOSS_",
    "dpt_batch_norm_mode": "DPT_BATCH_NORM_",
    "dpt_compression": "DPT_COMPRESS_",
    "dpt_init_kind": "DPT_INIT_",
    "dpt_recompute": "DPT_RECOMPUTE_",
    "dpt_shard": "DPT_SHARD_",
    "dpt_schedule_kind": "DPT_SCHEDULE_",
    "dpt_device_event_kind": "DPT_",
}


def nearest(word: str, known: Iterable[str]) -> str:
    """ "; did you mean 'x'?" if a known word is near, else the list of all."""
    known = list(known)
    near = difflib.get_close_matches(word, known, 1)
    return f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(sorted(known))}"


def constant(enum: str, value: Any) -> int:
    """The constant of an enum: a word, such as "relu" of dpt_activation, or its number."""
    known = words(_PREFIXES[enum], enum)
    if not isinstance(value, str):
        return int(value)
    word = value.lower().replace("_", "-")
    if word not in known:
        raise ValueError(f"{value!r} is no {enum[4:].replace('_', ' ')}{nearest(word, known)}")
    return known[word]


def word_of(enum: str, number: int) -> str:
    """The word of a constant."""
    return {v: k for k, v in reversed(words(_PREFIXES[enum], enum).items())}.get(
        number, str(number)
    )


def _convert(kind: Any, name: str, value: Any, keep: list) -> Any:
    if kind.kind == "enum":
        return constant(kind.cname.replace("enum ", ""), value)
    if kind.kind == "array":
        values = list(value) if isinstance(value, (list, tuple)) else [value] * kind.length
        if len(values) > kind.length:
            raise ValueError(f"{name} has at most {kind.length} numbers, not {len(values)}")
        return values
    if kind.kind == "pointer" and kind.item.cname == "char":
        keep.append(ffi.new("char[]", encoded(str(value))))
        return keep[-1]
    if kind.kind == "primitive" and kind.cname == "_Bool":
        return bool(value)
    return value


def fields_of(kind: str) -> dict[str, Any]:
    """The names and types of a struct's fields, those of a union within it included."""
    found: dict[str, Any] = {}
    for name, field in ffi.typeof(kind).fields:
        if name:
            found[name] = field.type
        else:
            found.update((n, f.type) for n, f in field.type.fields)
    return found


def fill(kind: str, values: Mapping[str, Any], what: str = "") -> tuple[Any, list]:
    """A new struct with these fields, its `size` set, and what must live as long as the struct.

    Raises TypeError for a field that does not exist, with the nearest name."""
    struct = ffi.new(f"{kind} *")
    keep: list = []
    known = fields_of(kind)
    for name, value in values.items():
        if name not in known or name == "size":
            names = [n for n in known if n != "size"]
            raise TypeError(f"{what or kind} has no option {name!r}{nearest(name, names)}")
        if value is None:
            continue
        try:
            setattr(struct, name, _convert(known[name], name, value, keep))
        except OverflowError as why:
            raise ValueError(f"{what or kind}: {name}={value!r}: {why}") from None
        except TypeError as why:
            raise TypeError(f"{what or kind}: {name}={value!r}: {why}") from None
    if "size" in known:
        struct.size = ffi.sizeof(kind)
    return struct, keep


def empty(kind: str) -> Any:
    """A new struct for the library to fill."""
    return fill(kind, {})[0]


def as_dict(struct: Any) -> dict[str, Any]:
    """The plain fields of a struct: numbers, booleans, text, and arrays of numbers."""
    found: dict[str, Any] = {}
    for name, kind in fields_of(ffi.typeof(struct).item.cname).items():
        value = getattr(struct, name)
        if kind.kind == "primitive" and name != "size":
            found[name] = value
        elif kind.kind == "enum":
            found[name] = word_of(kind.cname.replace("enum ", ""), value)
        elif kind.kind == "pointer" and kind.item.cname == "char":
            found[name] = text(value) if value else None
        elif kind.kind == "array" and kind.item.cname == "char":
            found[name] = text(value)
        elif kind.kind == "array" and kind.item.kind == "primitive":
            found[name] = tuple(value)
    return found
