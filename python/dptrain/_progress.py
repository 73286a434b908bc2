"""How a training shows its progress: by tqdm if it is installed, else in one line."""

from __future__ import annotations

import sys
import time
from typing import Any, Optional

_REDRAW_SECONDS = 0.1


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    return bool(shell and shell.get_ipython() and "IPKernelApp" in shell.get_ipython().config)


def _figures(epoch: Any, regression: bool) -> str:
    parts = [f"loss {epoch.train_loss:.4f}"]
    if not regression:
        parts.append(f"accuracy {epoch.train_accuracy:.4f}")
    for name in ("validation", "test"):
        loss, accuracy = getattr(epoch, f"{name}_loss"), getattr(epoch, f"{name}_accuracy")
        if loss is not None:
            parts.append(
                f"{name} loss {loss:.4f}" + ("" if regression else f" accuracy {accuracy:.4f}")
            )
    return f"epoch {epoch.epoch}: {', '.join(parts)}, {epoch.images_per_second:.0f} samples/s"


class _Line:
    """One line that is drawn again in a terminal; elsewhere a line for each epoch."""

    def __init__(self) -> None:
        self.redraws = sys.stderr.isatty()
        self.last = 0.0

    def step(self, step: Any, done: int, total: int) -> None:
        now = time.monotonic()
        if self.redraws and now - self.last >= _REDRAW_SECONDS:
            self.last = now
            of = f"/{total}" if total else ""
            sys.stderr.write(f"\r\033[Kstep {done}{of}, epoch {step.epoch}, loss {step.loss:.4f}")
            sys.stderr.flush()

    def epoch(self, epoch: Any, regression: bool) -> None:
        start = "\r\033[K" if self.redraws else ""
        sys.stderr.write(f"{start}{_figures(epoch, regression)}\n")

    def close(self) -> None:
        if self.redraws:
            sys.stderr.write("\r\033[K")


class _Tqdm:
    """A bar of tqdm."""

    def __init__(self, tqdm: Any):
        self.tqdm = tqdm
        self.bar = tqdm(unit="step", dynamic_ncols=True)

    def step(self, step: Any, done: int, total: int) -> None:
        if total and self.bar.total != total:
            self.bar.total = total
            self.bar.refresh()
        self.bar.set_postfix({"epoch": step.epoch, "loss": f"{step.loss:.4f}"}, refresh=False)
        self.bar.update(done - self.bar.n)

    def epoch(self, epoch: Any, regression: bool) -> None:
        self.tqdm.write(_figures(epoch, regression))

    def close(self) -> None:
        self.bar.close()


def bar_for(progress: Optional[bool]) -> Any:
    """What shows the progress; None if nothing does."""
    if progress is None:
        progress = _in_notebook() or (sys.stderr is not None and sys.stderr.isatty())
    if not progress or sys.stderr is None:
        return None
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return _Line()
    return _Tqdm(tqdm)
