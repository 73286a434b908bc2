"""Figures of classes: those of scikit-learn, on any devices."""

import json

import numpy as np
import pytest

import dptrain
from dptrain.errors import InvalidError

FIGURES = ("support", "predicted", "precision", "recall", "f1", "class_auc", "confusion")


def noisy(classes, count, missing=None):
    """Images of classes that a short training confuses, and a network for them."""
    random = np.random.default_rng(classes)
    y = random.integers(0, classes, count)
    if missing is not None:
        y[y == missing] = (missing + 1) % classes
    x = random.normal(0, 1, (count, 1, 4, 4)).astype(np.float32)
    x[np.arange(count), 0, y % 4, y // 4 % 4] += 1.5
    b = dptrain.Builder("small")
    net = b.finish(b.linear(b.flatten(b.input(1, 4, 4)), "fc", out=classes))
    dptrain.fit(net, (x, y), devices="cpu:threads=1", epochs=3, batch_size=50, lr=0.2)
    return net, (x, y)


@pytest.mark.parametrize("classes", [2, 3, 7, 16])
def test_values_are_scikit_learns(classes):
    sk = pytest.importorskip("sklearn.metrics")
    net, (x, y) = noisy(classes, 400)
    m = dptrain.evaluate(net, (x, y), devices="cpu:threads=1", metrics=True).metrics
    p = dptrain.predict(net, x, devices="cpu:threads=1")
    taken, labels = p.argmax(1), np.arange(classes)
    report = sk.classification_report(y, taken, labels=labels, output_dict=True, zero_division=0)
    for i in labels:
        ours = (m.precision[i], m.recall[i], m.f1[i], m.support[i])
        assert ours == pytest.approx(tuple(report[str(i)].values()), abs=1e-12)
    for ours, theirs in ((m.macro, "macro avg"), (m.weighted, "weighted avg")):
        keys = ("precision", "recall", "f1-score")
        assert tuple(ours.values()) == pytest.approx([report[theirs][k] for k in keys], abs=1e-12)
    assert np.array_equal(m.confusion, sk.confusion_matrix(y, taken, labels=labels))
    assert m.samples == 400 and m.accuracy == sk.accuracy_score(y, taken)
    each = [sk.roc_auc_score(y == i, p[:, i]) for i in labels]
    assert m.class_auc == pytest.approx(each, abs=1e-12)
    if classes == 2:
        assert m.auc == pytest.approx(sk.roc_auc_score(y, p[:, 1]), abs=1e-12)
    else:
        assert m.auc == pytest.approx(sk.roc_auc_score(y, p, multi_class="ovr"), abs=1e-12)
    if classes > 5:
        assert m.top5_accuracy == sk.top_k_accuracy_score(y, p, k=5, labels=labels)
    else:
        assert m.top5_accuracy is None


def test_a_class_without_samples():
    net, data = noisy(6, 200, missing=4)
    m = dptrain.evaluate(net, data, devices="cpu:threads=1", metrics=True).metrics
    assert m.auc is None and m.no_auc == "class 4 has no sample"
    assert np.isnan(m.class_auc[4]) and not np.isnan(np.delete(m.class_auc, 4)).any()
    assert m.support[4] == 0 and m.recall[4] == 0


def test_devices_and_shares_change_nothing(net, digits):
    dptrain.fit(net, digits, devices="cpu:threads=1", epochs=2, batch_size=50)
    options = dict(metrics=True, deterministic=True, batchnorm="frozen")
    one = dptrain.evaluate(net, digits, devices="cpu:threads=1", **options).metrics
    for devices, split in (("cpu:threads=1,cpu:threads=2", "5:2"), ("cpu,cpu,cpu", "1:0:6")):
        other = dptrain.evaluate(net, digits, devices=devices, split=split, **options).metrics
        assert (other.auc, other.macro, other.weighted) == (one.auc, one.macro, one.weighted)
        for name in FIGURES:
            assert np.array_equal(getattr(other, name), getattr(one, name)), name


def test_a_training_tells_them(net, digits, tmp_path):
    log = tmp_path / "run.jsonl"
    seen = []
    options = dict(devices="cpu:threads=1", epochs=2, batch_size=50, validation=0.2)
    run = dptrain.fit(
        net, digits, test=digits, metrics=True, log=str(log), on_epoch=seen.append, **options
    )
    last = dptrain.evaluate(net, digits, devices="cpu:threads=1", metrics=True).metrics
    told = [json.loads(line) for line in open(log)]
    logged = [e for e in told if e["event"] == "epoch"]
    assert len(logged) == len(seen) == 2
    for m in (seen[1].test_metrics, run.history["test_metrics"][1]):
        assert m.macro == last.macro and np.array_equal(m.confusion, last.confusion)
    from_log = dptrain.Metrics.of(logged[1]["test_metrics"])
    assert np.array_equal(from_log.confusion, last.confusion)
    assert from_log.auc == pytest.approx(last.auc, rel=1e-8)
    assert seen[0].validation_metrics.samples == 60


def test_none_without_being_asked(net, digits):
    run = dptrain.fit(net, digits, devices="cpu:threads=1", epochs=1, test=digits)
    assert run.history["test_metrics"] == [None]
    assert dptrain.evaluate(net, digits, devices="cpu:threads=1").metrics is None


def test_a_regression_has_none(digits):
    x, y = digits
    b = dptrain.Builder("line")
    net = b.finish(b.linear(b.flatten(b.input(1, 8, 8)), "fc", out=1))
    targets = y[:, None].astype(np.float32)
    options = dict(devices="cpu:threads=1", loss="squared-error")
    dptrain.fit(net, (x, targets), epochs=1, lr=1e-4, **options)
    with pytest.raises(InvalidError, match="metrics of classes need cross-entropy"):
        dptrain.evaluate(net, (x, targets), metrics=True, **options)
    with pytest.raises(InvalidError, match="metrics of classes need cross-entropy"):
        dptrain.fit(net, (x, targets), test=(x, targets), metrics=True, **options)
