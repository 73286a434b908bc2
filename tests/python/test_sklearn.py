"""The classifier: with scikit-learn if it is installed, and without it."""

import inspect
import pickle

import numpy as np
import pytest

import dptrain
from dptrain.errors import InvalidError


@pytest.fixture(scope="module")
def table():
    random = np.random.default_rng(3)
    x = random.normal(0, 1, (240, 6))
    names = np.array(["ant", "bee", "cow"])
    return x, names[np.digitize(x[:, 0] + x[:, 1], [-0.7, 0.7])]


def classifier(**options):
    return dptrain.DptrainClassifier(
        "mlp", devices="cpu:threads=1", epochs=15, batch_size=30, momentum=0.9, lr=0.05, **options
    )


def test_fit_and_predict(table):
    x, y = table
    c = classifier()
    assert c.fit(x, y) is c
    assert list(c.classes_) == ["ant", "bee", "cow"] and c.n_features_in_ == 6
    assert c.score(x, y) > 0.9
    p = c.predict_proba(x)
    assert p.shape == (240, 3) and np.allclose(p.sum(1), 1, atol=1e-5)
    assert np.array_equal(c.predict(x), c.classes_[p.argmax(1)])
    assert c.run_.epochs == 15
    again = classifier().fit(x, y)
    assert np.array_equal(again.predict_proba(x), p), "each fit begins anew, with the same seed"
    assert np.array_equal(c.fit(x, y).predict_proba(x), p)
    assert np.array_equal(pickle.loads(pickle.dumps(c)).predict_proba(x), p)


def test_parameters():
    c = classifier(seed=5)
    parameters = c.get_params()
    assert parameters["seed"] == 5 and parameters["model"] == "mlp"
    assert type(c)(**parameters).get_params() == parameters
    assert c.set_params(lr=0.5) is c and c.lr == 0.5
    with pytest.raises(ValueError, match="rate"):
        c.set_params(rate=1)


def test_what_is_wrong(table):
    x, y = table
    with pytest.raises(Exception, match="not fitted"):
        classifier().predict(x)
    with pytest.raises(InvalidError, match="2D"):
        classifier().fit(x[:, 0], y)
    with pytest.raises(InvalidError, match=r"\(240, 6\).*\(239,\)"):
        classifier().fit(x, y[:-1])
    with pytest.raises(InvalidError, match="1 class"):
        classifier().fit(x, y * 0 if y.dtype.kind != "U" else ["ant"] * 240)
    with pytest.raises(InvalidError, match="NaN"):
        classifier().fit(np.where(x > 2, np.nan, x), y)
    with pytest.raises(InvalidError, match="5 features.*6 features"):
        classifier().fit(x, y).predict(x[:, :5])


def test_a_network_of_the_program(table):
    x, y = table

    def build(shape, classes):
        b = dptrain.Builder("own")
        return b.finish(b.linear(b.input(*shape), "fc", out=classes))

    c = dptrain.DptrainClassifier(build, devices="cpu", epochs=20, options={"validation": 0.2}).fit(
        x, y
    )
    assert c.score(x, y) > 0.6 and len(c.run_.history["validation_loss"]) == 20
    p = c.predict_proba(x)
    with pytest.raises((AttributeError, pickle.PicklingError), match="build"):
        pickle.dumps(c)  # the function is within this one
    c.model = c.net_  # a network may be the parameter
    again = pickle.loads(pickle.dumps(c))
    assert np.array_equal(again.predict_proba(x), p) and not hasattr(again, "run_")


def test_without_scikit_learn(program):
    code, out, error = program(
        """
import sys
sys.modules["sklearn"] = None
import numpy as np, dptrain
x = np.random.default_rng(0).normal(0, 1, (60, 4)); y = (x[:, 0] > 0) * 2
c = dptrain.DptrainClassifier("mlp", devices="cpu", epochs=20, momentum=0.9)
assert type(c)(**c.get_params()).set_params(lr=0.1).lr == 0.1
assert c.fit(x, y).score(x, y) > 0.8 and list(c.classes_) == [0, 2]
try: dptrain.DptrainClassifier().predict(x)
except dptrain.errors.StateError as why: print(why)
"""
    )
    assert code == 0 and "not fitted" in out, error


sklearn = pytest.importorskip("sklearn", reason="scikit-learn is not installed")


def test_pipelines_and_grid_searches(table):
    from sklearn.base import clone, is_classifier
    from sklearn.model_selection import GridSearchCV, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x, y = table
    assert is_classifier(classifier())
    copied = clone(classifier().fit(x, y))
    assert not hasattr(copied, "net_")
    b = dptrain.Builder("own")
    own = b.finish(b.linear(b.input(6), "fc", out=3))
    copied = clone(dptrain.DptrainClassifier(own, devices="cpu", epochs=20).fit(x, y))
    assert copied.model is not own and copied.fit(x, y).score(x, y) > 0.6
    pipeline = make_pipeline(StandardScaler(), classifier())
    assert cross_val_score(pipeline, x, y, cv=3).mean() > 0.85
    grid = {"dptrainclassifier__lr": [1e-6, 0.05]}
    search = GridSearchCV(pipeline, grid, cv=2).fit(x, y)
    assert search.best_params_ == {"dptrainclassifier__lr": 0.05}
    assert search.predict(x[:3]).shape == (3,)


def test_processes_of_joblib(table):
    from sklearn.model_selection import cross_val_score

    x, y = table
    alone = cross_val_score(classifier(), x, y, cv=2)
    assert np.array_equal(cross_val_score(classifier(), x, y, cv=2, n_jobs=2), alone)


def test_files_of_joblib(table, tmp_path):
    import joblib

    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    pytest.importorskip("onnxscript", reason="the exporter of PyTorch needs onnxscript")
    x, y = table
    module = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    for model in (dptrain.from_torch(module, torch.randn(2, 6)), "mlp"):
        c = dptrain.DptrainClassifier(model, devices="cpu", epochs=20, lr=0.05)
        c.fit(x, y)
        joblib.dump(c, tmp_path / "c.joblib")
        read = joblib.load(tmp_path / "c.joblib")
        assert np.array_equal(read.predict_proba(x), c.predict_proba(x))
        assert list(read.classes_) == list(c.classes_)


def test_the_checks_of_scikit_learn():
    from sklearn.utils.estimator_checks import check_estimator

    if "on_fail" not in inspect.signature(check_estimator).parameters:
        pytest.skip("this scikit-learn is older than 1.6")
    results = check_estimator(classifier().set_params(epochs=30), on_fail=None)
    assert len(results) > 40
    failed = [(r["check_name"], r["exception"]) for r in results if r["status"] == "failed"]
    assert failed == []
