"""A picture that a notebook shows."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Union


@dataclass(frozen=True)
class Picture:
    """An SVG picture: `svg` is its text."""

    svg: str

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: Union[str, os.PathLike]) -> None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.svg)

    def __repr__(self) -> str:
        return f"<picture of {len(self.svg)} bytes of SVG: .save(path) writes it>"
