"""What a network takes samples for."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Mapping, Optional

import numpy as np

from ._library import ffi, lib


@dataclass(frozen=True, eq=False)
class Metrics:
    """Figures of classes, with the values of scikit-learn.

    accuracy       The part of the samples that are taken for their class.
    top5_accuracy  The part whose class is among the five most likely; None with at most five classes.
    macro          {"precision", "recall", "f1"}: the means over the classes that occur, each once.
    weighted       The same, each as often as it has samples.
    auc            The area under the ROC curve: of two classes that of class 1, else the mean over the
                   classes, each against the rest.  None if a class has no sample; `no_auc` says which.
    support, predicted, precision, recall, f1, class_auc
                   An array each, with an entry for each class.  A `class_auc` may be NaN.
    confusion      (classes, classes): samples of class i that are taken for class k.  None with more
                   than 1024 classes, or in a log with more than 50.
    """

    samples: int
    accuracy: float
    top5_accuracy: Optional[float]
    macro: Mapping[str, float]
    weighted: Mapping[str, float]
    auc: Optional[float]
    no_auc: str
    support: np.ndarray
    predicted: np.ndarray
    precision: np.ndarray
    recall: np.ndarray
    f1: np.ndarray
    class_auc: np.ndarray
    confusion: Optional[np.ndarray]

    @classmethod
    def of(cls, what: Mapping[str, Any]) -> Metrics:
        """From an object of JSON: of `dptrain eval --json`, or of a log."""
        classes = what["classes"]
        confusion = what.get("confusion")
        return cls(
            what["samples"],
            what["accuracy"],
            what.get("top5_accuracy"),
            what["macro"],
            what["weighted"],
            what["auc"],
            what.get("no_auc", ""),
            np.array(classes["support"], np.int64),
            np.array(classes["predicted"], np.int64),
            np.array(classes["precision"], np.float64),
            np.array(classes["recall"], np.float64),
            np.array(classes["f1"], np.float64),
            np.array(classes["auc"], np.float64),
            None if confusion is None else np.array(confusion, np.int64),
        )


def metrics_of(classification: Any) -> Optional[Metrics]:
    """Of a dpt_classification; None for NULL."""
    if classification == ffi.NULL:
        return None
    return Metrics.of(json.loads(ffi.string(lib.dpt_classification_json(classification))))
