#!/usr/bin/env python3
"""Writes tests/onnx/recurrent: recurrent layers that PyTorch does not write, and what they compute.

    make_recurrent.py      needs onnx 1.23.2, onnxruntime 1.32.0, numpy

NAME.f32 holds the outputs for the samples in x.f32, as ONNX Runtime computes them, or onnx's reference where ONNX
Runtime has no such operator (layout 1).  NAMES in REFUSED cannot be trained (tests/train/test_onnx.c).
"""
import os

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

SAMPLES, LENGTH, IN, HIDDEN = 3, 5, 4, 6
GATES = {"RNN": 1, "LSTM": 4, "GRU": 3}
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "recurrent")
# name: operator, output, length of the sequences (0: not given), attributes
CASES = {
    "gru_before": ("GRU", 0, 0, {"linear_before_reset": 0}),
    "gru_before_both": ("GRU", 0, 0, {"linear_before_reset": 0, "direction": "bidirectional"}),
    "gru_reverse": ("GRU", 0, 0, {"linear_before_reset": 1, "direction": "reverse"}),
    "gru_state": ("GRU", 1, 0, {"linear_before_reset": 1, "direction": "bidirectional"}),
    "lstm_both": ("LSTM", 0, 0, {"direction": "bidirectional"}),
    "lstm_cell": ("LSTM", 2, 0, {"direction": "bidirectional"}),
    "lstm_reverse_cell": ("LSTM", 2, 0, {"direction": "reverse"}),
    "lstm_activations": ("LSTM", 1, 0, {"activations": ["Sigmoid", "Relu", "Tanh"]}),
    "rnn_both": ("RNN", 0, 0, {"activations": ["Tanh", "Relu"], "direction": "bidirectional"}),
    "lengths_both": ("LSTM", 0, 3, {"direction": "bidirectional"}),
    "lengths_state": ("GRU", 1, 3, {"direction": "bidirectional"}),
    "layout": ("LSTM", 0, 0, {"layout": 1}),
    "layout_state": ("GRU", 1, 0, {"layout": 1}),
}
REFUSED = {
    "clip": ("LSTM", 0, 0, {"clip": 1.0}),
    "activation": ("RNN", 0, 0, {"activations": ["Elu"]}),
}


# The same for two sequences a sample, folded into the batch: those of x, and those with the other sign.
FOLDED = {
    "folded_both": ("LSTM", 2, 0, {"direction": "bidirectional"}),
    "folded_before": ("GRU", 0, 0, {"linear_before_reset": 0, "direction": "reverse"}),
    "folded_lengths": ("LSTM", 0, 3, {"direction": "bidirectional"}),
    "folded_layout": ("GRU", 1, 0, {"layout": 1}),
}


def number(random, name, *shape):
    return numpy_helper.from_array((random.standard_normal(shape) * 0.4).astype("f"), name)


def fold(model, size):
    """The model, whose output has `size` elements a sample, over two sequences a sample."""
    graph = model.graph
    for node in graph.node:
        node.input[:] = ["sequences" if name == "x" else name for name in node.input]
        node.output[:] = ["flat" if name == "y" else name for name in node.output]
    graph.initializer.extend(numpy_helper.from_array(np.array(a), name) for name, a in
                             (("apart", [-1, LENGTH, IN]), ("together", [-1, 2 * size])))
    nodes = [helper.make_node("Neg", ["x"], ["minus"]), helper.make_node("Concat", ["x", "minus"], ["both"], axis=1),
             helper.make_node("Reshape", ["both", "apart"], ["sequences"]), *graph.node,
             helper.make_node("Reshape", ["flat", "together"], ["y"])]
    del graph.node[:]
    graph.node.extend(nodes)
    graph.output[0].type.tensor_type.shape.dim[1].dim_value = 2 * size
    return model


def make(case, random):
    op, output, length, attributes = case
    both = attributes.get("direction") == "bidirectional"
    first, n, rows = attributes.get("layout", 0), 2 if both else 1, GATES[op] * HIDDEN
    tensors = [number(random, "W", n, rows, IN), number(random, "R", n, rows, HIDDEN), number(random, "B", n, 2 * rows),
               number(random, "P", IN, n * HIDDEN), numpy_helper.from_array(np.array([1]), "one"),
               numpy_helper.from_array(np.array([0, n, HIDDEN]), "state")]
    nodes = [helper.make_node("ReduceMean", ["x", "one"], ["m"], keepdims=0),
             helper.make_node("MatMul", ["m", "P"], ["p"]), helper.make_node("Reshape", ["p", "state"], ["h"])]
    inputs = ["x", "W", "R", "B", "", "h"]
    if not first:
        nodes += [helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0, 2]),
                  helper.make_node("Transpose", ["h"], ["g"], perm=[1, 0, 2])]
        inputs[0], inputs[5] = "t", "g"
    if length:
        tensors.append(numpy_helper.from_array(np.array([length], "i4"), "length"))
        nodes += [helper.make_node("Shape", ["x"], ["s"], end=1), helper.make_node("Expand", ["length", "s"], ["l"])]
        inputs[4] = "l"
    nodes.append(helper.make_node(op, inputs, [""] * output + ["r"], hidden_size=HIDDEN, **attributes))
    perm = list(range(4 if output == 0 else 3)) if first else [2, 0, 1, 3] if output == 0 else [1, 0, 2]
    nodes += [helper.make_node("Transpose", ["r"], ["u"], perm=perm), helper.make_node("Flatten", ["u"], ["y"])]
    size = n * HIDDEN * (LENGTH if output == 0 else 1)
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", LENGTH, IN])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", size])], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def projected():
    """An LSTM whose initial cell has one number more than the layer."""
    tensors = [numpy_helper.from_array(np.full(shape, 0.1, "f"), name) for name, shape in
               (("W", (1, 4 * HIDDEN, IN)), ("R", (1, 4 * HIDDEN, HIDDEN)))]
    tensors += [numpy_helper.from_array(np.array(a), name) for name, a in (("one", [1]), ("rest", [HIDDEN + 1]))]
    nodes = [helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0, 2]),
             helper.make_node("Shape", ["x"], ["n"], end=1), helper.make_node("Concat", ["one", "n", "rest"], ["e"], axis=0),
             helper.make_node("ConstantOfShape", ["e"], ["z"]),
             helper.make_node("LSTM", ["t", "W", "R", "", "", "", "z"], ["r"], hidden_size=HIDDEN),
             helper.make_node("Transpose", ["r"], ["u"], perm=[2, 0, 1, 3]), helper.make_node("Flatten", ["u"], ["y"])]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", LENGTH, IN])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", LENGTH * HIDDEN])], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def write(name, model, x, by_runtime):
    path = os.path.join(FOLDER, f"{name}.onnx")
    onnx.save(model, path)
    y = (onnxruntime.InferenceSession(path) if by_runtime else ReferenceEvaluator(model)).run(None, {"x": x})[0]
    y.astype("<f4").tofile(os.path.join(FOLDER, f"{name}.f32"))


def main():
    random = np.random.default_rng(1)
    os.makedirs(FOLDER, exist_ok=True)
    onnx.save(projected(), os.path.join(FOLDER, "projected.onnx"))
    x = random.standard_normal((SAMPLES, LENGTH, IN)).astype("f")
    x.astype("<f4").tofile(os.path.join(FOLDER, "x.f32"))
    for name, case in CASES.items():
        write(name, make(case, random), x, not case[3].get("layout"))
    for name, case in REFUSED.items():
        onnx.save(make(case, random), os.path.join(FOLDER, f"{name}.onnx"))
    for name, case in FOLDED.items():
        directions = 2 if "bidirectional" in case[3].values() else 1
        size = directions * HIDDEN * (LENGTH if case[1] == 0 else 1)
        write(name, fold(make(case, random), size), x, not case[3].get("layout"))


if __name__ == "__main__":
    main()
