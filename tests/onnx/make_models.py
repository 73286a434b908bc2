#!/usr/bin/env python3
"""Writes the small ONNX files beside this script, which the tests read.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install onnx numpy
    /tmp/venv/bin/python tests/onnx/make_models.py

Files are kept in the repository; this script is run only to change them.  It was last run with onnx
1.23.2.  The files contain no data but what is written here.
"""

import os

import numpy as np
from onnx import AttributeProto, TensorProto, helper, numpy_helper

HERE = os.path.dirname(os.path.abspath(__file__))
OPSET, IR = 18, 8
F, I64 = TensorProto.FLOAT, TensorProto.INT64


def value(name, shape, dtype=F):
    return helper.make_tensor_value_info(name, dtype, shape)


def tensor(name, array):
    return numpy_helper.from_array(np.asarray(array), name)


def floats(name, *shape):
    return tensor(name, np.arange(np.prod(shape), dtype=np.float32).reshape(shape) / 8)


def ints(name, *values):
    return tensor(name, np.array(values, np.int64))


def make(nodes, inputs, outputs, tensors=(), functions=(), opset=OPSET, ir=IR, domains=()):
    graph = helper.make_graph(list(nodes), "g", list(inputs), list(outputs), list(tensors))
    opsets = [helper.make_opsetid("", opset)] + [helper.make_opsetid(d, 1) for d in domains]
    return helper.make_model(graph, opset_imports=opsets, ir_version=ir, functions=list(functions), producer_name="t")


def save(folder, name, content):
    path = os.path.join(HERE, folder)
    os.makedirs(path, exist_ok=True)
    with open(os.path.join(path, name), "wb") as file:
        file.write(content if isinstance(content, bytes) else content.SerializeToString())


node = helper.make_node
X, Y = value("x", ["N", 3]), value("y", ["N", 2])


def linear(**changes):
    """y = x w + b, for changes."""
    parts = {
        "nodes": [node("MatMul", ["x", "w"], ["t"], name="mm"), node("Add", ["t", "b"], ["y"], name="bias")],
        "inputs": [X],
        "outputs": [Y],
        "tensors": [floats("w", 3, 2), floats("b", 2)],
    }
    parts.update(changes)
    return make(**parts)


def external(location, offset="0", length="24"):
    w = TensorProto(name="w", data_type=F, dims=[3, 2], data_location=TensorProto.EXTERNAL)
    for key, text in (("location", location), ("offset", offset), ("length", length)):
        if text is not None:
            w.external_data.add(key=key, value=text)
    return linear(tensors=[w, floats("b", 2)])


# ---- Good ----


def scaled_function():
    """scale(v; by) = v * by, and twice(v) = scale(scale(v)): nested, with an attribute by reference."""
    constant = node("Constant", [], ["c"])
    constant.attribute.append(AttributeProto(name="value_float", type=AttributeProto.FLOAT, ref_attr_name="by"))
    scale = helper.make_function("our", "scale", ["v"], ["r"], [constant, node("Mul", ["v", "c"], ["r"])],
                                 [helper.make_opsetid("", OPSET)], ["by"])
    twice = helper.make_function("our", "twice", ["v"], ["r"], [
        node("scale", ["v"], ["h"], domain="our", by=2.0), node("scale", ["h"], ["r"], domain="our", by=3.0)],
        [helper.make_opsetid("", OPSET), helper.make_opsetid("our", 1)])
    return make([node("twice", ["x"], ["a"], name="call", domain="our"), node("twice", ["a"], ["y"], domain="our")],
                [X], [value("y", ["N", 3])], functions=[scale, twice], domains=["our"])


def typed():
    """A tensor of every type in its typed field, all with the values 1 and 0."""
    names = {TensorProto.FLOAT: "f32", TensorProto.DOUBLE: "f64", TensorProto.INT64: "i64", TensorProto.UINT64: "u64",
             TensorProto.INT32: "i32", TensorProto.UINT32: "u32", TensorProto.INT16: "i16", TensorProto.UINT16: "u16",
             TensorProto.INT8: "i8", TensorProto.UINT8: "u8", TensorProto.BOOL: "b", TensorProto.FLOAT16: "f16",
             TensorProto.BFLOAT16: "bf16"}
    tensors = [helper.make_tensor(name, dtype, [2], [1, 0]) for dtype, name in names.items()]
    nodes = [node("Identity", [name], ["y_" + name]) for name in names.values()]
    outputs = [value("y_" + name, [2], dtype) for dtype, name in names.items()]
    return make(nodes, [X], outputs, tensors)


def good():
    save("good", "linear.onnx", linear())
    save("good", "unsorted.onnx", linear(nodes=[node("Relu", ["s"], ["y"], name="last"),
                                                node("Add", ["t", "b"], ["s"], name="bias"),
                                                node("MatMul", ["x", "w"], ["t"], name="mm")]))
    save("good", "unused.onnx", linear(tensors=[floats("w", 3, 2), floats("b", 2), floats("nobody", 4)]))
    save("good", "input_with_default.onnx", linear(inputs=[X, value("b", [2])]))
    save("good", "function.onnx", scaled_function())
    save("good", "typed.onnx", typed())
    save("good", "external.onnx", external("weights.bin", "4"))
    save("good", "weights.bin", b"\0\0\0\0" + (np.arange(6, dtype=np.float32) / 8).tobytes())


# ---- Bad ----


def subgraph():
    branch = helper.make_graph([node("Relu", ["x"], ["r"])], "then", [], [value("r", ["N", 3])])
    choose = node("If", ["c"], ["y"], name="choice", then_branch=branch, else_branch=branch)
    return make([choose], [X], [value("y", ["N", 3])], [tensor("c", np.array(True))])


def call_in_circle():
    f = helper.make_function("our", "f", ["v"], ["r"], [node("f", ["v"], ["r"], domain="our")],
                             [helper.make_opsetid("", OPSET), helper.make_opsetid("our", 1)])
    return make([node("f", ["x"], ["y"], domain="our")], [X], [value("y", ["N", 3])], functions=[f], domains=["our"])


def wrong_tensor(**fields):
    return linear(tensors=[TensorProto(name="w", **fields), floats("b", 2)])


def bad():
    whole = linear().SerializeToString()
    save("bad", "text.onnx", b"this is no ONNX file\n")
    save("bad", "cut.onnx", whole[: len(whole) // 2])
    save("bad", "cut_inside.onnx", whole.replace(b"\x0a\x06MatMul", b"\x0a\x7fMatMul").replace(b"\x22\x06MatMul", b"\x22\x66MatMul"))
    save("bad", "header_2gb.onnx", b"\x08\x08\x3a\xff\xff\xff\xff\x07\x0a\x00")
    save("bad", "no_graph.onnx", b"\x08\x08\x42\x02\x10\x12")
    save("bad", "new_ir.onnx", linear(ir=99))
    save("bad", "old_opset.onnx", linear(opset=12))
    save("bad", "new_opset.onnx", linear(opset=99))
    save("bad", "domain.onnx", linear(nodes=[node("FancyNorm", ["x"], ["y"], name="fancy", domain="com.vendor")],
                                      domains=["com.vendor"]))
    save("bad", "subgraph.onnx", subgraph())
    save("bad", "call_in_circle.onnx", call_in_circle())
    save("bad", "twice.onnx", linear(nodes=[node("Relu", ["x"], ["y"], name="one"), node("Neg", ["x"], ["y"], name="two")]))
    save("bad", "undefined.onnx", linear(nodes=[node("Relu", ["nothing"], ["y"], name="lost")]))
    save("bad", "circle.onnx", linear(nodes=[node("Add", ["x", "b"], ["a"], name="first"),
                                             node("Relu", ["a"], ["b2"]), node("Add", ["x", "y"], ["y"], name="itself")]))
    save("bad", "no_output.onnx", linear(outputs=[value("z", ["N", 2])]))
    save("bad", "few_bytes.onnx", wrong_tensor(data_type=F, dims=[3, 2], raw_data=b"\0" * 20))
    save("bad", "few_elements.onnx", wrong_tensor(data_type=F, dims=[3, 2], float_data=[1, 2, 3]))
    save("bad", "negative.onnx", wrong_tensor(data_type=F, dims=[-3, 2], raw_data=b""))
    save("bad", "huge.onnx", wrong_tensor(data_type=F, dims=[1 << 40, 1 << 40], raw_data=b""))
    save("bad", "strings.onnx", wrong_tensor(data_type=TensorProto.STRING, dims=[1], string_data=[b"s"]))
    save("bad", "range.onnx", wrong_tensor(data_type=TensorProto.UINT8, dims=[1], int32_data=[256]))
    save("bad", "upwards.onnx", external("../good/weights.bin"))
    save("bad", "absolute.onnx", external("/etc/hostname"))
    save("bad", "missing.onnx", external("nowhere.bin"))
    save("bad", "number.onnx", external("weights.bin", "-1"))
    save("bad", "short.onnx", external("short.bin", "0", None))
    save("bad", "length.onnx", external("short.bin", "0", "8"))
    save("bad", "short.bin", b"\0" * 8)


if __name__ == "__main__":
    good()
    bad()
