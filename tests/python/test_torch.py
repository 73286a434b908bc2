"""Modules of PyTorch: there and back, its data sets, and both in one process."""

import copy
import os
import threading

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("onnxscript", reason="the exporter of PyTorch needs onnxscript")

import dptrain
from conftest import DEVICES
from dptrain.errors import ExportError, InvalidError, UnsupportedError
from torch import nn
from torch.utils import data as torch_data


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 6, 3, padding=1)
        self.norm = nn.BatchNorm2d(6)
        self.fc = nn.Linear(6 * 8 * 8, 10)

    def forward(self, x):
        return self.fc(torch.relu(self.norm(self.conv(x))).flatten(1))


@pytest.fixture(scope="module")
def exported():
    torch.manual_seed(0)
    module = Net()
    return module, dptrain.from_torch(module, torch.randn(1, 1, 8, 8))


def test_a_module_is_trained_as_by_pytorch(exported, digits):
    module, net = copy.deepcopy(exported[0]), exported[1].copy()
    x, y = digits
    before = copy.deepcopy(module.state_dict())
    logits = dptrain.predict(net, x, devices="cpu", outputs="logits")
    with torch.no_grad():
        assert np.allclose(logits, copy.deepcopy(module).eval()(torch.tensor(x)), atol=1e-5)
    options = dict(lr=0.05, momentum=0.9, weight_decay=1e-3)
    run = dptrain.fit(
        net, (torch.tensor(x), torch.tensor(y)), devices=DEVICES, split="3:1", epochs=2,
        batch_size=75, shuffle=False, **options,
    )  # fmt: skip
    assert all(torch.equal(before[name], tensor) for name, tensor in module.state_dict().items())
    optimizer, losses = torch.optim.SGD(module.parameters(), **options), []
    for _ in range(2):
        for i in range(0, 300, 75):
            part = torch.tensor(x[i : i + 75]), torch.tensor(y[i : i + 75])
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(module(part[0]), part[1])
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert np.allclose(run.losses, losses, rtol=1e-4)
    trained = net.to_torch(Net())
    for name, tensor in module.state_dict().items():
        if not name.endswith("num_batches_tracked"):
            assert torch.allclose(trained.state_dict()[name], tensor, atol=1e-4), name
    with torch.no_grad():
        wanted = trained.eval()(torch.tensor(x)).softmax(1)
    assert np.allclose(dptrain.predict(net, torch.tensor(x), devices="cpu"), wanted, atol=1e-5)


def test_frozen_parameters_stay_frozen(digits):
    module = Net()
    module.conv.requires_grad_(False)
    net = dptrain.from_torch(module, digits[0][:2])
    assert net.frozen == ["conv.weight", "conv.bias"]
    dptrain.fit(net, digits, devices="cpu", epochs=1)
    trained = net.to_torch(copy.deepcopy(module))
    assert torch.equal(trained.conv.weight, module.conv.weight)
    assert not torch.equal(trained.fc.weight, module.fc.weight)
    assert not module.conv.weight.requires_grad and module.fc.weight.requires_grad
    dptrain.fit(net, digits, devices="cpu", epochs=1, freeze=())
    assert not torch.equal(net.to_torch(copy.deepcopy(module)).conv.weight, module.conv.weight)


def test_weights_of_another_module_are_refused(exported, digits):
    net = exported[1].copy()
    dptrain.fit(net, digits, devices="cpu", max_steps=1)
    other = Net()
    other.extra = nn.Linear(2, 2)
    with pytest.raises(InvalidError, match=r"extra\.weight, extra\.bias"):
        net.to_torch(other)
    net.to_torch(other, strict=False)
    assert torch.equal(other.fc.bias, torch.tensor(net.weights["fc.bias"]))
    other = Net()
    other.fc = nn.Linear(384, 9)
    with pytest.raises(InvalidError, match=r"fc\.weight.*\(9, 384\).*\(10, 384\)"):
        net.to_torch(other)


class DataDependent(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x):
        if x.sum() > 0:
            return self.fc(x)
        return x


class Inverse(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return torch.linalg.inv(self.fc(x).reshape(-1, 2, 2)).flatten(1)


class Mixing(nn.Module):
    """The samples of a batch depend on one another."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x):
        return self.fc(x - x.mean(0))


def test_a_module_that_cannot_be_exported():
    with pytest.raises(ExportError, match="DataDependent.*data-dependent"):
        dptrain.from_torch(DataDependent(), torch.randn(2, 3))
    with pytest.raises(ExportError, match=r"Inverse.*linalg_inv.*node %"):
        dptrain.from_torch(Inverse(), torch.randn(2, 4))
    with pytest.raises(InvalidError, match="not of int"):
        dptrain.from_torch(nn.Linear(3, 3), 5)
    with pytest.raises(InvalidError, match=r"torch\.nn\.Module"):
        dptrain.from_torch("resnet18", torch.randn(2, 3))


def test_a_module_that_cannot_be_trained_names_the_node():
    with pytest.raises((UnsupportedError, InvalidError), match="node"):
        dptrain.from_torch(Mixing(), torch.randn(2, 3))


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(20, 8)
        self.fc = nn.Linear(11, 3)

    def forward(self, ids, numbers):
        return self.fc(torch.cat([self.words(ids).mean(1), numbers], 1))


def test_several_arguments():
    ids, numbers = torch.randint(0, 20, (60, 5)), torch.randn(60, 3)
    y = ids[:, 0] % 3
    net = dptrain.from_torch(Two(), (ids[:2], numbers[:2]))
    assert [(i.name, i.vocabulary > 0) for i in net.inputs] == [("ids", True), ("numbers", False)]
    run = dptrain.fit(net, ({"ids": ids, "numbers": numbers}, y), devices=DEVICES, epochs=2)
    assert np.isfinite(run.losses).all()
    assert dptrain.predict(net, {"numbers": numbers, "ids": ids}, devices="cpu").shape == (60, 3)
    named = dptrain.from_torch(Two(), {"ids": ids, "numbers": numbers})
    assert [i.name for i in named.inputs] == ["ids", "numbers"]


class Items(torch_data.Dataset):
    def __init__(self, x, y):
        self.x, self.y = torch.tensor(x), torch.tensor(y)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class Stream(torch_data.IterableDataset):
    def __init__(self, items):
        self.items = items

    def __iter__(self):
        return (self.items[i] for i in range(len(self.items)))


def test_data_sets_and_loaders(net, digits):
    def losses(data, **options):
        return dptrain.fit(net.copy(), data, devices="cpu:threads=1", epochs=2, **options).losses

    items = Items(*digits)
    wanted = losses(digits, batch_size=50, shuffle=False)
    assert losses(items, batch_size=50, shuffle=False) == wanted
    assert losses(torch_data.DataLoader(items, batch_size=50)) == wanted
    shuffled = losses(torch_data.DataLoader(items, batch_size=50, shuffle=True))
    assert shuffled == losses(digits, batch_size=50) != wanted
    stream = torch_data.DataLoader(Stream(items), batch_size=50)
    assert losses(stream, shuffle=False) == wanted
    collate = torch_data.DataLoader(items, 50, collate_fn=lambda b: torch_data.default_collate(b))
    assert losses(collate, shuffle=False) == wanted
    sampler = torch_data.WeightedRandomSampler([1.0] * 300, 300)
    with pytest.raises(UnsupportedError, match="WeightedRandomSampler"):
        losses(torch_data.DataLoader(items, sampler=sampler))


def test_tensors_share_their_memory(digits):
    x = torch.tensor(digits[0], requires_grad=True)
    data = dptrain.Dataset(x, torch.tensor(digits[1]))
    assert data._source.inputs["x"].ctypes.data == x.data_ptr()
    half = dptrain.Dataset(torch.tensor(digits[0]).bfloat16())
    assert np.allclose(half._source.inputs["x"], digits[0], rtol=0.01)


def test_both_train_at_the_same_time(digits):
    """Two OpenMP run-time libraries compute in one process, in several threads."""
    x, y = (torch.tensor(a) for a in digits)
    failures, stop = [], threading.Event()

    def work():
        try:
            module = Net()
            while not stop.is_set():
                nn.functional.cross_entropy(module(x), y).backward()
        except BaseException as why:
            failures.append(why)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    run = dptrain.fit(
        "lenet",
        (np.zeros((64, 1, 28, 28), np.float32), np.arange(64) % 10),
        max_steps=30,
        devices="cpu,cpu",
    )
    stop.set()
    for thread in threads:
        thread.join()
    assert failures == [] and run.steps == 30


class Remembering(nn.Module):
    """Returns what it keeps for its next call, unless told otherwise, as models of transformers do."""

    class Config:
        use_cache = True

    def __init__(self):
        super().__init__()
        self.fc, self.config = nn.Linear(64, 10), self.Config()

    def forward(self, x):
        logits = self.fc(x.flatten(1))
        return (logits, {1, 2}) if self.config.use_cache else logits


def test_a_cache_is_switched_off_for_the_export(digits):
    module = Remembering()
    net = dptrain.from_torch(module, digits[0][:2])
    assert module.config.use_cache
    assert dptrain.predict(net, digits[0], devices="cpu").shape == (300, 10)


def test_many_weights_are_in_a_file_of_their_own(digits, monkeypatch):
    from dptrain import _torch

    module = Net()
    wanted = dptrain.predict(dptrain.from_torch(module, digits[0][:2]), digits[0], devices="cpu")
    monkeypatch.setattr(_torch, "_MOST_INSIDE", 1000)
    net = dptrain.from_torch(module, digits[0][:2])
    assert len(os.listdir(os.path.dirname(net._source.path))) == 2
    assert np.array_equal(dptrain.predict(net, digits[0], devices="cpu"), wanted)
