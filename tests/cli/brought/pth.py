"""Writes files as torch.save does, without PyTorch, of the tensors of a safetensors file.

pth.py FROM TO KIND:

    dict        a state dict: an OrderedDict with _metadata, of tensors of which one is transposed in its storage
    plain       a dict, with the names and the numbers of pickle's fourth protocol
    parameter   of torch.nn.Parameter
    nested      a checkpoint: the state dict among other entries
    module      a whole module
    call        a pickle that would run a program
    old         the format from before PyTorch 1.6
"""

import collections
import io
import os
import pickle
import sys
import types
import zipfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from weights import read  # noqa: E402

NAMES = {"F32": "FloatStorage", "F64": "DoubleStorage", "F16": "HalfStorage", "BF16": "BFloat16Storage", "I64": "LongStorage"}
SIZES = {"F32": 4, "F64": 8, "F16": 2, "BF16": 2, "I64": 8}

torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
sys.modules.update({"torch": torch, "torch._utils": utils})


def stand_in(module, name):
    """What pickle writes as the name of PyTorch's own."""

    def function(*arguments):
        raise NotImplementedError(arguments)

    function.__module__, function.__name__, function.__qualname__ = module.__name__, name, name
    setattr(module, name, function)
    return function


for name in NAMES.values():
    stand_in(torch, name)
REBUILD, PARAMETER = stand_in(utils, "_rebuild_tensor_v2"), stand_in(utils, "_rebuild_parameter")


class Storage:
    def __init__(self, dtype, key, data):
        self.dtype, self.key, self.data = dtype, key, data


class Tensor:
    def __init__(self, storage, shape, stride):
        self.arguments = (storage, 0, tuple(shape), tuple(stride), False, collections.OrderedDict())

    def __reduce_ex__(self, protocol):
        return REBUILD, self.arguments


class Parameter:
    def __init__(self, tensor):
        self.tensor = tensor

    def __reduce_ex__(self, protocol):
        return PARAMETER, (self.tensor, True, collections.OrderedDict())


class Call:
    def __reduce_ex__(self, protocol):
        return os.system, ("touch executed",)


class Pickler(pickle.Pickler):
    def persistent_id(self, obj):
        if not isinstance(obj, Storage):
            return None
        n = len(obj.data) // SIZES[obj.dtype]
        return ("storage", getattr(torch, NAMES[obj.dtype]), obj.key, "cpu", n)


def strides(shape):
    out, step = [], 1
    for extent in reversed(shape):
        out.insert(0, step)
        step *= extent
    return out


def transposed(data, rows, columns, size):
    """The same matrix with its columns one after another."""
    cells = [data[i : i + size] for i in range(0, len(data), size)]
    return b"".join(cells[r * columns + c] for c in range(columns) for r in range(rows))


def make(tensors, kind):
    storages, state = [], collections.OrderedDict()
    for name, (dtype, shape, data) in tensors.items():
        stride = strides(shape)
        if kind == "dict" and len(shape) == 2:
            data, stride = transposed(data, *shape, SIZES[dtype]), [1, shape[0]]
        storages.append(Storage(dtype, str(len(storages)), data))
        tensor = Tensor(storages[-1], shape, stride)
        state[name] = Parameter(tensor) if kind == "parameter" else tensor
    if kind == "dict":
        state._metadata = collections.OrderedDict([("", {"version": 1, "scale": 1.5, "list": [None, True, -7, 70000]})])
    top = {"nested": {"epoch": 3, "state_dict": state}, "module": types.SimpleNamespace(state=state), "call": [Call()]}
    return storages, top.get(kind, dict(state) if kind == "plain" else state)


def main():
    source, target, kind = sys.argv[1:]
    storages, top = make(read(source), kind)
    code = io.BytesIO()
    Pickler(code, protocol=4 if kind == "plain" else 2).dump(top)
    if kind == "old":
        with open(target, "wb") as file:
            for value in 0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}:
                pickle.dump(value, file, protocol=2)
            file.write(code.getvalue())
        return
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as file:
        file.writestr("archive/data.pkl", code.getvalue())
        file.writestr("archive/byteorder", "little")
        for storage in storages:
            file.writestr(f"archive/data/{storage.key}", storage.data)
        file.writestr("archive/version", "3\n")


main()
