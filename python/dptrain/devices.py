"""The devices of this machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from ._context import context_for
from ._library import lib, text
from ._structs import as_dict, empty


@dataclass(frozen=True)
class DeviceInfo:
    """A device that a device list can name by its `id`.

    A backend without a usable device has one entry, whose `reason` says why and whose `id` is its name."""

    id: str
    name: str = ""
    detail: str = ""
    memory_bytes: int = 0
    threads: int = 0
    reason: Optional[str] = None


def available_devices() -> list[DeviceInfo]:
    """All devices that the library finds, and why a backend has none."""
    found, info = [], empty("dpt_device_info")
    with context_for(None) as context:
        for backend in range(lib.dpt_backend_count(context.pointer)):
            reason = lib.dpt_backend_reason(context.pointer, backend)
            if reason:
                found.append(
                    DeviceInfo(
                        text(lib.dpt_backend_name(context.pointer, backend)), reason=text(reason)
                    )
                )
            for i in range(lib.dpt_backend_device_count(context.pointer, backend)):
                if lib.dpt_backend_describe(context.pointer, backend, i, info) != lib.DPT_OK:
                    continue
                d = as_dict(info)
                found.append(
                    DeviceInfo(d["id"], d["name"], d["detail"], d["memory_bytes"], d["n_threads"])
                )
    return found
