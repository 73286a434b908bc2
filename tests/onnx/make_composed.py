#!/usr/bin/env python3
"""Writes tests/onnx/composed: operators that the import composes of others, and what they compute.

    make_composed.py      needs onnx 1.23.2, onnxruntime 1.32.0, numpy

NAME.f32 holds the outputs for the samples in x.f32, as ONNX Runtime computes them.  NAMES in REFUSED cannot be trained
(tests/train/test_onnx.c).
"""
import os

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

SAMPLES, CHANNELS, HEIGHT, WIDTH = 3, 8, 4, 6
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "composed")


def resize(scales=None, sizes=None, **attributes):
    inputs = [np.array(scales, "f"), None] if scales else [None, np.array(sizes, "i8")]
    return "Resize", [None, *inputs], attributes


# name: operator, inputs behind the scaled x, attributes
CASES = {
    "to_space": ("DepthToSpace", [], {"blocksize": 2}),
    "to_space_crd": ("DepthToSpace", [], {"blocksize": 2, "mode": "CRD"}),
    "to_depth": ("SpaceToDepth", [], {"blocksize": 2}),
    "sums": ("CumSum", [np.array(3)], {}),
    "sums_exclusive": ("CumSum", [np.array(-2)], {"exclusive": 1}),
    "sums_reverse": ("CumSum", [np.array(1)], {"reverse": 1}),
    "sums_both": ("CumSum", [np.array(3)], {"exclusive": 1, "reverse": 1}),
    "product": ("ReduceProd", [np.array([1, 3])], {"keepdims": 0}),
    "product_kept": ("ReduceProd", [np.array([-1])], {}),
    "einsum_batch": ("Einsum", ["x"], {"equation": "nchw,ncdw->nchd"}),
    "einsum_outer": ("Einsum", ["x"], {"equation": "nchw, nkhw -> nchkw"}),
    "einsum_order": ("Einsum", ["x"], {"equation": "nchw,nckw->nkhc"}),
    "einsum_weight": ("Einsum", [np.linspace(-1, 1, 8 * 6 * 5, dtype="f").reshape(8, 6, 5)],
                      {"equation": "nchw,cwk->nhk"}),
    "einsum_dots": ("Einsum", [np.linspace(-1, 1, 4 * 6 * 5, dtype="f").reshape(1, 4, 6, 5)], {"equation": "n...w,...wk->n...k"}),
    "einsum_implied": ("Einsum", [np.linspace(-1, 1, 8 * 6 * 5, dtype="f").reshape(1, 8, 6, 5)], {"equation": "...zw,...wk"}),
    "einsum_alphabet": ("Einsum", [], {"equation": "azyx"}),
    "einsum_ones": ("Einsum", [np.linspace(-1, 1, 8 * 6, dtype="f").reshape(8, 1, 6)], {"equation": "nchw,chk->nwkh"}),
    "einsum_diagonal": ("Einsum", [np.linspace(-1, 1, 36 * 8, dtype="f").reshape(6, 8, 6)], {"equation": "nchw,wcw->nch"}),
    "dilated": ("MaxPool", [], {"kernel_shape": [2, 3], "dilations": [2, 1], "pads": [1, 0, 0, 2]}),
    "dilated_ceil": ("MaxPool", [], {"kernel_shape": [2, 3], "dilations": [1, 2], "strides": [2, 2], "pads": [1, 1, 0, 1],
                                     "ceil_mode": 1}),
    "average": ("AveragePool", [], {"kernel_shape": [2, 3], "dilations": [2, 2], "pads": [1, 2, 0, 1]}),
    "power": ("LpPool", [], {"kernel_shape": [2, 3], "strides": [1, 2], "pads": [1, 0, 0, 1], "p": 3}),
    "power_global": ("GlobalLpPool", [], {"p": 1}),
    "reflect": ("Pad", [np.array([0, 0, 2, 1, 0, 0, 3, 5])], {"mode": "reflect"}),
    "edge": ("Pad", [np.array([0, 0, 2, 0, 0, 1, 0, 4])], {"mode": "edge"}),
    "wrap": ("Pad", [np.array([3, 2, 0, 7]), "", np.array([2, 3])], {"mode": "wrap"}),
    "negative": ("Pad", [np.array([0, -1, 2, -2, 0, -3, -1, 1]), np.array(0.5, "f")], {}),
    "enlarged": ("ConvTranspose", [np.linspace(-1, 1, 8 * 2 * 9, dtype="f").reshape(8, 2, 3, 3)],
                 {"strides": [2, 3], "auto_pad": "SAME_LOWER", "group": 2}),
    "enlarged_shape": ("ConvTranspose", [np.linspace(-1, 1, 8 * 2 * 9, dtype="f").reshape(8, 2, 3, 3)],
                       {"strides": [2, 2], "output_shape": [7, 10]}),
    "same": ("Conv", [np.linspace(-1, 1, 4 * 4 * 12, dtype="f").reshape(4, 4, 3, 4)],
             {"strides": [2, 3], "auto_pad": "SAME_UPPER", "group": 2}),
    "linear_half": resize([1, 1, 2, 2], mode="linear"),
    "linear_pytorch": resize(sizes=[SAMPLES, CHANNELS, 1, 9], mode="linear",
                             coordinate_transformation_mode="pytorch_half_pixel"),
    "linear_corners": resize([1, 1, 2, 2], mode="linear", coordinate_transformation_mode="align_corners"),
    "linear_asymmetric": resize([1, 1, 1.6, 0.7], mode="linear", coordinate_transformation_mode="asymmetric"),
    "linear_down": resize([1, 1, 0.6, 0.5], mode="linear"),
    "nearest_floor": resize([1, 1, 1.5, 0.5], mode="nearest", nearest_mode="floor",
                            coordinate_transformation_mode="asymmetric"),
    "nearest_whole": resize([1, 1, 3, 3], mode="nearest", coordinate_transformation_mode="asymmetric"),
    "nearest_ceil": resize([1, 1, 2, 1.5], mode="nearest", nearest_mode="ceil"),
    "linear_symmetric": resize([1, 1, 1.6, 0.7], mode="linear", coordinate_transformation_mode="half_pixel_symmetric"),
    "linear_smooth": resize([1, 1, 0.6, 0.35], mode="linear", antialias=1),
    "cubic": resize([1, 1, 2, 1.7], mode="cubic"),
    "cubic_same": resize([1, 1, 2, 1.15], mode="cubic"),
    "cubic_down": resize([1, 1, 0.6, 0.5], mode="cubic", cubic_coeff_a=-0.5, exclude_outside=1),
    "cubic_corners": resize(sizes=[SAMPLES, CHANNELS, 7, 3], mode="cubic", coordinate_transformation_mode="align_corners"),
    "cubic_asymmetric": resize([1, 1, 1.6, 0.7], mode="cubic", coordinate_transformation_mode="asymmetric"),
    "cubic_smooth": resize([1, 1, 0.6, 1.5], mode="cubic", antialias=1),
    "not_larger": resize(sizes=[7, 9], axes=[2, 3], keep_aspect_ratio_policy="not_larger"),
    "not_smaller": resize(sizes=[2, 9], axes=[2, 3], mode="linear", keep_aspect_ratio_policy="not_smaller"),
}
# name: nodes behind p, tensors; the last output is r
TOP = helper.make_node("TopK", ["p", "k"], ["v", "i"], axis=1)
K = {"k": np.array([3])}
LAST = helper.make_node("ArgMax", ["p"], ["i"], axis=3, keepdims=0)
def scaled(number, op="Mul"):
    """Products of two values, of which a factor, the other one, and the result are scaled."""
    nodes = [helper.make_node("Transpose", ["p"], ["t"], perm=[0, 1, 3, 2]),
             helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.array(number, "f"))),
             helper.make_node(op, ["p", "c"], ["u"]), helper.make_node("MatMul", ["u", "t"], ["a"]),
             helper.make_node(op, ["t", "c"], ["v"]), helper.make_node("MatMul", ["p", "v"], ["b"]),
             helper.make_node("MatMul", ["p", "t"], ["d"]), helper.make_node(op, ["d", "c"], ["e"]),
             helper.make_node("Concat", ["a", "b", "e"], ["r"], axis=1)]
    return nodes, {}


def attention(mode):
    """Attention whose scores are read and scaled."""
    nodes = [helper.make_node("Attention", ["p", "p", "p"], ["o", "", "", "s"], qk_matmul_output_mode=mode),
             helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.array(0.5, "f"))),
             helper.make_node("Mul", ["s", "c"], ["u"]), helper.make_node("Concat", ["o", "u"], ["r"], axis=3)]
    return nodes, {}


GRAPHS = {
    "scaled_zero": scaled(0), "scaled": scaled(-0.3), "divided": scaled(-3, "Div"), "divided_inf": scaled(np.inf, "Div"),
    **{f"attention_{mode}": attention(mode) for mode in (0, 1, 3)},
    "places": ([helper.make_node("ArgMax", ["p"], ["r"], axis=1)], {}),
    "places_last": ([helper.make_node("Round", ["p"], ["t"]),
                     helper.make_node("ArgMin", ["t"], ["r"], axis=1, select_last_index=1)], {}),
    "taken": ([TOP, helper.make_node("GatherElements", ["p", "i"], ["r"], axis=1)], K),
    "norm_values": ([helper.make_node("ReduceMean", ["w", "axes"], ["m"], keepdims=0), helper.make_node("Mul", ["w", "w"], ["u"]),
                     helper.make_node("ReduceMean", ["u", "axes"], ["v"], keepdims=0),
                     helper.make_node("BatchNormalization", ["w", "s", "t", "m", "v"], ["b"], epsilon=0.1),
                     helper.make_node("Transpose", ["b"], ["c"], perm=[2, 0, 1, 3, 4]),
                     helper.make_node("ReduceMax", ["c", "all"], ["q"], keepdims=0),
                     helper.make_node("Gather", ["q", "to"], ["z"]), helper.make_node("Mul", ["p", "z"], ["r"])],
                    {"w": np.sin(np.arange(2 * CHANNELS * 3 * 2, dtype="f")).reshape(2, CHANNELS, 3, 2, 1),
                     "s": np.linspace(0.5, 1.5, CHANNELS, dtype="f"), "t": np.linspace(-1, 1, CHANNELS, dtype="f"),
                     "axes": np.array([0, 2, 3, 4]), "all": np.array([1, 2, 3, 4]), "to": np.array([0, 2, 1, 2, 0, 1])}),
    "few": ([helper.make_node("Round", ["p"], ["t"]), helper.make_node("Reshape", ["t", "s"], ["q"]),
             helper.make_node("TopK", ["q", "k"], ["v", "i"], axis=1),
             helper.make_node("TopK", ["q", "k"], ["low", "j"], axis=1, largest=0),
             helper.make_node("Concat", ["i", "j"], ["both"], axis=1),
             helper.make_node("Cast", ["both"], ["r"], to=TensorProto.FLOAT)], {"k": np.array([20]), "s": np.array([0, -1])}),
    "few_infinite": ([helper.make_node("Round", ["p"], ["t"]), helper.make_node("Reshape", ["t", "s"], ["q"]),
                      helper.make_node("Sub", ["q", "one"], ["u"]), helper.make_node("Relu", ["u"], ["w"]),
                      helper.make_node("Log", ["w"], ["l"]), helper.make_node("TopK", ["l", "k"], ["v", "i"], axis=1),
                      helper.make_node("Cast", ["i"], ["r"], to=TensorProto.FLOAT)],
                     {"k": np.array([24]), "s": np.array([0, -1]), "one": np.array(1, "f")}),
    "smallest": ([helper.make_node("TopK", ["p", "k"], ["r", "rest"], axis=2, largest=0)], K),
    **{f"put_{how}": ([TOP, helper.make_node("ScatterElements", ["p", "i", "v"], ["r"], axis=1, reduction=how)], K)
       for how in ("none", "add", "max", "min", "mul")},
    "parts": ([helper.make_node("ArgMax", ["p"], ["i"], axis=2, keepdims=0),
               helper.make_node("Slice", ["i", "a", "b", "c"], ["j"]),
               helper.make_node("GatherND", ["p", "j"], ["r"], batch_dims=1)],
              {"a": np.array([0]), "b": np.array([2]), "c": np.array([2])}),
    "rows": ([helper.make_node("Transpose", ["p"], ["t"], perm=[1, 2, 0, 3]),
              helper.make_node("Gather", ["t", "a"], ["u"], axis=0),
              helper.make_node("ScatterND", ["t", "b", "u"], ["w"], reduction="add"),
              helper.make_node("Transpose", ["w"], ["r"], perm=[2, 0, 1, 3])],
             {"a": np.array([0, 1, 1]), "b": np.array([[3], [-2], [3]])}),
    "hot": ([LAST, helper.make_node("OneHot", ["i", "d", "o"], ["r"], axis=1)],
            {"d": np.array(7), "o": np.array([-0.5, 2], "f")}),
    "row": ([LAST, helper.make_node("Gather", ["table", "i"], ["r"])],
            {"table": np.linspace(-1, 1, 18, dtype="f").reshape(6, 3)}),
    "column": ([LAST, helper.make_node("Gather", ["val_table", "i"], ["t"], axis=1),
                helper.make_node("Transpose", ["t"], ["r"], perm=[1, 0, 2, 3])],
               {"val_table": np.linspace(-1, 1, 12, dtype="f").reshape(2, 6)}),
    "middle": ([helper.make_node("Sub", ["rows", "one"], ["last"]), helper.make_node("Mul", ["last", "half"], ["place"]),
                helper.make_node("Ceil", ["place"], ["whole"]), helper.make_node("Cast", ["whole"], ["i"], to=TensorProto.INT64),
                helper.make_node("Gather", ["p", "i"], ["r"], axis=2)],
               {"rows": np.array(HEIGHT, "f"), "one": np.array(1, "f"), "half": np.array(0.5, "f")}),
    "tiled": ([helper.make_node("Unsqueeze", ["p", "at"], ["u"]), helper.make_node("Tile", ["u", "m"], ["r"])],
              {"m": np.array([1, 2, 1, 1, 2, 2]), "at": np.array([1, 3])}),
    "triangle": ([helper.make_node("Trilu", ["p", "d"], ["r"], upper=0)], {"d": np.array(1)}),
    "remainder": ([helper.make_node("Mod", ["p", "m"], ["r"], fmod=1)], {"m": np.array([0.3], "f")}),
    "hard": ([helper.make_node("Hardmax", ["p"], ["r"], axis=1)], {}),
}
REFUSED = {
    "outside": ("CumSum", [np.array(4)], {}),
    "twice": ("Einsum", [np.ones((6, 6), "f")], {"equation": "nchw,wk->nchh"}),
    "many_axes": ("Einsum", [np.ones((1, 1, 1, 1, 1), "f"), np.ones((8, 4, 6, 1, 1, 1, 1, 1), "f")],
                  {"equation": "nchw,efgij,chwefgij->n"}),
    "mirror": ("Pad", [np.array([0, 0, 1, 0, 0, 0, 1, 0])], {"mode": "mirror"}),
    "far": ("Pad", [np.array([0, 0, 4, 0, 0, 0, 0, 0])], {"mode": "reflect"}),
    "outside_rows": ([helper.make_node("Transpose", ["p"], ["t"], perm=[1, 2, 0, 3]),
                      helper.make_node("Gather", ["t", "a"], ["u"], axis=0),
                      helper.make_node("ScatterND", ["t", "b", "u"], ["w"], name="op"),
                      helper.make_node("Transpose", ["w"], ["r"], perm=[2, 0, 1, 3])],
                     {"a": np.array([0, 1]), "b": np.array([[3], [8]])}),
    "dropped_filters": ([helper.make_node("Dropout", ["w", "val_ratio", "val_on"], ["d"]),
                         helper.make_node("Conv", ["p", "d"], ["r"], name="op")],
                        {"w": np.linspace(-1, 1, 2 * CHANNELS, dtype="f").reshape(2, CHANNELS, 1, 1),
                         "val_ratio": np.array(0.5, "f"), "val_on": np.array(True)}),
    "few_blocks": ([helper.make_node("Reshape", ["p", "val_rows"], ["q"]),
                    helper.make_node("Col2Im", ["q", "val_image", "val_block"], ["r"], name="op")],
                   {"val_rows": np.array([0, -1, 4]), "val_image": np.array([5, 5]), "val_block": np.array([2, 2])}),
    "own_filters": ([helper.make_node("ReduceMean", ["p", "val_axes"], ["m"], keepdims=0),
                     helper.make_node("Mul", ["w", "m"], ["v"]), helper.make_node("Conv", ["p", "v"], ["r"], name="op")],
                    {"w": np.ones((2, CHANNELS, 1, 1), "f"), "val_axes": np.array([1, 2, 3])}),
    "indices": ([helper.make_node("MaxPool", ["p"], ["m", "i"], name="op", kernel_shape=[2, 2]),
                 helper.make_node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
                 helper.make_node("Add", ["m", "f"], ["r"])], {}),
    "crop": resize([1, 1, 2, 2], coordinate_transformation_mode="tf_crop_and_resize"),
    "deep": ([LAST, helper.make_node("OneHot", ["i", "d", "o"], ["r"], name="op", axis=1)],
             {"d": np.array(2**40), "o": np.array([0, 1], "f")}),
}


def write(nodes, tensors):
    """A graph whose last value, r, becomes the output of the network, in its type."""
    integers = nodes[-1].op_type.startswith("Arg")
    nodes = [helper.make_node("Mul", ["x", "scale"], ["p"]), *nodes, helper.make_node("Flatten", ["r"], ["y"])]
    tensors = [numpy_helper.from_array(value, name) for name, value in tensors.items()]
    tensors.append(numpy_helper.from_array(np.linspace(0.5, 1.5, WIDTH, dtype="f"), "scale"))
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", CHANNELS, HEIGHT, WIDTH]),
             helper.make_tensor_value_info("y", TensorProto.INT64 if integers else TensorProto.FLOAT, ["N", None])]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], tensors)
    opset = 23 if any(n.op_type == "Attention" for n in nodes) else 20
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9 if opset == 20 else 10)


def make(case):
    if isinstance(case[0], list):
        return write(*case)
    op, others, attributes = case
    inputs, tensors = ["p"], [numpy_helper.from_array(np.linspace(0.5, 1.5, WIDTH, dtype="f"), "scale")]
    for i, other in enumerate(others):
        if other is None or isinstance(other, str):
            inputs.append("p" if other else "")
            continue
        inputs.append(f"val_{i}")
        tensors.append(numpy_helper.from_array(other, f"val_{i}"))
    if op == "Resize" and inputs[-1] == "":
        inputs.pop()
    nodes = [helper.make_node("Mul", ["x", "scale"], ["p"])]
    if op == "Resize" and tensors[1].data_type == TensorProto.INT64 and "axes" not in attributes:  # the batch of the sizes is N
        tensors[1] = numpy_helper.from_array(numpy_helper.to_array(tensors[1])[1:], "tail")
        nodes += [helper.make_node("Shape", ["x"], ["n"], end=1),
                  helper.make_node("Concat", ["n", "tail"], [inputs[-1]], axis=0)]
    nodes.append(helper.make_node(op, inputs, ["r"], name="op", **attributes))
    nodes.append(helper.make_node("Flatten", ["r"], ["y"]))
    shape = ["N", CHANNELS, HEIGHT, WIDTH]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", None])], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def main():
    os.makedirs(FOLDER, exist_ok=True)
    x = np.random.default_rng(1).standard_normal((SAMPLES, CHANNELS, HEIGHT, WIDTH)).astype("f")
    x.transpose(0, 2, 3, 1).astype("<f4").tofile(os.path.join(FOLDER, "x.f32"))
    for name, case in {**CASES, **GRAPHS, **REFUSED}.items():
        path = os.path.join(FOLDER, f"{name}.onnx")
        onnx.save(make(case), path)
        if name not in REFUSED:
            y = onnxruntime.InferenceSession(path).run(None, {"x": x})[0]
            y.astype("<f4").tofile(os.path.join(FOLDER, f"{name}.f32"))


if __name__ == "__main__":
    main()
