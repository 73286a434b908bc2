"""The programs of docs/python.md run as they are printed, one after the other."""

import importlib.util
import os
import re

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("onnxscript", reason="the exporter of PyTorch needs onnxscript")

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def test_the_programs_of_the_guide(tmp_path, monkeypatch, capsys):
    with open(os.path.join(ROOT, "docs", "python.md"), encoding="utf-8") as file:
        programs = re.findall(r"^```python\n(.*?)^```$", file.read(), re.M | re.S)
    assert len(programs) == 7
    monkeypatch.chdir(tmp_path)
    names = {}
    for program in programs:
        if "import Bert" in program and importlib.util.find_spec("transformers") is None:
            continue
        exec(compile(program, "docs/python.md", "exec"), names)
    assert names["probabilities"].shape == (1000, 10)
    assert np.allclose(names["probabilities"].sum(1), 1, atol=1e-4)
    assert (tmp_path / "run" / "model.safetensors").exists() and (tmp_path / "run.svg").exists()
    assert (
        "Tensor(name='conv1.weight', shape=(8, 1, 3, 3), trained=True)" in capsys.readouterr().out
    )
