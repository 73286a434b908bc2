"""The kept results of torchvision are those of the torchvision that is installed."""

import importlib.util
import pathlib

import pytest

GOLDEN = pathlib.Path(__file__).parent.parent / "golden"


def test_kept_results_are_torchvisions():
    pytest.importorskip("torchvision")
    spec = importlib.util.spec_from_file_location("make_distort", GOLDEN / "make_distort.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    made.check(GOLDEN / "distort.txt")
