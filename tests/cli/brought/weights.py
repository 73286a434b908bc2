"""Rewrites files of safetensors as other programs write them.

weights.py FROM TO CHANGE...: copies the tensors without the metadata, and applies each change in its order:

    prefix=TEXT         puts the text in front of every name
    type=F16|BF16|F64   stores the weights in this type.  To those of F64 a quarter of the distance to the next float32
                        is added, so that a rounding that is not to the nearest would show
    set=NAME:I:VALUE    sets element I of a tensor of float32
    rename=NAME:NAME, drop=NAME, add=NAME:N (N numbers), shape=NAME:AxB
    shards=N            writes N files, and TO is their index

weights.py FROM: prints the name, the type and the shape of each tensor.
"""

import json
import os
import struct
import sys


def read(path):
    with open(path, "rb") as file:
        data = file.read()
    (n,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + n])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        tensors[name] = [entry["dtype"], entry["shape"], data[8 + n + begin : 8 + n + end]]
    return tensors


def write(path, tensors):
    header, at = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(t[2] for t in tensors.values()))


def floats(data):
    return struct.unpack(f"<{len(data) // 4}f", data)


def store(tensor, dtype):
    if tensor[0] != "F32":
        return
    values = floats(tensor[2])
    if dtype == "F64":
        bits = struct.unpack(f"<{len(values)}I", tensor[2])
        above = struct.unpack(f"<{len(values)}f", struct.pack(f"<{len(bits)}I", *[b + 1 for b in bits]))
        tensor[2] = struct.pack(f"<{len(values)}d", *[v + (a - v) / 4 for v, a in zip(values, above)])
    elif dtype == "F16":
        tensor[2] = struct.pack(f"<{len(values)}e", *values)
    else:
        tensor[2] = b"".join(tensor[2][i + 2 : i + 4] for i in range(0, len(tensor[2]), 4))
    tensor[0] = dtype


def write_shards(path, tensors, n):
    names = list(tensors)
    files = {}
    for k in range(n):
        file = f"part-{k + 1}-of-{n}.safetensors"
        part = {name: tensors[name] for name in names[k::n]}
        write(os.path.join(os.path.dirname(path), file), part)
        files.update({name: file for name in part})
    with open(path, "w", encoding="utf-8") as index:
        json.dump({"metadata": {}, "weight_map": files}, index)


def change(tensors, what, value):
    if what == "prefix":
        return {value + name: tensor for name, tensor in tensors.items()}
    if what == "type":
        for tensor in tensors.values():
            store(tensor, value)
        return tensors
    name, _, rest = value.partition(":")
    if what == "set":
        i, _, number = rest.partition(":")
        data = bytearray(tensors[name][2])
        form = "<d" if tensors[name][0] == "F64" else "<f"
        struct.pack_into(form, data, int(i) * struct.calcsize(form), float(number))
        tensors[name][2] = bytes(data)
    elif what == "rename":
        return {rest if n == name else n: tensor for n, tensor in tensors.items()}
    elif what == "drop":
        del tensors[name]
    elif what == "add":
        tensors[name] = ["F32", [int(rest)], bytes(4 * int(rest))]
    elif what == "shape":
        tensors[name][1] = [int(extent) for extent in rest.split("x")]
    else:
        sys.exit(f"no change {what}")
    return tensors


def main():
    tensors = read(sys.argv[1])
    if len(sys.argv) == 2:
        for name, (dtype, shape, _) in tensors.items():
            print(name, dtype, "x".join(map(str, shape)))
        return
    shards = 0
    for text in sys.argv[3:]:
        what, _, value = text.partition("=")
        if what == "shards":
            shards = int(value)
        else:
            tensors = change(tensors, what, value)
    if shards:
        write_shards(sys.argv[2], tensors, shards)
    else:
        write(sys.argv[2], tensors)


if __name__ == "__main__":
    main()
