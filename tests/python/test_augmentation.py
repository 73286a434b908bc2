"""The kept results of torchvision are those of the torchvision that is installed."""

import importlib.util
import pathlib

import pytest

GOLDEN = pathlib.Path(__file__).parent.parent / "golden"


def load(name):
    spec = importlib.util.spec_from_file_location(name, GOLDEN / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_rotations_and_colours():
    pytest.importorskip("torchvision")
    load("make_distort").check(GOLDEN / "distort.txt")


def test_mixing():
    pytest.importorskip("torchvision")
    kept = (GOLDEN / "mix.txt").read_text().splitlines()
    made = list(load("make_mix").lines())
    assert len(kept) == len(made) > 1
    assert kept[1:] == made[1:]
