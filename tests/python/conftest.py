"""What the tests of the Python package share."""

import os
import subprocess
import sys

import numpy as np
import pytest

import dptrain

# Two devices, so that every training exchanges gradients.
DEVICES = "cpu:threads=1,cpu:threads=1"
PROGRAM_SECONDS = 240


@pytest.fixture(scope="session")
def digits():
    """Images (n, 1, 8, 8) of ten classes that a network can learn: a bright row for each class."""
    random = np.random.default_rng(7)
    y = np.arange(300, dtype=np.int64) % 10
    x = random.normal(0, 0.3, (300, 1, 8, 8)).astype(np.float32)
    for i, label in enumerate(y):
        x[i, 0, label % 8, label // 8 * 4 : label // 8 * 4 + 4] += 2
    return x, y


@pytest.fixture
def net():
    """A small network for `digits`."""
    b = dptrain.Builder("small")
    x = b.linear(b.flatten(b.input(1, 8, 8)), "fc1", out=16, activation="relu")
    return b.finish(b.linear(x, "fc2", out=10))


@pytest.fixture
def program():
    """Runs a Python program in a process of its own; returns its exit status, stdout and stderr."""

    def run(text):
        command = [sys.executable, "-X", "faulthandler", "-c", text]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PROGRAM_SECONDS, env=dict(os.environ)
        )
        return done.returncode, done.stdout, done.stderr

    return run
