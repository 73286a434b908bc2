"""dptrain trains neural networks on all devices at once: CPUs, NVIDIA cards and OpenCL devices.

    import dptrain

    net = dptrain.from_torch(module, example)
    run = dptrain.fit(net, (x, y), devices="cuda:0,cpu", epochs=5, lr=0.1, validation=0.1)
    net.to_torch(module)
    probabilities = dptrain.predict(net, x)

docs/python.md is the guide.
"""

from __future__ import annotations

from typing import Any

from . import errors
from ._library import VERSION as __version__
from ._metrics import Metrics
from ._torch import from_torch
from .builder import Builder, Value
from .data import IGNORED_LABEL, Dataset, DatasetInfo
from .devices import DeviceInfo, available_devices
from .errors import Error
from .fitting import Run, fit
from .generating import Tokenizer, generate
from .model import Input, Layer, Model, Tensor, describe_weights, model_names
from .predicting import Predictor, evaluate, predict
from .training import Device, Epoch, Evaluation, Event, Step, Trainer

__all__ = [
    "IGNORED_LABEL",
    "Builder",
    "Dataset",
    "DatasetInfo",
    "Device",
    "DeviceInfo",
    "DptrainClassifier",
    "Epoch",
    "Error",
    "Evaluation",
    "Event",
    "Input",
    "Layer",
    "Metrics",
    "Model",
    "Predictor",
    "Run",
    "Step",
    "Tensor",
    "Tokenizer",
    "Trainer",
    "Value",
    "__version__",
    "available_devices",
    "describe_weights",
    "errors",
    "evaluate",
    "fit",
    "from_torch",
    "generate",
    "model_names",
    "predict",
]


def __getattr__(name: str) -> Any:
    # The classifier's base classes are those of scikit-learn, which takes long to import.
    if name == "DptrainClassifier":
        from .classifier import DptrainClassifier

        return DptrainClassifier
    raise AttributeError(f"module 'dptrain' has no attribute {name!r}")
