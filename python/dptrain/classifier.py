"""A classifier with scikit-learn's protocol.  scikit-learn is used if it is installed."""

from __future__ import annotations

import inspect
import warnings
from typing import Any, Optional

import numpy as np

from ._arrays import as_array
from .errors import InvalidError, StateError
from .model import Model
from .predicting import predict
from .fitting import Run, fit

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
except ImportError:

    class ClassifierMixin:  # type: ignore[no-redef]
        """The part of scikit-learn's class that is needed without it."""

        _estimator_type = "classifier"

        def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
            right = self.predict(X) == np.asarray(y)  # type: ignore[attr-defined]
            return float(np.average(right, weights=sample_weight))

    class BaseEstimator:  # type: ignore[no-redef]
        """The part of scikit-learn's class that is needed without it."""

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            names = list(inspect.signature(type(self).__init__).parameters)[1:]
            return {name: getattr(self, name) for name in names}

        def set_params(self, **params: Any) -> Any:
            known = self.get_params()
            for name, value in params.items():
                if name not in known:
                    raise ValueError(
                        f"Invalid parameter {name!r} for estimator {type(self).__name__}"
                    )
                setattr(self, name, value)
            return self


def _samples(X: Any) -> np.ndarray:
    """X as an array with at least two axes.  The words of the errors are those of scikit-learn."""
    if hasattr(X, "toarray"):
        raise InvalidError("sparse input is not supported: give X.toarray()")
    array = as_array(X, "X")
    if array.dtype.kind == "c":
        raise InvalidError(f"Complex data not supported: X has the type {array.dtype}")
    if array.ndim < 2:
        raise InvalidError(
            f"Expected 2D array, got an array of the shape {array.shape} instead. Reshape your data: "
            "X is (samples, features)"
        )
    for axis, what in enumerate(("sample(s)", "feature(s)")):
        if array.shape[axis] == 0:
            raise InvalidError(
                f"Found array with 0 {what} (shape={array.shape}) while a minimum of 1 is required."
            )
    if array.dtype == object or array.dtype.kind == "f":
        array = array.astype(np.float32)
        if not np.isfinite(array).all():
            raise InvalidError("Input X contains NaN or infinity")
    return array


def _names_of(X: Any) -> Optional[np.ndarray]:
    """The names of the columns of a DataFrame, if all are text."""
    names = getattr(X, "columns", None)
    if names is None or not all(isinstance(name, str) for name in names):
        return None
    return np.asarray(names, object)


def _classes(X: np.ndarray, y: Any) -> np.ndarray:
    """y as an array (n,) of classes."""
    if y is None:
        raise InvalidError("fit requires y to be passed, but the target y is None")
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected", _conversion(), stacklevel=3
        )
        y = y[:, 0]
    if y.ndim != 1 or len(y) != len(X):
        raise InvalidError(f"X has the shape {X.shape}, but y has {y.shape}: y is ({len(X)},)")
    if y.dtype.kind == "f" and not np.array_equal(y, np.floor(y)):
        raise InvalidError("Unknown label type: continuous. y holds classes")
    return y


def _conversion() -> type[Warning]:
    try:
        from sklearn.exceptions import DataConversionWarning
    except ImportError:
        return UserWarning
    return DataConversionWarning


class DptrainClassifier(ClassifierMixin, BaseEstimator):
    """A network as a classifier of scikit-learn, for pipelines and grid searches.

    model     The name of a network ("mlp", "lenet", ...), a function (shape, classes) -> Model, or a
              Model whose present weights each `fit` begins with.  `shape` is that of a sample.
    options   Further keywords of `dptrain.fit`, as a dict.

    The other parameters are those of `dptrain.fit`.  After `fit`: `classes_` (the sorted labels),
    `n_features_in_`, `feature_names_in_` (of a DataFrame), `net_` (the Model), `run_` (the Run).
    `X` is (n, ...): (n, features), or images.  Labels are of any type.
    """

    def __init__(
        self,
        model: Any = "mlp",
        devices: Optional[str] = None,
        epochs: int = 5,
        batch_size: Optional[int] = None,
        lr: Optional[float] = None,
        momentum: Optional[float] = None,
        weight_decay: Optional[float] = None,
        optimizer: Optional[str] = None,
        normalize: bool = False,
        seed: int = 0,
        options: Optional[dict] = None,
    ):
        self.model = model
        self.devices = devices
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.optimizer = optimizer
        self.normalize = normalize
        self.seed = seed
        self.options = options

    def _new_model(self, shape: tuple, classes: int) -> Model:
        model = self.model
        if isinstance(model, Model):
            return model.copy()
        if callable(model):
            return model(shape, classes)
        return Model(str(model))

    def fit(self, X: Any, y: Any) -> DptrainClassifier:
        """Trains a new network.  Errors: those of `dptrain.fit`; InvalidError for one class alone."""
        names = _names_of(X)
        X = _samples(X)
        y = _classes(X, y)
        try:
            self.classes_, labels = np.unique(y, return_inverse=True)
        except TypeError as why:
            raise InvalidError(
                f"the classes in y cannot be sorted, because their types differ or one is missing: {why}"
            ) from why
        if len(self.classes_) < 2:
            raise InvalidError(
                f"y has 1 class, {self.classes_[0]!r}: a classifier needs at least two"
            )
        self.n_features_in_ = X.shape[1]
        self.__dict__.pop("feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = names
        net = self._new_model(X.shape[1:], len(self.classes_))
        parameters = (
            "devices",
            "epochs",
            "lr",
            "momentum",
            "weight_decay",
            "optimizer",
            "normalize",
            "seed",
        )
        keywords = {name: getattr(self, name) for name in parameters}
        if self.batch_size:
            keywords["batch_size"] = min(self.batch_size, len(X))
        keywords.update(self.options or {})
        self.run_: Run = fit(net, (X, labels.astype(np.int32)), **keywords)
        self.net_ = net
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities: (n, classes), in the order of `classes_`."""
        if not hasattr(self, "net_"):
            raise _not_fitted(self)
        names, known = _names_of(X), getattr(self, "feature_names_in_", None)
        if names is not None and known is not None and not np.array_equal(names, known):
            raise InvalidError(
                "The feature names should match those that were passed during fit, in their order: "
                f"{', '.join(known)}; here they are {', '.join(names)}"
            )
        X = _samples(X)
        if X.shape[1] != self.n_features_in_:
            raise InvalidError(
                f"X has {X.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} features as "
                "input"
            )
        return predict(self.net_, X, devices=self.devices, outputs="probabilities")[
            :, : len(self.classes_)
        ]

    def predict(self, X: Any) -> np.ndarray:
        """The most likely class of each sample: (n,)."""
        return (
            self.classes_[self.predict_proba(X).argmax(1)]
            if hasattr(self, "net_")
            else self.predict_proba(X)
        )

    def __getstate__(self) -> dict:
        return {name: value for name, value in self.__dict__.items() if name != "run_"}


def _not_fitted(estimator: Any) -> Exception:
    message = (
        f"This {type(estimator).__name__} instance is not fitted yet. Call 'fit' before 'predict'"
    )
    try:
        from sklearn.exceptions import NotFittedError
    except ImportError:
        return StateError(message)
    return NotFittedError(message)
