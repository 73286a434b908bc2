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
    save("good", "branches.onnx", branches())
    save("good", "attributes.onnx", make([node(
        "Any", ["x"], ["y"], f=1.5, i=-7, s="text", t=ints("inner", 3), fs=[0.5, 2.0], ns=[4, 5, 6], ss=["a", "bc"])],
        [X], [Y]))
    save("good", "external.onnx", external("weights.bin", "4"))
    save("good", "weights.bin", b"\0\0\0\0" + (np.arange(6, dtype=np.float32) / 8).tobytes())


# ---- Bad ----


def branch(*nodes, out="r", tensors=(), inputs=()):
    outs = [helper.make_tensor_value_info(name, F, None) for name in out.split()]
    return helper.make_graph(list(nodes), "branch", list(inputs), outs, list(tensors))


def choose(then, otherwise, outputs=("y",), name="choice", condition="c"):
    return node("If", [condition], list(outputs), name=name, then_branch=then, else_branch=otherwise)


def choosing(*nodes, condition=True):
    return make(nodes, [X], [value("y", ["N", 3])], [tensor("c", np.array(condition)), floats("w", 3)])


def branches():
    """Two outputs, a branch in a branch, names that both branches and the graph use, an initialiser of a branch, and
    a branch that does not fit and is not taken."""
    inner = choose(branch(node("Add", ["t", "five"], ["r"])), branch(node("Neg", ["t"], ["r"])), ["u"], "inner", "d")
    then = branch(node("Mul", ["x", "two"], ["t"]), node("Not", ["c"], ["d"]), inner, node("Add", ["u", "w"], ["r"]), out="r x",
                  tensors=[tensor("two", np.float32(2))])
    wrong = branch(node("Relu", ["x"], ["r"]), node("Add", ["r", "five"], ["t"]), out="r t")
    return make([choose(then, wrong, ["a", "t"]), node("Add", ["a", "t"], ["y"])], [X], [value("y", ["N", 3])],
                [tensor("c", np.array(True)), floats("w", 3), floats("five", 5)])


def one_in_another(depth):
    """Encoded by hand, because Python's protobuf decodes 100 messages in one another at most."""
    def field(number, content):
        size, n = b"", len(content)
        while n > 127:
            size, n = size + bytes([n & 127 | 128]), n >> 7
        return bytes([8 * number + 2]) + size + bytes([n]) + content

    def attribute(name, inside):
        return field(5, field(1, name) + field(6, inside) + b"\xa0\x01\x05")

    leaf = branch(node("Relu", ["x"], ["r"])).SerializeToString()
    inner = leaf
    for _ in range(depth):
        made = field(1, b"c") + field(2, b"r") + field(4, b"If") + attribute(b"then_branch", inner)
        inner = field(1, made + attribute(b"else_branch", leaf)) + field(2, b"g") + field(12, field(1, b"r"))
    ports = choosing(node("Relu", ["x"], ["r"]))
    graph = b"".join(field(5, t.SerializeToString()) for t in ports.graph.initializer) + field(11, X.SerializeToString())
    del ports.graph.node[:]
    ports.ClearField("graph")
    return ports.SerializeToString() + field(7, inner + graph)


def loop():
    body = helper.make_graph([node("Relu", ["x"], ["r"]), node("Identity", ["c"], ["d"])], "body",
                             [value("i", [], I64), value("e", [], TensorProto.BOOL)],
                             [value("d", [], TensorProto.BOOL), value("r", ["N", 3])])
    return choosing(node("Loop", ["", "c"], ["y"], name="turns", body=body))


def call_in_circle():
    f = helper.make_function("our", "f", ["v"], ["r"], [node("f", ["v"], ["r"], domain="our")],
                             [helper.make_opsetid("", OPSET), helper.make_opsetid("our", 1)])
    return make([node("f", ["x"], ["y"], domain="our")], [X], [value("y", ["N", 3])], functions=[f], domains=["our"])


def twice(first, second, kind=AttributeProto.INT):
    made = node("Softmax", ["x"], ["y"], name="soft")
    made.attribute.append(AttributeProto(name=first, type=AttributeProto.INT, i=1))
    made.attribute.append(AttributeProto(name=second, type=kind, i=1))
    return made


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
    relu = node("Relu", ["x"], ["r"])
    save("bad", "subgraph.onnx", loop())
    save("bad", "branch_missing.onnx", choosing(node("If", ["c"], ["y"], name="choice", then_branch=branch(relu))))
    save("bad", "branch_outputs.onnx", choosing(choose(branch(relu), branch(relu, out="r r"))))
    save("bad", "branch_input.onnx", choosing(choose(branch(relu), branch(relu, inputs=[X]))))
    save("bad", "branch_lost.onnx", choosing(choose(branch(relu), branch(node("Relu", ["nothing"], ["r"], name="lost")))))
    save("bad", "branch_deep.onnx", one_in_another(33))
    save("good", "branch_deep.onnx", one_in_another(32))
    damaged = choosing(choose(branch(node("Softsign", ["x"], ["r"])), branch(relu))).SerializeToString()
    save("bad", "branch_damaged.onnx", damaged.replace(b"\x22\x08Softsign", b"\x22\x7fSoftsign"))
    save("bad", "call_in_circle.onnx", call_in_circle())
    save("bad", "twice.onnx", linear(nodes=[node("Relu", ["x"], ["y"], name="one"), node("Neg", ["x"], ["y"], name="two")]))
    save("bad", "undefined.onnx", linear(nodes=[node("Relu", ["nothing"], ["y"], name="lost")]))
    save("bad", "circle.onnx", linear(nodes=[node("Add", ["x", "b"], ["a"], name="first"),
                                             node("Relu", ["a"], ["b2"]), node("Add", ["x", "y"], ["y"], name="itself")]))
    save("bad", "no_output.onnx", linear(outputs=[value("z", ["N", 2])]))
    save("bad", "attribute_twice.onnx", make([twice("axis", "axis")], [X], [Y]))
    save("bad", "attribute_kind.onnx", make([twice("axis", "other", AttributeProto.TENSORS)], [X], [Y]))
    save("bad", "attribute_tensor.onnx", make([twice("axis", "value", AttributeProto.TENSOR)], [X], [Y]))
    save("bad", "sequence.onnx", make([node("Relu", ["x"], ["y"])], [helper.make_tensor_sequence_value_info("x", F, [2])], [Y]))
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


# ---- Shapes ----


def graph(*nodes, x=("N", 3, 4), y="y", tensors=(), dtype=F, constants=(), opset=OPSET):
    """A model whose nodes are texts: "Op input ... > output ... | attribute=value ..."."""
    made = [node("Constant", [], [name], value_float=number) for name, number in constants]
    for text in nodes:
        left, right = text.split(" > ")
        names, _, attributes = right.partition(" | ")
        op, *taken = left.split()
        pairs = dict(pair.split("=", 1) for pair in attributes.split()) if attributes else {}
        made.append(node(op, ["" if t == "-" else t for t in taken], names.split(), name=f"n{len(made)}",
                         **{key: eval(value, {}) for key, value in pairs.items()}))  # written above
    outputs = [helper.make_tensor_value_info(y, F, None)]
    return make(made, [value("x", x, dtype)], outputs, tensors, opset=opset)


def shapes():
    """Accepted by infer.h; test_onnx_infer.c has the shapes that it must find."""
    save("shapes", "flatten_by_shape.onnx", graph(
        "Shape x > s", "Gather s zero > n", "Unsqueeze n axes > n1", "Concat n1 minus > t | axis=0", "Reshape x t > y",
        tensors=[tensor("zero", np.int64(0)), ints("axes", 0), ints("minus", -1)]))
    save("shapes", "fold_time.onnx", graph("Reshape x t > f", "Reshape f u > y",
                                           tensors=[ints("t", -1, 4), ints("u", -1, 3, 4)]))
    save("shapes", "multiply.onnx", graph(
        "Shape x > s | end=1", "Mul s six > k", "Div k two > h", "Sub h s > d", "Max d s > m", "Concat m two > t | axis=0",
        "ConstantOfShape t > y", tensors=[ints("six", 6), ints("two", 2)]))
    save("shapes", "expand.onnx", graph(
        "Shape x > s | end=1", "Concat one s two > t | axis=0", "Equal t minus > e", "Where e ones t > w",
        "Expand zero w > y", tensors=[ints("one", 1), ints("two", 2), ints("minus", -1), ints("ones", 1, 1, 1),
                                      tensor("zero", np.float32(0))]))
    save("shapes", "constants.onnx", graph(
        "Range zero six two > r", "Cast r > f | to=1", "Unsqueeze f axes > u", "Transpose u > v", "Mul u v > m",
        "Slice m minus end axes back > sl", "Add x sl > y", x=("N", 3, 3),
        tensors=[tensor("zero", np.int64(0)), tensor("six", np.int64(6)), tensor("two", np.int64(2)), ints("axes", 0),
                 ints("minus", -1), ints("end", -100), ints("back", -1)]))
    save("shapes", "parameter.onnx", graph("Neg w > v", "Add x v > y", tensors=[floats("w", 4)]))
    save("shapes", "windows.onnx", graph(
        "Conv x w > a | strides=[2,2] pads=[1,1,1,1] dilations=[1,2] group=2",
        "MaxPool a > b | kernel_shape=[2,2] strides=[2,2] ceil_mode=1", "ConvTranspose b u > c | strides=[3,2] output_padding=[1,0]",
        "Resize c - scales > d", "Pad d pads > e", "GlobalAveragePool e > y", x=("N", 4, 9, 9),
        tensors=[floats("w", 6, 2, 3, 3), floats("u", 6, 5, 3, 3), tensor("scales", np.float32([1, 1, 2, 1.5])),
                 ints("pads", 0, 0, 1, 2, 0, 0, 3, 4)]))
    save("shapes", "products.onnx", graph(
        "MatMul x w > a", "Einsum a w > b | equation='nij,kj->nik'", "Transpose b > c | perm=[1,0,2]",
        "LSTM c W R > d e f | hidden_size=2", "Squeeze e axes > g", "Gemm g V > y | transB=1",
        tensors=[floats("w", 4, 4), floats("W", 1, 8, 4), floats("R", 1, 8, 2), floats("V", 5, 2), ints("axes", 0)]))
    save("shapes", "arithmetic.onnx", graph(
        "Max a b > v0", "Min a b > v1", "Mod b a > v2", "Div b a > v3", "Neg b > v4", "Abs v4 > v5", "ReduceProd ab > v6 | keepdims=0",
        "ReduceSum ab > v7 | keepdims=0", *(f"Cast v{i} > c{i} | to=1" for i in range(8)),
        "Floor r > c8", "Ceil r > c9", "Round r > c10", "Sqrt q > c11", "Reciprocal q > c12", "Pow q q > c13", "Sub q r > c14",
        "Greater q r > g", "Less q r > l", "And g l > h", "Or g l > o", "Xor g g > p", "Not p > n", "LessOrEqual q q > t",
        "GreaterOrEqual q r > u", "Equal q r > w", "Exp z > c15", "Log c15 > c16",
        *(f"Cast {v} > {v}c | to=1" for v in "glhopntuw"),
        *(f"Unsqueeze {v} axes > {v}u" for v in [f"c{i}" for i in range(17)] + [f"{v}c" for v in "glhopntuw"]),
        "Concat " + " ".join(f"{v}u" for v in [f"c{i}" for i in range(17)] + [f"{v}c" for v in "glhopntuw"]) + " > all | axis=0",
        "Add x all > y", x=("N", 26),
        tensors=[tensor("a", np.int64(3)), tensor("b", np.int64(-7)), ints("ab", 3, -7), ints("axes", 0)],
        constants=(("r", 2.5), ("q", 4.0), ("z", 0.0))))
    save("shapes", "moved.onnx", graph(
        "Constant > m | value_ints=[1,2,3,4,5,6]", "Reshape m t > a", "Trilu a > b | upper=0", "Tile b rep > c", "Gather c i > d | axis=1",
        "Flatten d > e | axis=0", "Squeeze e > f", "Cast f > g | to=1", "Add x g > y", x=("N", 8),
        tensors=[ints("t", 2, 3), ints("rep", 2, 1), ints("i", -1, 0)]))
    save("shapes", "elements.onnx", graph(
        "Clip x - top > a", "Dropout a > b m", "Where m b x > c", "IsNaN c > d", "CastLike d x > e", "PRelu e s > f", "Pow f two > g",
        "Greater g x > h", "Cast h > i | to=6", "Bernoulli x > j | dtype=9", "Not j > k", "Max g x f > y",
        tensors=[tensor("top", np.float32(6)), floats("s", 3, 1), ints("two", 2)]))
    save("shapes", "norms.onnx", graph(
        "LayerNormalization x w > a m i | axis=-1", "RMSNormalization a w > b", "InstanceNormalization b p p > c",
        "GroupNormalization c p p > d | num_groups=2", "LRN d > e | size=3", "BatchNormalization e p p p p > f s t | training_mode=1",
        "LpNormalization f > y | axis=2", x=("N", 4, 6), opset=23, tensors=[floats("w", 6), floats("p", 4)]))
    save("shapes", "attention.onnx", graph(
        "Reshape x t > q", "Transpose q > k | perm=[0,2,1,3]", "Attention k k k mask > a", "Attention x x x > b | q_num_heads=2 kv_num_heads=2",
        "GRU b W R - len > c d | hidden_size=2 layout=1", "Einsum b w > e | equation='nij,jk'", "Add e e > y", x=("N", 3, 4), opset=23,
        tensors=[ints("t", 0, 0, 2, 2), floats("mask", 3, 3), floats("W", 2, 6, 4), floats("R", 2, 6, 2), floats("w", 4, 5),
                 tensor("len", np.int32([3]))]))
    save("shapes", "view.onnx", view(12, range(12)))
    save("shapes", "own_rows.onnx", own("Unsqueeze n one1 > b", "Unsqueeze p one1 > c", "Concat b c > d | axis=1",
                                        "GatherND x d > y", tensors=[ints("one1", 1)]))
    save("shapes", "own_places.onnx", own("Add p o > a", "Gather f a > y"))
    save("shapes", "layouts.onnx", graph(
        "Split x > a b | axis=2 num_outputs=2", "Concat a b a > c | axis=2", "Tile c rep > d", "Slice d st en ax sp > e",
        "TopK e k > f g | axis=2", "ArgMax f > h | axis=1 keepdims=0", "OneHot h depth on > i",
        "ReduceSum i ax1 > j | keepdims=0", "Flatten j > y",
        tensors=[ints("rep", 1, 2, 1), ints("st", 1), ints("en", 2 ** 63 - 1), ints("ax", 1), ints("sp", 2), ints("k", 2),
                 ints("depth", 7), tensor("on", np.float32([0, 1])), ints("ax1", 1)]))


def graph_with_branch(*nodes, tensors=()):
    """The nodes make the condition `c`."""
    made = graph(*nodes, "Relu x > y", x=("N", 3), tensors=tensors)
    del made.graph.node[-1]
    made.graph.node.append(choose(branch(node("Relu", ["x"], ["r"])), branch(node("Neg", ["x"], ["r"]))))
    return made


def view(step, places):
    """Elements places[i] + n * step of all elements, for sample n, as exporters write a strided view."""
    return graph("Reshape x all > f", "Shape x > s | end=1", "Squeeze s > n", "Range zero n one > r", "Mul r step > m",
                 "Unsqueeze m last > u", "Add places u > i", "Gather f i > y",
                 tensors=[ints("all", -1), tensor("zero", np.int64(0)), tensor("one", np.int64(1)), ints("step", step),
                          ints("last", 1), tensor("places", np.array([list(places)]))])


def counted(step, offset, other):
    """Updates at (step * n + offset, other * n) of sample n, as an exporter writes y[:, 1] = v with 1, 0 and 0."""
    return graph("Shape x > s | end=1", "Squeeze s > n", "Range zero n one > r", "Mul r step > m", "Add m offset > a",
                 "Mul r other > o", "Add o one > b", "Unsqueeze a last > c", "Unsqueeze b last > d", "Concat c d > at | axis=1",
                 "ReduceSum x last > u | keepdims=0", "ScatterND x at u > y", x=("N", 4),
                 tensors=[tensor("zero", np.int64(0)), tensor("one", np.int64(1)), ints("last", 1), tensor("step", np.int64(step)),
                          tensor("offset", np.int64(offset)), tensor("other", np.int64(other))])


def own(*nodes, tensors=(), x=("N", 3, 4), times=3):
    """`n`: the numbers of the samples; `f`: the rows of all samples; `o`: `times` the numbers; `p`: a place among `times`
    of each sample."""
    return graph("Shape x > s | end=1", "Squeeze s > e", "Range zero e one > n", "Reshape x all > f", "Mul n times > o",
                 "ReduceSum x last > sum | keepdims=0", "ArgMax sum > p | axis=1 keepdims=0", *nodes, x=x,
                 tensors=[tensor("zero", np.int64(0)), tensor("one", np.int64(1)), ints("all", -1, 4), ints("last", 2),
                          tensor("times", np.int64(times)), *tensors])


def refused():
    """Refused by infer.h."""
    save("refused", "branch_of_data.onnx", make(
        [node("ReduceMax", ["x"], ["m"], keepdims=0), node("Cast", ["m"], ["c"], to=TensorProto.BOOL),
         choose(branch(node("Relu", ["x"], ["r"])), branch(node("Neg", ["x"], ["r"])))], [X], [value("y", ["N", 3])]))
    save("refused", "branch_of_batch.onnx", graph_with_branch("Shape x > s | end=1", "Equal s one > c", tensors=[ints("one", 1)]))
    save("refused", "branch_of_parameter.onnx", graph_with_branch("Cast w > c | to=9", tensors=[tensor("w", np.ones(1, np.float32))]))
    save("refused", "branch_taken.onnx", choosing(choose(
        branch(node("Expand", ["w", "five"], ["r"], name="wide"), tensors=[ints("five", 5)]), branch(node("Relu", ["x"], ["r"])))))
    save("refused", "number_as_data.onnx", own("Cast n > a | to=1", "Unsqueeze a one1 > b", "Add sum b > y", tensors=[ints("one1", 1)]))
    save("refused", "number_of_table.onnx", own("Gather w n > a", "Add sum a > y", tensors=[floats("w", 9, 3)]))
    save("refused", "number_shifted.onnx", own("Add n one > a", "Unsqueeze a one1 > b", "Unsqueeze p one1 > c",
                                               "Concat b c > d | axis=1", "GatherND x d > y", tensors=[ints("one1", 1)]))
    save("refused", "number_beyond.onnx", own("Add o p > a", "Add a one > b", "Gather f b > y"))
    save("refused", "number_unbounded.onnx", own("Cast sum > a | to=7", "ReduceSum a one1 > b | keepdims=0", "Add o b > c",
                                                 "Gather f c > y", tensors=[ints("one1", 1)]))
    save("refused", "number_of_others.onnx", own("Add o p > a", "Gather f a > y", times=4))
    save("refused", "operator.onnx", graph("NonZero x > y"))
    save("refused", "fixed_reshape.onnx", graph("Reshape x t > y", tensors=[ints("t", 2, 12)]))
    save("refused", "cut_reshape.onnx", graph("Reshape x t > y", tensors=[ints("t", -1, 5)]))
    save("refused", "range_of_batch.onnx", graph("Shape x > s | end=1", "Squeeze s > n", "Range zero n one > r", "Cast r > y | to=1",
                                                 tensors=[tensor("zero", np.int64(0)), tensor("one", np.int64(1))]))
    save("refused", "strided.onnx", view(12, [0, 1, 2, 3]))
    save("refused", "counted_step.onnx", counted(2, 0, 0))
    save("refused", "counted_offset.onnx", counted(1, 1, 0))
    save("refused", "counted_other.onnx", counted(1, 0, 1))
    save("refused", "reversed.onnx", view(12, range(11, -1, -1)))
    save("refused", "computes_with_batch.onnx", graph("Shape x > s | end=1", "Add i s > y", dtype=I64, x=("N", 3),
                                                      tensors=[ints("i", 2)]))
    save("refused", "pairs.onnx", graph("MatMul x w > a", "Transpose a > b", "MatMul a b > y", x=("N", 3), tensors=[floats("w", 3, 3)]))
    save("refused", "fixed_batch.onnx", graph("Relu x > y", x=(2, 3)))
    save("refused", "two_free.onnx", graph("Relu x > y", x=("N", "T")))
    save("refused", "part_of_batch.onnx", graph("Slice x st en > y", tensors=[ints("st", 1), ints("en", 2 ** 63 - 1)]))
    save("refused", "shapes.onnx", graph("Add x w > y", tensors=[floats("w", 5)]))
    save("refused", "channels.onnx", graph("Conv x w > y", x=("N", 3, 8, 8), tensors=[floats("w", 4, 2, 3, 3)]))
    save("refused", "many_axes.onnx", graph("Conv x w > y", x=("N", 3, 2, 2, 2, 2), tensors=[floats("w", 4, 3, 1, 1, 1, 1)]))
    save("refused", "window.onnx", graph("Conv x w > y", x=("N", 3, 2, 2), tensors=[floats("w", 4, 3, 3, 3)]))
    save("refused", "data_shape.onnx", graph("Cast x > t | to=7", "ConstantOfShape t > y", x=("N",)))
    save("refused", "axis.onnx", graph("Softmax x > y | axis=3"))
    two, zero = tensor("two", np.int64(2)), tensor("zero", np.int64(0))
    save("refused", "no_part.onnx", graph("SplitToSequence x two > s | axis=2", "SequenceAt s two > y", tensors=[two]))
    save("refused", "parts.onnx", graph("SplitToSequence x of > s | axis=1", "SequenceAt s zero > y",
                                        tensors=[ints("of", 2, 2), zero]))
    save("refused", "sequence.onnx", graph("SplitToSequence x > s | axis=1", "Relu s > y"))
    save("refused", "sequence_of_batch.onnx", graph("SplitToSequence x > s", "SequenceAt s zero > y", tensors=[zero]))


# ---- The batch ----


def parallel():
    """Samples are independent."""
    save("parallel", "time_in_batch.onnx", graph(
        "Reshape x t > a", "MatMul a w > b", "Softmax b > c", "Reshape c u > d", "ReduceMean d one > y",
        tensors=[ints("t", -1, 4), floats("w", 4, 4), ints("u", -1, 3, 4), ints("one", 1)]))
    save("parallel", "time_first.onnx", graph(
        "Transpose x > a | perm=[1,0,2]", "Reshape a t > b", "Relu b > c", "Shape a > s", "Reshape c s > d",
        "Transpose d > y | perm=[1,0,2]", tensors=[ints("t", -1, 4)]))
    save("parallel", "batch_norm.onnx", graph("BatchNormalization x p p p p > y", x=("N", 3, 4, 4), tensors=[floats("p", 3)]))
    loss = graph("ArgMax x > p | axis=1", "ReduceMean x > y | keepdims=0", x=("N", 3))
    loss.graph.output.insert(0, helper.make_tensor_value_info("p", I64, None))
    save("parallel", "loss_second.onnx", loss)
    save("parallel", "joined.onnx", graph(
        "Concat x x x > a | axis=0", "Shape x > n | start=0 end=1", "Mul n two > end", "Slice a zero end zero > b",
        "Split b > c d | num_outputs=2", "Add c d > y", tensors=[ints("two", 2), ints("zero", 0)]))
    save("parallel", "tile.onnx", graph("Tile x r > a", "Reshape a t > b", "Transpose b > y | perm=[1,0,2]",
                                        x=("N", 4), tensors=[ints("r", 2, 1), ints("t", 2, -1, 4)]))
    save("parallel", "indices.onnx", graph(
        "ArgMax x > i | axis=2", "GatherElements x i > a | axis=2", "ScatterElements x i a > b | axis=2", "OneHot i depth on > c",
        "Squeeze c > d", "CumSum d one > e", "Trilu e > f", "TopK f k > g h", "LayerNormalization g w > y",
        tensors=[ints("depth", 6), tensor("on", np.float32([0, 1])), tensor("one", np.int64(1)), ints("k", 2), floats("w", 2)]))
    save("parallel", "attention.onnx", graph(
        "Reshape x t > q", "ReduceMax q last > m", "Attention q q q m > a", "Einsum a a > b | equation='nhij,nhkj->nhik'",
        "Reshape b u > c", "GRU c W R - - h0 > d e | hidden_size=2 layout=1", "Shape x > s | end=1",
        "Concat s one two > v | axis=0", "ConstantOfShape v > h0", "Transpose e > y | perm=[0,2,1]", x=("N", 3, 4), opset=23,
        tensors=[ints("t", 0, 1, 3, 4), ints("u", 0, 3, 3), ints("last", -1), floats("W", 1, 6, 3), floats("R", 1, 6, 2), ints("one", 1),
                 ints("two", 2)]))
    save("parallel", "embedding.onnx", graph("Gather w x > y", x=("N", 3), dtype=I64, tensors=[floats("w", 5, 2)]))


def mixed():
    """Samples depend on one another."""
    save("mixed", "reduce.onnx", graph("ReduceMean x a > y", tensors=[ints("a", 0)]))
    save("mixed", "reduce_all.onnx", graph("ReduceSum x > y"))
    save("mixed", "softmax.onnx", graph("Softmax x > y | axis=0"))
    save("mixed", "concat.onnx", graph("Reshape x t > a", "Transpose x > b | perm=[1,0,2]", "Reshape b t > c",
                                       "Concat a c > y | axis=0", tensors=[ints("t", -1, 4)]))
    save("mixed", "slice.onnx", graph("Reshape x t > a", "Shape x > n | start=0 end=1", "Mul n two > end", "Slice a zero end zero > y",
                                      tensors=[ints("t", -1, 4), ints("two", 2), ints("zero", 0)]))
    save("mixed", "cumsum.onnx", graph("CumSum x a > y", tensors=[tensor("a", np.int64(0))]))
    save("mixed", "gather.onnx", graph("Gather x i > y", tensors=[tensor("i", np.int64(0))]))
    save("mixed", "transposing_reshape.onnx", graph("Transpose x > a", "Reshape a t > y", x=("N", 3), tensors=[ints("t", -1, 3)]))
    save("mixed", "orders.onnx", graph(
        "Reshape x t > a", "Transpose x > b | perm=[1,0,2]", "Reshape b t > c", "Add a c > y", tensors=[ints("t", -1, 4)]))
    save("mixed", "gemm.onnx", graph("Gemm x x > y | transA=1", x=("N", 3)))
    save("mixed", "pool.onnx", graph("GlobalAveragePool x > y", x=(3, 4, "N")))
    save("mixed", "matmul.onnx", graph("Transpose x > a", "MatMul a x > y", x=("N", 3)))
    save("mixed", "einsum.onnx", graph("Einsum x x > y | equation='ni,nj->ij'", x=("N", 3)))
    save("mixed", "split.onnx", graph("Tile x r > a", "Reshape a t > b", "Split b > y z | num_outputs=2",
                                      tensors=[ints("r", 1, 2, 1), ints("t", -1, 4)]))
    save("mixed", "argmax.onnx", graph("ArgMax x > y", dtype=I64))
    save("mixed", "layer_norm.onnx", graph("LayerNormalization x w > y | axis=0", x=("N", 3), tensors=[floats("w", 3)]))
    save("mixed", "trilu.onnx", graph("Trilu x > y", x=("N", 3)))
    save("mixed", "elements.onnx", graph("GatherElements x i > y", x=("N", 3), tensors=[tensor("i", np.zeros((1, 3), np.int64))]))
    save("mixed", "scatter.onnx", graph("ScatterND x i u > y", x=("N", 3), tensors=[tensor("i", np.zeros((1, 1), np.int64)), floats("u", 1, 3)]))
    save("mixed", "plane.onnx", graph("InstanceNormalization x p p > y", x=(2, 3, "N"), tensors=[floats("p", 3)]))
    save("mixed", "weights.onnx", graph("LayerNormalization w x > y | axis=0", x=("N",), tensors=[floats("w", 3)]))
    save("mixed", "lstm_time.onnx", graph("LSTM x W R > a y | hidden_size=2", x=("N", 3, 4),
                                          tensors=[floats("W", 1, 8, 4), floats("R", 1, 8, 2)]))
    # Means over the batch that are no loss.
    save("mixed", "loss_root.onnx", graph("ReduceMean x > a | keepdims=0", "Sqrt a > y"))
    save("mixed", "loss_square.onnx", graph("ReduceMean x > a | keepdims=0", "Mul a a > y"))
    save("mixed", "loss_spread.onnx", graph("ReduceMean x > a | keepdims=0", "Sub x a > y"))
    save("mixed", "loss_inverse.onnx", graph("ReduceMean x > a | keepdims=0", "Div b a > y", tensors=[floats("b")]))
    for name, options in (("sum", "reduction='sum'"), ("ignored", "ignore_index=1")):
        save("mixed", f"loss_{name}.onnx", graph(
            "ArgMax x > l | axis=1 keepdims=0", f"SoftmaxCrossEntropyLoss x l > y | {options}", x=("N", 3)))
    save("mixed", "output_order.onnx", graph("Transpose x > a | perm=[1,0,2]", "Reshape a t > y", tensors=[ints("t", -1, 4)]))


def blocks(norm):
    """Four residual blocks of two convolutions with biases, behind which a norm may be."""
    nodes, tensors, at = [], [floats("fc", 8, 2)], "x"
    for k in range(8):
        tensors += [floats(f"w{k}", 2, 2, 1, 1), floats(f"b{k}", 2)]
        nodes.append(node("Conv", [at if k % 2 == 0 else f"c{k - 1}", f"w{k}", f"b{k}"], [f"c{k}"]))
        if k % 2:
            nodes.append(node("Add", [at, f"c{k}"], [f"a{k}"]))
            at = f"a{k}"
    if norm:
        tensors += [floats("scale", 2), floats("shift", 2)]
        nodes.append(node("InstanceNormalization", [at, "scale", "shift"], ["n"]))
        at = "n"
    nodes += [node("Flatten", [at], ["f"]), node("MatMul", ["f", "fc"], ["y"])]
    return make(nodes, [value("x", ["N", 2, 2, 2])], [Y], tensors)


def modes():
    """Two batch-norms, of which the second is in evaluation mode."""
    statistics = [floats(name, 3) for name in ("a", "b", "c", "d", "e", "f", "g", "h")]
    nodes = [node("BatchNormalization", ["x", "a", "b", "c", "d"], ["n", "m", "v"], training_mode=1),
             node("BatchNormalization", ["n", "e", "f", "g", "h"], ["o"], name="still"),
             node("MatMul", ["o", "w"], ["y"])]
    return make(nodes, [X], [Y], [*statistics, floats("w", 3, 2)])


def momentum():
    """A batch-norm as PyTorch's older exporter writes momentum=None."""
    statistics = [floats(name, 3) for name in ("a", "b", "c", "d")]
    nodes = [node("BatchNormalization", ["x", "a", "b", "c", "d"], ["n", "m", "v"], name="all", training_mode=1,
                  momentum=0.0),
             node("MatMul", ["n", "w"], ["y"])]
    return make(nodes, [X], [Y], [*statistics, floats("w", 3, 2)])


def remarked():
    """Files about which a model has a remark, and one like them about which it has none."""
    save("remarked", "merged.onnx", blocks(norm=False))
    save("remarked", "normed.onnx", blocks(norm=True))
    save("remarked", "modes.onnx", modes())
    save("remarked", "momentum.onnx", momentum())
    unbiased = graph("MatMul x w > a", "Add a e > b", "MatMul b u > y", x=("N", 3),
                     tensors=[floats("w", 3, 3), floats("u", 3, 2), tensor("e", np.float32(0.001))])
    biased = graph("MatMul x w > a", "Add a c > b", "Add b c > d", "MatMul d u > y", x=("N", 3),
                   tensors=[floats("w", 3, 3), tensor("c", np.zeros(3, np.float32)), floats("u", 3, 2)])
    for producer, name, model in (("tf2onnx", "unbiased", unbiased), ("jax2onnx", "unbiased_jax", unbiased),
                                  ("", "twice", biased), ("jax2onnx", "twice_jax", biased)):
        model.producer_name = producer
        save("remarked", f"{name}.onnx", model)
    nodes = [node("MatMul", ["x", "w"], ["y"]), node("MatMul", ["x", "u"], ["z"])]
    save("remarked", "outputs.onnx", make(nodes, [X], [Y, value("z", ["N", 2])], [floats("w", 3, 2), floats("u", 3, 2)]))


if __name__ == "__main__":
    good()
    bad()
    shapes()
    refused()
    parallel()
    mixed()
    remarked()
