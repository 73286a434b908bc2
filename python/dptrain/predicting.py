"""Predictions and evaluations of a network."""

from __future__ import annotations

from typing import Any, Optional, Sequence, Union

import numpy as np

from ._context import Node, Owned, context_for, device_list
from ._library import error_of, ffi, lib, text
from ._options import seconds
from ._structs import fill
from .data import Data, Dataset, describe
from .errors import StateError
from .model import Model
from .training import Evaluation, Trainer, apply_statistics, open_devices

_OUTPUTS = ("probabilities", "sigmoid", "logits")


class Predictor(Owned):
    """A network on devices, for predictions alone: without gradients and the state of an optimizer.

    `predict` makes one when it is needed and keeps it with the network.
    """

    def __init__(self, net: Model, like: Node, devices: Optional[str], options: dict):
        context = like.context
        self._devices = open_devices(context, devices, options.pop("precision"))
        try:
            outputs = options.pop("outputs")
            weights = net._weights_path
            struct, keep = fill(
                "dpt_predictor_options",
                {
                    **options,
                    "weights": weights,
                    "logits": outputs == "logits",
                    "sigmoid": outputs == "sigmoid",
                },
                "predict",
            )
            struct.like = like.get()
            parents = (self._devices, net._node(context))
            arguments = [node.get() for node in parents]
            self._node = context.make(
                "predictor", lib.dpt_predictor_create, *arguments, struct, parents=parents
            )
            del keep
        except BaseException:
            self._devices.release()
            raise

    def close(self) -> None:
        if self._node is not None:
            super().close()
            self._devices.release()

    def run(self, data: Node, result: np.ndarray) -> None:
        """Computes the outputs of all samples of a data set: (n, labels, outputs)."""
        why = ffi.new("char[]", lib.DPT_WHY_BYTES)
        to = ffi.from_buffer("float[]", result)
        with data.context:
            status = lib.dpt_predictor_run_data(
                self._get().get(), data.get(), 0, len(result), to, why
            )
        if status != lib.DPT_OK:
            raise error_of(status, text(why))


def _predictor(net: Model, like: Node, key: tuple, options: dict) -> Predictor:
    """The predictor of a network that was made with the same options."""
    found = net._predictors.get(key)
    if found is None:
        net._forget_predictors()
        found = net._predictors[key] = Predictor(net, like, key[1], options)
    return found


def check_weights(net: Model) -> None:
    """Raises StateError if a network has no weights."""
    if not isinstance(net, Model):
        raise TypeError(
            f"net is a Model that has weights, and no {type(net).__name__}: "
            'dptrain.Model("lenet"), dptrain.from_torch(module, example)'
        )
    if not (net.has_weights or net._brings_weights or net._closed):
        raise StateError(
            f"{net.name} has no weights yet: train it (dptrain.fit), load a file (net.load), or initialise it "
            "(net.initialize)"
        )


def predict(
    net: Model,
    x: Data,
    *,
    devices: Union[str, Sequence[str], None] = None,
    outputs: Optional[str] = None,
    precision: Optional[str] = None,
    micro_batch: int = 0,
    device_timeout: Union[float, str] = 0.0,
    deterministic: bool = False,
) -> np.ndarray:
    """The outputs of a network for samples: float32, (n, outputs), or (n, labels, outputs) of a
    network that scores every pixel or token.

    x         As for `fit`, without labels: an array (n, ...), a dict of arrays, a tuple of arrays in the
              order of the network's inputs, a Dataset, ...
    outputs   "probabilities": the softmax of the logits.  "sigmoid": of each logit.  "logits": the
              outputs as they are.  Default: what the loss of the training predicts, and
              probabilities for a network that was not trained here.

    If the training was normalised, so are the samples.  The other keywords are those of `fit`.

    Errors: StateError if the network has no weights; InvalidError if the samples do not fit, with
    both shapes; the errors of devices.
    """
    check_weights(net)
    outputs = outputs or net._outputs
    if outputs not in _OUTPUTS:
        raise ValueError(f"outputs is one of {', '.join(_OUTPUTS)}, not {outputs!r}")
    devices = device_list(devices)
    context = context_for(devices)
    dataset = Dataset.of(x, len(net.inputs))
    node = dataset._open(context, net._node(context))
    try:
        apply_statistics(node, net._statistics)
        options = {
            "micro_batch": micro_batch,
            "device_timeout": seconds(device_timeout),
            "deterministic": deterministic,
        }
        key = (context, devices, dataset._source.kind(), outputs, precision, *options.values())
        predictor = _predictor(
            net, node, key, {**options, "outputs": outputs, "precision": precision}
        )
        result = np.empty((describe(node).count, net.labels_per_sample, net.outputs), np.float32)
        predictor.run(node, result)
    finally:
        node.release()
    return result[:, 0] if result.shape[1] == 1 else result


def evaluate(
    net: Model,
    data: Data,
    *,
    devices: Union[str, Sequence[str], None] = None,
    precision: Optional[str] = None,
    loss: Any = None,
    metrics: bool = False,
    **options: Any,
) -> Evaluation:
    """Loss and accuracy of a network over data: see `fit` for `data` and the options of a Trainer.

    metrics  The result also has `metrics` (`Metrics`): figures of classes, AUC, the confusion matrix.
             This needs one label for each sample, and takes about as long as the evaluation.

    Errors: StateError if the network has no weights; InvalidError if the data do not fit."""
    check_weights(net)
    dataset = Dataset.of(data, net._unlabelled_inputs())
    if loss is None and net._outputs == "sigmoid":
        loss = "binary-cross-entropy"
    outputs = net._outputs
    trainer = Trainer(
        net,
        dataset,
        devices=devices,
        precision=precision,
        loss=loss,
        normalize=net._statistics or False,
        **options,
    )
    try:
        return trainer._evaluate(trainer._train, metrics)
    finally:
        trainer._abandon()
        net._outputs = outputs
