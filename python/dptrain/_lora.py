"""Adapters of low rank (LoRA): `fit(..., lora=)` trains them beside the weights, and adds them."""

from __future__ import annotations

import os
from typing import Any, Optional, Union

from ._context import Context, Node, context_for
from ._library import encoded, lib
from ._structs import fill
from .errors import InvalidError, StateError
from .model import Model


def options_of(lora: Union[int, str]) -> dict[str, Any]:
    """RANK[:ALPHA][:LAYERS], such as 8, "8:16" or "8:16:c_attn", as the fields of dpt_lora_options."""
    parts = str(lora).split(":")
    try:
        found: dict[str, Any] = {"rank": int(parts.pop(0))}
        if parts:
            try:
                found["alpha"] = float(parts[0])
                parts.pop(0)
            except ValueError:
                pass  # the layers follow at once
    except ValueError:
        raise InvalidError(
            f"lora={lora!r} is not RANK[:ALPHA][:LAYERS], such as 8, '8:16' or '8:16:c_attn'"
        ) from None
    if len(parts) > 1 or found["rank"] < 1:
        raise InvalidError(
            f"lora={lora!r} is not RANK[:ALPHA][:LAYERS], such as 8, '8:16' or '8:16:c_attn'"
        )
    if parts:
        found["layers"] = parts[0]
    return found


class Adapted(Model):
    """A language model by name with adapters, which has the weights of another model."""

    def __init__(self, base: Model, lora: Union[int, str], load: Any):
        self._begin(None, base.name)
        self._lora = options_of(lora)
        if base._make is not None or base.name.endswith(".onnx"):
            raise InvalidError(
                f"lora is for language models by name, such as gpt:6:6:384:256, not for {base.name}"
            )
        source: Optional[str] = base._weights_path if load is None else os.fspath(load)
        if source is None:
            raise StateError(
                f"{base.name} has no weights that adapters could be trained for: train it, or give load="
            )
        if os.path.isdir(source):
            source = os.path.join(source, "model.safetensors")
        self.base, self.source = base, source
        self._shape, self._sized = base._shape, base._sized

    def _by_name(self, context: Context) -> Node:
        lora, keep = fill("dpt_lora_options", self._lora, "lora")
        how, _ = fill("dpt_model_by_name_options", {})
        how.lora = lora
        for name, extent in (self._shape or {}).items():
            setattr(how.shape, name, extent)
        node = context.make(
            "model", lib.dpt_model_by_name_with, context.pointer, encoded(self.name), how
        )
        del keep
        return node

    def merge(self) -> None:
        """Gives the other model its weights with the adapters added."""
        base = self.base
        if self._weights_path is None:
            return
        merged = base._new_file()
        files, keep = fill(
            "dpt_lora_files",
            {"base": self.source, "adapter": self._weights_path, "merged": merged},
        )
        context = context_for("cpu")
        context.call(lib.dpt_lora_merge, self._node(context).get(), files)
        del keep
        base._shape, base._sized = self._shape, True
        base._take_file(merged)
        base._outputs, base._statistics = self._outputs, self._statistics
