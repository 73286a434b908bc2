#!/usr/bin/env python3
"""Runs the node tests of the package onnx through the import of dptrain.

    node_tests.py PROGRAM DEVICES [--table FILE] [--keep FOLDER] [--only WORD] [--list]

PROGRAM is test-onnx-predict-list.  dptrain wants a batch axis, a parameter and one output, which a
node test does not have.  Therefore each test is wrapped: the inputs are parts of one record, which
is multiplied by a parameter of ones; axes move up by one where the test has no batch; the outputs
are flattened and joined.  Results are compared with those of the package: a float within 1e-4 of
the largest, an integer or a bool exactly.  Every test of a named operator is counted as passed, left
out (with a reason) or failed.  Exit status: 1 if a test has failed.
"""

import argparse
import collections
import os
import re
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

# The operators of the specification, with those that the documents call trainable.
NAMED = set(
    """Abs Acos Acosh Add And ArgMax ArgMin Asin Asinh Atan Atanh Attention AveragePool BatchNormalization Bernoulli Cast CastLike Ceil
    Celu Clip Col2Im Concat Constant ConstantOfShape Conv ConvTranspose Cos Cosh CumSum DepthToSpace Div Dropout
    Einsum Elu Equal Erf Exp Expand EyeLike Flatten Floor GRU Gather GatherElements GatherND Gelu Gemm
    GlobalAveragePool GlobalLpPool GlobalMaxPool Greater GreaterOrEqual GroupNormalization HardSigmoid HardSwish
    Hardmax Identity InstanceNormalization IsInf IsNaN LRN LSTM LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax
    LpNormalization LpPool MatMul Max MaxPool Mean Min Mish Mod Mul Neg NonZero Not OneHot Or PRelu Pad Pow RMSNormalization RNN Range
    Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd
    ReduceSum ReduceSumSquare Relu Reshape Resize Round ScatterElements ScatterND Selu Shape Sigmoid
    Sign Sin Sinh Size Slice Softmax Softplus Softsign SpaceToDepth Split SplitToSequence Sqrt Squeeze Sub
    Sum Swish Tan Tanh ThresholdedRelu Tile TopK Transpose Trilu Unsqueeze Where Xor""".split()
)
# Inputs that are initialisers: all from this position on.  The others are data.
CONSTANTS_FROM = collections.defaultdict(
    lambda: 99,
    Clip=1, Col2Im=1, PRelu=1, Dropout=1, Gather=1, OneHot=1, TopK=1, Slice=1, Pad=1, Tile=1, Expand=1,
    Reshape=1, Squeeze=1, Unsqueeze=1, Split=1, CumSum=1, LayerNormalization=1, RMSNormalization=1,
    NonZero=0, EyeLike=0, Trilu=1, ConstantOfShape=0, Range=0, Constant=0, Shape=0, Size=0, CastLike=1,
)  # fmt: skip
BATCH_IN_FRONT = set(
    """Attention AveragePool BatchNormalization Col2Im Conv ConvTranspose DepthToSpace GlobalAveragePool
    GlobalLpPool GlobalMaxPool GroupNormalization InstanceNormalization LRN LpPool MaxPool Resize SpaceToDepth Flatten Gemm"""
    .split()
)
RECURRENT = {"GRU", "LSTM", "RNN"}
BROADCAST = set(
    """Add And Div Equal Mod Greater GreaterOrEqual Less LessOrEqual Max Mean Min Mul Or Pow Sub Sum Where
    Xor MatMul""".split()
)
FIRST_OPSET = 13
# The expected numbers of these tests have four digits.
ROUNDED = {"test_averagepool_2d_ceil_last_window_starts_on_pad": 1e-3}
# What dptrain is known to compute otherwise.
OTHERWISE = {
    "test_resize_downsample_scales_linear_align_corners":
        "Resize with align_corners and an extent that is rounded: the test has 3.142857 where ONNX "
        "Runtime and dptrain have 4",
    "test_resize_downsample_scales_cubic_align_corners":
        "Resize with align_corners and an extent that is rounded: the test has 2.395192 where ONNX "
        "Runtime and dptrain have 2.5",
}  # fmt: skip
TYPES = {np.dtype(t) for t in ("float32", "int32", "int64", "bool")}
# Types whose data are read as another one, which holds their values: all of them, or those of the test
# within the tolerance.
READ_AS = dict(float64="float32", float16="float32", bfloat16="float32", int8="int32", int16="int32",
               uint8="int32", uint16="int32", uint32="int64", uint64="int64")  # fmt: skip
# The package rounds these results to the type of the test: so much of the largest may differ.
ROUNDED_TO = dict(float16=2e-3, bfloat16=2e-2)
# Their meaning is the type.
OF_TYPES = {"Cast", "CastLike", "Bernoulli"}
OTHER_TYPE = "a type that is not float32, int32, int64 or bool"


class LeftOut(Exception):
    """The test cannot be wrapped; the message is the reason."""


class Wrapped:
    """A network of dptrain around the node of a test."""

    def __init__(self, case):
        self.case = case
        self.graph = case.model.graph
        inputs, outputs = case.data_sets[0]
        for value in list(inputs) + list(outputs):
            if isinstance(value, TensorProto):
                raise LeftOut(OTHER_TYPE)
            if not isinstance(value, (np.ndarray, np.generic, bool, int, float)):
                raise LeftOut("a sequence or an optional value")
        self.read_as = set()  # the types of the test that are read as others
        may = not any(case.name.startswith("test_" + op.lower()) for op in OF_TYPES)
        self.given = {i.name: self.read(v, may) for i, v in zip(self.graph.input, inputs)}
        self.expected = {o.name: self.read(v, may) for o, v in zip(self.graph.output, outputs)}
        for a in list(self.given.values()) + list(self.expected.values()):
            if a.size == 0 and a.ndim != 1:
                raise LeftOut("a tensor without elements")
        for a in self.expected.values():
            if a.size == 0:
                raise LeftOut("a tensor without elements")
        self.nodes, self.initialisers, self.data = [], [], []  # data: name, array, batch axis
        self.out_axes = {}  # of each output, the batch axis; None: added in front

    def read(self, value, may):
        """The array of a value, in a type that dptrain takes."""
        array = np.asarray(value)
        if array.dtype in TYPES:
            return array
        if array.dtype.name not in READ_AS or not may:
            raise LeftOut(OTHER_TYPE)
        self.read_as.add(array.dtype.name)
        to = READ_AS[array.dtype.name]
        read = array.astype(to)
        if array.dtype.kind in "iu" and not (read.astype(array.dtype) == array).all():
            raise LeftOut(OTHER_TYPE)
        return read

    def allowed(self):
        """The difference that is allowed, as a part of the largest."""
        return max([ROUNDED.get(self.case.name, 1e-4)] + [ROUNDED_TO.get(t, 0) for t in self.read_as])

    def retyped(self, node):
        """A node of a function body whose types are those that are read."""
        names = {helper.np_dtype_to_tensor_dtype(np.dtype(t)): helper.np_dtype_to_tensor_dtype(
            np.dtype(READ_AS[t])) for t in self.read_as}
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        for a in copy.attribute:
            if a.name in ("to", "dtype") and a.i in names:
                a.i = names[a.i]
            elif a.type == onnx.AttributeProto.TENSOR and a.t.data_type in names:
                to = helper.tensor_dtype_to_np_dtype(names[a.t.data_type])
                a.t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(a.t).astype(to)))
        return copy

    def constant(self, name, array):
        self.initialisers.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def add(self, op, inputs, output, **attributes):
        self.nodes.append(helper.make_node(op, inputs, [output], **attributes))
        return output

    def shape_to(self, name, source, shape):
        return self.add("Reshape", [source, self.constant(name + "_shape", np.int64(shape))], name)

    def record(self):
        """(samples, numbers): what the network reads."""
        parts = []
        for _, array, axis in self.data:
            a = array[None] if axis is None else np.moveaxis(array, axis, 0)
            parts.append(a.reshape(a.shape[0], -1).astype(np.float32))
        if not parts:
            parts = [np.zeros((1, self.width()), np.float32)]
        x = np.concatenate(parts, axis=1)
        return x if x.shape[1] > 1 else np.concatenate([x, x], axis=1)

    def results(self):
        """(samples, numbers): what the network must compute, and which numbers are integers."""
        parts, exact = [], []
        for name, array in self.expected.items():
            axis = self.out_axes.get(name)
            a = array[None] if axis is None else np.moveaxis(array, axis, 0)
            a = a.reshape(a.shape[0], -1)
            parts.append(a.astype(np.float64))
            exact += [array.dtype.kind != "f"] * a.shape[1]
        return np.concatenate(parts, axis=1), np.array(exact)

    def width(self):
        return sum(a.size for a in self.expected.values())

    def feed(self, width):
        """Cuts the record into the inputs of the node."""
        self.constant("weight", np.ones(width, np.float32))
        self.add("Mul", ["record", "weight"], "weighted")
        at = 0
        for name, array, axis in self.data:
            moved = array.shape if axis is None else np.moveaxis(array, axis, 0).shape[1:]
            size = int(np.prod(moved))
            part = "weighted"
            if size != width:
                ends = [self.constant(f"{name}_{w}", np.int64([v]))
                        for w, v in (("from", at), ("to", at + size), ("axis", 1))]
                part = self.add("Slice", ["weighted"] + ends, name + "_part")
            at += size
            steps = [("Reshape", None)]
            if axis:
                order = list(range(1, axis + 1)) + [0] + list(range(axis + 1, array.ndim))
                steps.append(("Transpose", order))
            if array.dtype != np.float32:
                steps.append(("Cast", helper.np_dtype_to_tensor_dtype(array.dtype)))
            for i, (op, what) in enumerate(steps):
                out = name if i == len(steps) - 1 else f"{name}_{i}"
                if op == "Reshape":
                    part = self.shape_to(out, part, (-1,) + tuple(moved))
                elif op == "Transpose":
                    part = self.add(op, [part], out, perm=what)
                else:
                    part = self.add(op, [part], out, to=what)

    def gather(self):
        """Joins the outputs of the node."""
        parts = []
        for name, array in self.expected.items():
            axis, value = self.out_axes.get(name), name
            if array.dtype != np.float32:
                value = self.add("Cast", [value], name + "_real", to=TensorProto.FLOAT)
            if axis:
                order = [axis] + [i for i in range(array.ndim) if i != axis]
                value = self.add("Transpose", [value], name + "_moved", perm=order)
            width = array.size // (1 if axis is None else array.shape[axis])
            parts.append(self.shape_to(name + "_flat", value, (-1 if self.data else 1, width)))
        if len(parts) > 1:
            parts = [self.add("Concat", parts, "joined", axis=1)]
        if not self.data:
            ends = [self.constant(f"record_{i}", np.int64([v])) for i, v in
                    enumerate((0, self.width(), 1))]
            part = self.add("Slice", ["weighted"] + ends, "record_part")
            parts = [self.add("Add", [part, parts[0]], "added")]
        return parts[0]

    def opsets(self):
        """Those of the test.  One before the first that dptrain takes becomes the first where the
        operator has not changed between them, or last changed in the first."""
        opsets = [helper.make_opsetid(o.domain, o.version) for o in self.case.model.opset_import]
        for o in opsets:
            ops = {n.op_type for n in self.graph.node}
            if o.domain in ("", "ai.onnx") and o.version < FIRST_OPSET and all(
                onnx.defs.get_schema(op, FIRST_OPSET).since_version
                in (onnx.defs.get_schema(op, o.version).since_version, FIRST_OPSET)
                for op in ops
            ):
                o.version = FIRST_OPSET
        return opsets

    def model(self):
        inner = self.nodes
        self.nodes = []
        width = self.record().shape[1]
        self.feed(width)
        self.nodes += inner
        last = self.gather()
        result = self.results()[0].shape[1]
        graph = helper.make_graph(
            self.nodes, "node_test",
            [helper.make_tensor_value_info("record", TensorProto.FLOAT, ["N", width])],
            [helper.make_tensor_value_info(last, TensorProto.FLOAT, ["N", result])],
            self.initialisers)  # fmt: skip
        model = helper.make_model(graph, opset_imports=self.opsets())
        model.ir_version = max(self.case.model.ir_version, 7)
        model.functions.extend(self.case.model.functions)
        return model


def attributes_of(node):
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def up(axes):
    return [int(a) + 1 if a >= 0 else int(a) for a in np.ravel(axes)]


def shift_attributes(op, values, attributes, rank):
    """Moves the axes in the attributes behind a batch axis."""
    if op == "Transpose":
        order = attributes.get("perm", list(range(rank))[::-1])
        attributes["perm"] = [0] + [p + 1 for p in order]
    elif op == "Einsum":
        equation = attributes["equation"].decode().replace(" ", "")
        left, _, right = equation.partition("->")
        if "->" not in equation:
            letters = left.replace("...", "").replace(",", "")
            right = "..." * ("..." in left) + "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
        attributes["equation"] = ",".join("Z" + t for t in left.split(",")) + "->Z" + right
    elif op in ("Split", "Gather", "GatherElements", "ScatterElements", "ArgMax", "ArgMin"):
        attributes["axis"] = up([attributes.get("axis", 0)])[0]
    elif "axis" in attributes:
        attributes["axis"] = up([attributes["axis"]])[0]
    if "axes" in attributes:
        attributes["axes"] = up(attributes["axes"])
    if op.startswith("Reduce") and len(values) < 2 and "axes" not in attributes:
        if not attributes.get("noop_with_empty_axes", 0):
            values.append(np.arange(1, rank + 1))
    if op in ("GatherND", "ScatterND"):
        attributes["batch_dims"] = attributes.get("batch_dims", 0) + 1


def shift_constants(op, values, x, expected):
    """Moves the axes in the constant inputs behind a batch axis."""
    rank = x.ndim
    if op.startswith("Reduce") and len(values) > 1 and values[1] is not None:
        values[1] = np.int64(up(values[1]) if values[1].size else range(1, rank + 1))
    elif op in ("Unsqueeze", "CumSum"):
        shape = values[1].shape
        values[1] = np.int64(up(values[1])).reshape(shape)
        if op == "Unsqueeze":  # negative axes count from the end of the result
            values[1] = np.int64(values[1])
    elif op == "Squeeze":
        axes = [i for i, n in enumerate(x.shape) if n == 1] if len(values) < 2 else values[1]
        values[1:] = [np.int64(up(axes))]
    elif op == "Slice":
        while len(values) < 4:
            values.append(None)
        axes = np.arange(values[1].size) if values[3] is None else values[3]
        values[3] = np.int64(up(axes))
    elif op == "Pad":
        pads = values[1]
        if len(values) > 3 and values[3] is not None:
            values[3] = np.int64(up(values[3]))
        else:
            half = pads.size // 2
            values[1] = np.int64([0, *pads[:half], 0, *pads[half:]])
    elif op == "Tile":
        values[1] = np.int64([1, *values[1]])
    elif op == "Reshape":
        shape = list(values[1])
        values[1] = np.int64([0, *shape] if -1 in shape or 0 in shape else [-1, *shape])
    elif op == "Expand":
        values[1] = np.int64([1] + [1] * (expected.ndim - values[1].size) + list(values[1]))


def wrap_shifted(w, node, values, attributes):
    """A node that gets a batch axis in front of the axes of the test."""
    op = node.op_type
    first = CONSTANTS_FROM[op]
    if op.startswith("Reduce"):
        first = 1
    expected = next(iter(w.expected.values()))
    if first > 0:
        rank = values[0].ndim
        if op == "MatMul" and min(v.ndim for v in values) == 1:
            first = 1
        elif op in BROADCAST:
            rank = max(v.ndim for v in values)
            values = [v.reshape((1,) * (rank - v.ndim) + v.shape) for v in values]
        elif op == "Expand":
            values[0] = values[0].reshape((1,) * (expected.ndim - rank) + values[0].shape)
        if op == "Reshape" and attributes.get("allowzero") and 0 in values[1]:
            raise LeftOut("a tensor without elements")
        had_axes = op.startswith("Reduce") and len(values) > 1 and values[1] is not None
        if op.startswith("Reduce") and had_axes and values[1].size == 0:
            if attributes.get("noop_with_empty_axes", 0):
                values, had_axes = values[:1], False
        if had_axes or not op.startswith("Reduce"):
            shift_constants(op, values, values[0], expected)
        shift_attributes(op, values, attributes, rank)
    return values, attributes, {i: None for i in range(min(first, len(values)))}


def wrap_batch(w, node, values, attributes):
    """A node whose first axis is the batch."""
    op = node.op_type
    data = {0: 0}
    if op == "Attention":
        n = values[0].shape[0]
        data = {i: 0 for i, v in enumerate(values)
                if v is not None and (v.ndim >= 3 or i == 6) and v.shape[0] == n and (i != 3 or v.ndim == 4)}
    if op == "BatchNormalization" and attributes.get("training_mode"):
        raise LeftOut("batch-norm in training mode: a prediction uses the running statistics")
    if op == "Gemm" and attributes.get("transA"):
        data = {0: 1}
    if op == "Gemm" and len(values) > 2 and values[2].ndim == 2 and values[2].shape[0] > 1:
        data[2] = 0
    if op == "Flatten" and attributes.get("axis", 1) not in (1, 1 - values[0].ndim):
        raise LeftOut("Flatten that joins the batch with another axis")
    if op == "Resize" and "axes" not in attributes:
        for i in (2, 3):
            if i < len(values) and values[i] is not None and values[i].size:
                if values[i][0] not in (1, values[0].shape[0]):
                    raise LeftOut("Resize of the batch")
                values[i] = values[i][1:]
        if len(values) > 1 and values[1] is not None and values[1].size:
            r = values[0].ndim
            values[1] = np.concatenate([values[1][1:r], values[1][r + 1:]])
        attributes["axes"] = list(range(1, values[0].ndim))
    w.out_axes = {o: 0 for o in w.expected}
    return values, attributes, data


def wrap_scatter_nd(w, node, values, attributes):
    """The indices reach the first axes, so that the batch becomes the last axis of the data."""
    for i in (0, 2):
        name = f"in{i}"
        w.data.append((name, values[i], None))
        w.add("Transpose", [name], name + "_last", perm=list(range(1, values[i].ndim + 1)) + [0])
    at = w.constant("in1", values[1])
    w.add("ScatterND", ["in0_last", at, "in2_last"], "last", **attributes)
    rank = values[0].ndim
    w.add("Transpose", ["last"], node.output[0], perm=[rank] + list(range(rank)))
    return w


def wrap_recurrent(w, node, values, attributes):
    """A recurrent layer, whose batch is the second axis unless the layout says otherwise."""
    front = attributes.get("layout", 0)
    data = {0: 0 if front else 1}
    for i in (5, 6):
        if i < len(values) and values[i] is not None:
            data[i] = 0 if front else 1
    for i, name in enumerate(node.output):
        if name:
            w.out_axes[name] = 0 if front else (2 if i == 0 else 1)
    return values, attributes, data


def wrap_single(case):
    w = Wrapped(case)
    node = w.graph.node[0]
    attributes = attributes_of(node)
    if case.name in OTHERWISE:
        raise LeftOut(OTHERWISE[case.name])
    if case.name.startswith("test_training_dropout"):
        raise LeftOut("Dropout in training mode: a prediction drops nothing")
    values = [np.array(w.given[i]) if i else None for i in node.input]
    if node.op_type == "ScatterND":
        return wrap_scatter_nd(w, node, values, attributes)
    if node.op_type in RECURRENT:
        rule = wrap_recurrent
    else:
        rule = wrap_batch if node.op_type in BATCH_IN_FRONT else wrap_shifted
    values, attributes, data = rule(w, node, values, attributes)
    names = []
    for i, v in enumerate(values):
        names.append("" if v is None else f"in{i}")
        if v is not None and i in data:
            w.data.append((names[-1], v, data[i]))
        elif v is not None:
            w.constant(names[-1], v)
    if not w.data and CONSTANTS_FROM[node.op_type] > 0:
        raise LeftOut("no input can be data")
    inner = helper.make_node(node.op_type, names, list(node.output), domain=node.domain, **attributes)
    w.nodes.append(w.retyped(inner))
    return w


def wrap_body(case):
    """The function body of an operator: its first axis is taken as the batch."""
    w = Wrapped(case)
    extents = {a.shape[:1] for a in w.expected.values()}
    first = next(iter(w.given.values()))
    if len(extents) > 1 or not first.ndim or first.shape[:1] not in extents:
        raise LeftOut("a function body without an axis that all values have in front")
    n = first.shape[0]
    rank = max(a.ndim for a in w.given.values())
    attention = case.name.startswith("test_attention")
    for name, array in w.given.items():
        if attention:
            is_data = array.ndim >= (4 if name == "attn_mask" else 3)
        else:
            is_data = array.ndim == rank
        if is_data and array.shape[0] == n:
            w.data.append((name, array, 0))
        else:
            w.constant(name, array)
    w.out_axes = {o: 0 for o in w.expected}
    for node in w.graph.node:
        w.nodes.append(w.retyped(node))
    for tensor in w.graph.initializer:
        w.initialisers.append(tensor)
    return w


def wrap(case):
    return wrap_body(case) if "_expanded" in case.name else wrap_single(case)


def operators(cases):
    """The operator of each test; a function body counts for the operator that it stands for."""
    single = {c.name: c.model.graph.node[0].op_type for c in cases
              if len(c.model.graph.node) == 1 and "_expanded" not in c.name}
    return {c.name: single.get(c.name.split("_expanded")[0]) for c in cases}


def run_list(program, devices, entries, folder):
    """Returns the line of the program for each entry.  A crash is the line of its entry."""
    lines = []
    while len(lines) < len(entries):
        path = os.path.join(folder, "list")
        with open(path, "w") as f:
            f.writelines(" ".join(map(str, e)) + "\n" for e in entries[len(lines):])
        done = subprocess.run([program, devices, path], stdout=subprocess.PIPE, text=True)
        got = [l for l in done.stdout.split("\n") if l.startswith(("ok ", "refused "))]
        lines += got
        if len(lines) < len(entries):
            lines.append(f"crashed with status {done.returncode}")
            if not got and done.returncode == 1:
                sys.exit(f"{program} {devices}: cannot begin")
    return lines


def compare(got, expected, exact, allowed=1e-4):
    """A message of the largest difference, or None."""
    same = (got == expected) | (np.isnan(got) & np.isnan(expected))
    if same.all():
        return None
    finite = np.abs(expected[np.isfinite(expected)])
    scale = finite.max() if finite.size else 1.0
    limit = np.where(exact, 0.0, allowed * scale)
    with np.errstate(invalid="ignore"):
        wrong = ~same & ~(np.abs(got - expected) <= limit)
    if not wrong.any():
        return None
    at = tuple(np.argwhere(wrong)[0])
    return (f"{wrong.sum()} of {wrong.size} numbers differ, the first is {got[at]:.9g} and not "
            f"{expected[at]:.9g}; the largest is {scale:.9g}")


def reason_of(line):
    """The message of a refusal without the names of the file and its node."""
    text = re.sub(r'^refused \S+?\.onnx: ', "", line)
    text = re.sub(r"^node ", "", re.sub(r"#\d+ ", "", text))
    return re.sub(r'"[^"]*"|\[[^]]*\]', "...", text).strip()


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("program")
    p.add_argument("devices")
    p.add_argument("--table")
    p.add_argument("--keep")
    p.add_argument("--only", default="")
    p.add_argument("--list", action="store_true", help="prints each test that is left out")
    return p.parse_args()


def collect(only):
    from onnx.backend.test.case.node import collect_testcases

    warnings.filterwarnings("ignore")
    cases = collect_testcases(None)
    of = operators(cases)
    return [c for c in cases if of[c.name] in NAMED and only in c.name], of


def make_files(cases, folder):
    """Writes the networks; returns the entries of the list, their tests, and the reasons of the
    others."""
    entries, wraps, left = [], [], {}
    for case in cases:
        try:
            w = wrap(case)
            model, record = w.model(), w.record()
        except LeftOut as reason:
            left[case.name] = str(reason)
            continue
        base = os.path.join(folder, case.name)
        onnx.save(model, base + ".onnx")
        copies = [1] if w.data and w.data[0][2] is not None else [1, 3]
        for n in copies:
            np.tile(record, (n, 1)).tofile(f"{base}.{n}.in")
            entries.append((base + ".onnx", n * len(record), f"{base}.{n}.in", f"{base}.{n}.out"))
            wraps.append((case.name, w, n))
    return entries, wraps, left


def judge(entries, wraps, lines, left):
    """Returns the failures; adds the refusals to those left out."""
    failed = {}
    for entry, (name, w, n), line in zip(entries, wraps, lines):
        if line.startswith("refused "):
            left.setdefault(name, reason_of(line))
        elif not line.startswith("ok "):
            failed.setdefault(name, line)
        else:
            expected, exact = w.results()
            expected = np.tile(expected, (n, 1))
            got = np.fromfile(entry[3], np.float32).astype(np.float64)
            if got.size != expected.size:
                failed.setdefault(name, f"{got.size} numbers and not {expected.size}")
                continue
            wrong = compare(got.reshape(expected.shape), expected, exact, w.allowed())
            if wrong:
                failed.setdefault(name, wrong)
    return failed


def write_table(path, run, devices):
    cases, of, left, failed, other = run
    rows = collections.defaultdict(lambda: [0, 0, 0, collections.Counter(), 0])
    for case in cases:
        row = rows[of[case.name]]
        which = 1 if case.name in left else 2 if case.name in failed else 0
        row[which] += 1
        row[4] += which == 0 and case.name in other
        if which == 1:
            row[3][left[case.name]] += 1
    total = [sum(r[i] for r in rows.values()) for i in range(3)]
    reasons = collections.Counter()
    for r in rows.values():
        reasons.update(r[3])
    numbers = {reason: i + 1 for i, (reason, _) in enumerate(reasons.most_common())}
    with open(path, "w") as f:
        f.write(HEAD.format(version=onnx.__version__, devices=devices, passed=total[0],
                            left=total[1], failed=total[2], all=sum(total), other=sum(r[4] for r in rows.values())))
        f.write("| operator | passed | of these read as another type | left out | failed | reasons |\n"
                "|---|---|---|---|---|---|\n")
        for op in sorted(rows):
            r = rows[op]
            why = ", ".join(f"{numbers[k]} ({n})" for k, n in r[3].most_common())
            f.write(f"| `{op}` | {r[0]} | {r[4] or ''} | {r[1]} | {r[2]} | {why} |\n")
        f.write("\n## Reasons\n\nA reason that begins with the name of an operator in parentheses is the "
                "message of dptrain\nfor a node.\n\n| number | tests | reason |\n|---|---|---|\n")
        for reason, n in reasons.most_common():
            f.write(f"| {numbers[reason]} | {n} | {reason.replace('|', '/')} |\n")


HEAD = """# The node tests of ONNX

The package `onnx` has a test for each operator: a model, its inputs and its outputs. `tests/onnx/node_tests.py` runs
them through the import and the predictor of dptrain, and writes this page:

    export DPTRAIN_BACKEND_PATH=build/lib/dptrain
    tests/onnx/node_tests.py build/tests/bin/test-onnx-predict-list DEVICES --table docs/onnx-nodes.md

DEVICES is a device list, or several with `;` between them. The script needs NumPy and onnx.

The script wraps each test into a network that dptrain takes. The inputs are parts of one record, which a parameter of
ones multiplies. Where a test has no batch, the script moves its axes up by one. It then predicts one sample, and three
equal samples. A floating-point result may differ by 1e-4 of the largest, an integer not at all. In one test of
`AveragePool` (`ceil_last_window_starts_on_pad`) the package has 0.1511 for 0.15106: there 1e-3 is allowed. A test whose
name ends in `_expanded` is the function body of an operator. The test counts for this operator, and its first axis is
the batch.

Of {all} tests of these operators {passed} passed, {left} were left out and {failed} failed (onnx {version}, on {devices}).
The column of reasons gives the numbers of the table below, each with the number of tests.

{other} of the passed tests have data of a type that dptrain does not take. Their data are read as another type, in which
the operator means the same: float64, float16 and bfloat16 as float32; int8, int16, uint8 and uint16 as int32; uint32 and
uint64 as int64. The package rounds results to float16 or bfloat16; there 2e-3 or 2e-2 of the largest is allowed. A test
whose result depends on the type, such as a cast or a sum that leaves the range of its type, is left out.

"""


def main():
    options = arguments()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or scratch
        os.makedirs(folder, exist_ok=True)
        cases, of = collect(options.only)
        entries, wraps, left = make_files(cases, folder)
        failed = {}
        other = {name for name, w, _ in wraps if w.read_as}
        for devices in options.devices.split(";"):
            lines = run_list(options.program, devices, entries, folder)
            for name, why in judge(entries, wraps, lines, left).items():
                failed.setdefault(name, f"{devices}: {why}")
        left = {name: why for name, why in left.items() if name not in failed}
        if options.list:
            for name, why in sorted(left.items()):
                print(f"left out {name}: {why}")
        for name, why in sorted(failed.items()):
            print(f"FAILED {name}: {why}")
        print(f"{len(cases)} tests: {len(cases) - len(left) - len(failed)} passed, "
              f"{len(left)} left out, {len(failed)} failed")
        if options.table:
            devices = " and ".join(f"`{d}`" for d in options.devices.split(";"))
            write_table(options.table, (cases, of, left, failed, other), devices)
        return 1 if failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
