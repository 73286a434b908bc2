"""From PyTorch's modules to networks of dptrain, and back.  PyTorch is imported when it is needed."""

from __future__ import annotations

import contextlib
import copy
import io
import re
import warnings
from typing import Any, Iterator, Mapping, Optional

import numpy as np

from ._pickling import OnnxFile
from .errors import ExportError, InvalidError
from .model import Model

_MOST_BATCH = 4096
_MOST_INSIDE = 1 << 30  # bytes of weights in the file itself, which cannot have 2 GiB
_MOST_CAUSES, _MOST_CHARACTERS = 20, 2000


def _two_samples(tensor: Any) -> Any:
    """The exporter fixes an extent of 1, so that an example of one sample is repeated."""
    return (
        tensor.repeat(2, *[1] * (tensor.dim() - 1))
        if tensor.dim() and tensor.shape[0] == 1
        else tensor
    )


def _example(example: Any) -> tuple[tuple, dict]:
    """The arguments of the module: positional ones, and those by name."""
    import torch

    def tensor(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            value = torch.as_tensor(value.astype(np.float32) if value.dtype.kind == "f" else value)
        if not isinstance(value, torch.Tensor):
            raise InvalidError(
                f"an example consists of tensors or NumPy arrays, not of {type(value).__name__}"
            )
        if value.dim() == 0 or len(value) == 0:
            raise InvalidError(
                f"an example has the shape {tuple(value.shape)}: its first axis must count samples, of which one is enough"
            )
        if value.is_floating_point() and value.dtype != torch.float32:
            raise InvalidError(
                f"an example has the type {value.dtype}, and networks are trained in torch.float32: give "
                "example.float(), and module.float() if the module has another type"
            )
        return _two_samples(value.detach().cpu())

    if isinstance(example, Mapping):
        return (), {name: tensor(value) for name, value in example.items()}
    values = example if isinstance(example, (tuple, list)) else (example,)
    return tuple(tensor(value) for value in values), {}


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The exporter prints its progress and warns of its own internals."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


def _causes(why: Optional[BaseException]) -> list[str]:
    """The texts of an exception and of its causes, the deepest last."""
    texts: list[str] = []
    while why is not None and len(texts) < _MOST_CAUSES:
        texts.append(re.sub(r"\x1b\[[0-9;]*m", "", str(why)))
        why = why.__cause__ or why.__context__
    return texts


def _reason(why: BaseException) -> str:
    """The exporter's message in one line: the deepest reason, the node, and the line of the module."""
    texts = _causes(why)
    lines = [line.strip() for line in "\n".join(texts).splitlines()]
    told = [text for text in texts if text.strip()]
    reason = (
        next((line.strip() for line in told[-1].splitlines() if line.strip()), "") if told else ""
    )
    node = next((line for line in lines if "node %" in line), "")
    code = next((line for line in lines if "code:" in line), "")
    parts = dict.fromkeys(part.rstrip(".") for part in (reason, node, code) if part)
    return "; ".join(parts)[:_MOST_CHARACTERS] or type(why).__name__


def _without_caches(module: Any) -> Any:
    """Language models of transformers return their keys and values for the next call, which training
    does not need and the exporter does not take."""
    for part in module.modules():
        config = getattr(part, "config", None)
        if getattr(config, "use_cache", False) is True:
            config.use_cache = False
    return module


def _weight_bytes(module: Any) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in module.state_dict().values())


def _export(module: Any, args: tuple, kwargs: dict, path: str) -> None:
    import torch

    batch = torch.export.Dim("N", min=2, max=_MOST_BATCH)
    shapes: Any = (
        {name: {0: batch} for name in kwargs} if kwargs else tuple({0: batch} for _ in args)
    )
    try:
        with _quiet():
            torch.onnx.export(
                module,
                args,
                path,
                kwargs=kwargs or None,
                dynamo=True,
                optimize=False,
                external_data=_weight_bytes(module) > _MOST_INSIDE,
                verbose=False,
                dynamic_shapes=shapes,
            )
    except Exception as why:
        raise ExportError(
            f"PyTorch cannot export {type(module).__name__}: {_reason(why)}. docs/onnx.md of dptrain says how modules "
            "are written so that they can be exported"
        ) from why


def _refuse_wrapped(module: Any) -> None:
    """Raises InvalidError for a module that runs another one, whose tensors have other names."""
    import torch

    kind = type(module).__name__
    for what, attribute in (
        (torch.nn.DataParallel, "module"),
        (torch.nn.parallel.DistributedDataParallel, "module"),
        (getattr(torch._dynamo, "OptimizedModule", ()), "_orig_mod"),
    ):
        if isinstance(module, what):
            raise InvalidError(
                f"this {kind} only runs another module: give that one, module.{attribute}, to from_torch and to_torch"
            )
    if isinstance(module, torch.jit.ScriptModule):
        raise InvalidError(
            f"this {kind} is a compiled program, which cannot be exported: give the module itself"
        )


def from_torch(module: Any, example: Any, name: str = "") -> Model:
    """Makes a network of a module of PyTorch, with the module's weights.

    module    A torch.nn.Module.  It is not changed.  Batch-norms and dropout are kept and trained.
              Parameters with `requires_grad=False` are frozen, unless `freeze` of `fit` says other.
    example   What the module is called with: a tensor or NumPy array (samples, ...), a tuple of
              them, or a dict {argument: tensor}.  The first axis counts samples; all other extents
              are those of the network.  The numbers do not matter.

    The module is exported by torch.onnx.export in training mode (docs/onnx.md).  `net.to_torch`
    copies the trained weights back.

    Errors: ExportError, with the exporter's message and node, if the module cannot be exported;
    UnsupportedError, with the node and its operator, if dptrain cannot train it.
    """
    import torch

    if not isinstance(module, torch.nn.Module):
        raise InvalidError(f"from_torch takes a torch.nn.Module, not {type(module).__name__}")
    _refuse_wrapped(module)
    args, kwargs = _example(example)
    frozen = [n for n, p in module.named_parameters() if not p.requires_grad]
    copied = _without_caches(copy.deepcopy(module).cpu().train().requires_grad_(False))
    name = name or type(module).__name__
    source = OnnxFile(re.sub(r"[^A-Za-z0-9_.-]", "_", name) + ".onnx")
    _export(copied, args, kwargs, source.path)
    model = Model._made(source.open, name)
    model._source = source
    model._brings_weights = True
    model._any_node()
    tensors = {tensor.name for tensor in model.tensors}
    model.frozen = [n for n in frozen if n in tensors]
    return model


def to_torch(model: Model, module: Any, strict: bool) -> Any:
    """See Model.to_torch."""
    import torch

    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"to_torch takes a torch.nn.Module, and no {type(module).__name__}")
    weights = model.weights
    state, missing = module.state_dict(), []
    for name, tensor in state.items():
        if name not in weights:
            missing.append(name)
        elif tuple(tensor.shape) != weights[name].shape and tensor.numel() != weights[name].size:
            raise InvalidError(
                f"{name} has the shape {tuple(tensor.shape)} in the module, but {weights[name].shape} in {model.name}"
            )
    # PyTorch counts the batches of a batch-norm; nothing else reads the number by default.
    missing = [
        n
        for n in missing
        if not n.endswith("num_batches_tracked") and n not in _tied(module, weights)
    ]
    if strict and missing:
        raise InvalidError(
            f"{model.name} has no weights for {', '.join(missing)}; it has {', '.join(weights)}. strict=False leaves "
            "the others as they are"
        )
    with torch.no_grad():
        for name, tensor in state.items():
            if name in weights:
                tensor.copy_(torch.from_numpy(weights[name]).reshape(tensor.shape))
    return module


def _tied(module: Any, weights: Mapping[str, Any]) -> set[str]:
    """Names of tensors whose memory is that of a tensor that has weights, and buffers that are constants."""
    owners: dict[int, list[str]] = {}
    for name, tensor in module.state_dict(keep_vars=True).items():
        owners.setdefault(tensor.data_ptr(), []).append(name)
    tied = {n for names in owners.values() if any(n in weights for n in names) for n in names}
    return tied | {name for name, _ in module.named_buffers()}
