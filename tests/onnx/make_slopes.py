#!/usr/bin/env python3
"""Writes tests/onnx/slopes: one operator between two layers, and the losses that PyTorch computes.

    make_slopes.py [NAMES]   all networks, or these; needs torch 2.15.0, onnx 1.23.2, onnxruntime 1.32.0, numpy

A convolution over single pixels gives p, (N, 8, 4, 6), and the operator makes r of p.  A linear layer over r gives the
scores.  NAME.f32 has the losses of 20 steps of SGD from the samples in x.f32, channels last, computed in float64
(tests/train/test_onnx_slopes.c).  The script checks that ONNX Runtime gives the outputs of PyTorch's network, and that
the losses are others if no gradient passes the operator.
"""
import os
import sys

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper
from torch.nn import functional as F

COUNT, STEPS, CLASSES, INPUTS, CHANNELS, HEIGHT, WIDTH = 8, 20, 3, 3, 8, 4, 6
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "slopes")
T = torch.tensor


def one(op, mirror, *others, **attributes):
    """r = op(p, others...).  An other is an array, "p" or "" """
    inputs, tensors = ["p"], {}
    for i, other in enumerate(others):
        inputs.append(other if isinstance(other, str) else f"val_{i}")
        if not isinstance(other, str):
            tensors[f"val_{i}"] = np.asarray(other)
    return [helper.make_node(op, inputs, ["r"], **attributes)], tensors, mirror


def chain(text, mirror, **tensors):
    """r by nodes "out[,out] = Op(in, ...) key=value ...", a line each."""
    nodes = []
    for line in text.strip().splitlines():
        left, right = line.split(" = ", 1)
        call, _, rest = right.partition(")")
        op, _, inputs = call.partition("(")
        attributes = dict(item.split("=", 1) for item in rest.split())
        attributes = {k: v.strip("'") if v.startswith("'") else eval(v) for k, v in attributes.items()}
        nodes.append(helper.make_node(op.strip(), [i.strip() for i in inputs.split(",")],
                                      [o.strip() for o in left.split(",")], **attributes))
    return nodes, {k: np.asarray(v) for k, v in tensors.items()}, mirror


def f(*numbers):
    return np.array(numbers, "f")


def grad_free(function):
    """r = p + function(p), which has no gradient."""
    return lambda p: p + function(p.detach())


def lp_pool(p, power, kernel, stride, pads):
    p = F.pad(p.abs() ** power, (pads[1], pads[3], pads[0], pads[2]))
    return (F.avg_pool2d(p, kernel, stride) * kernel[0] * kernel[1]) ** (1 / power)


def dilated_average(p, kernel, dilation, pads, counted):
    def sums(x):
        x = F.pad(x, (pads[1], pads[3], pads[0], pads[2]))
        weight = torch.ones(1, 1, *kernel, dtype=x.dtype)
        return F.conv2d(x.reshape(-1, 1, *x.shape[2:]), weight, dilation=dilation)
    total = sums(p)
    count = kernel[0] * kernel[1] if counted else sums(torch.ones_like(p))
    return (total / count).reshape(p.shape[0], p.shape[1], *total.shape[2:])


def window_mask(queries, keys, left=-1, right=-1, past=0, causal=False):
    i, j = torch.arange(queries)[:, None] + past, torch.arange(keys)[None]
    seen = torch.ones(queries, keys, dtype=torch.bool)
    seen &= (i - j <= left) if left >= 0 else True
    seen &= (j - i <= right) if right >= 0 else True
    return seen & (j <= i) if causal else seen


def attend(q, k, v, cap=0, mask=None, scale=None, scores=None):
    """Queries, keys and values (N, heads, places, width)."""
    a = q @ k.transpose(-1, -2) * (scale or q.shape[-1] ** -0.5)
    if cap:
        a = torch.tanh(a / cap) * cap
    shown = a
    if mask is not None:
        a = a.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else a + mask
    y = a.softmax(-1) @ v
    return (y, shown) if scores else y


def parts(p):
    """The inputs that the attention of the tests takes: p as (N, 2, 4, 24), its halves."""
    q = p.reshape(-1, 2, 4, 24)
    return q[..., :6], q[..., 6:12], q[..., 12:18], q[..., 18:]


PARTS = """t = Reshape(p, shape)
q,k,v,w = Split(t) axis=3 num_outputs=4
"""
SHAPE = np.array([0, 2, 4, 24])
ROWS = np.array([0, 0, 1, 0.5], "f")[:, None]  # norms of the first rows are 0


def attention(text, mirror, **tensors):
    return chain(PARTS + text, lambda p: mirror(*parts(p)), shape=SHAPE, **tensors)


def scatter(how, torch_how):
    """Elements of p, of which two have one place, written into p."""
    at = np.array([2, 0, 2, -1])[None, :, None, None]
    index = np.broadcast_to(at, (1, 4, HEIGHT, WIDTH))

    def mirror(p):
        i = T(np.where(index < 0, index + CHANNELS, index)).expand(p.shape[0], -1, -1, -1)
        u = torch.tanh(p[:, 4:]) + 1.2
        if how == "none":
            return p.scatter(1, i[:, 1:2], u[:, :1])
        return (p + 1.5).scatter_reduce(1, i, u, torch_how)
    if how == "none":
        return chain("""t = Slice(p, four, five, one)
u = Tanh(t)
v = Add(u, c)
i = Expand(at, like)
n = Shape(p) end=1
s = Concat(n, rest) axis=0
j = Expand(at, s)
r = ScatterElements(p, j, v) axis=1""", mirror, four=[4], five=[5], one=[1], c=f(1.2), at=at[:, 1:2],
                     rest=[1, HEIGHT, WIDTH], like=[1, 1, 1, 1])
    return chain(f"""t = Slice(p, four, eight, one)
u = Tanh(t)
v = Add(u, c)
n = Shape(p) end=1
s = Concat(n, rest) axis=0
j = Expand(at, s)
q = Add(p, d)
r = ScatterElements(q, j, v) axis=1 reduction='{how}'""", mirror, four=[4], eight=[8], one=[1], c=f(1.2), d=f(1.5),
                 at=at, rest=[4, HEIGHT, WIDTH])


def scatter_rows(how, torch_how):
    """Rows of the transposed p, of which two have one place."""
    at = np.array([[3, 1], [-2, 0], [3, 1]])

    def mirror(p):
        t = p.permute(1, 2, 0, 3).reshape(CHANNELS * HEIGHT, -1, WIDTH)
        u = torch.tanh(t[:3]) + 1.2
        places = T([3 * HEIGHT + 1, (CHANNELS - 2) * HEIGHT, 3 * HEIGHT + 1])
        y = (t + 1.5).scatter_reduce(0, places[:, None, None].expand_as(u), u, torch_how)
        return y.reshape(CHANNELS, HEIGHT, -1, WIDTH).permute(2, 0, 1, 3)
    return chain(f"""t = Transpose(p) perm=[1,2,0,3]
b = GatherND(t, first)
e = Tanh(b)
u = Add(e, c)
q = Add(t, d)
w = ScatterND(q, at, u) reduction='{how}'
r = Transpose(w) perm=[2,0,1,3]""", mirror, at=at, first=[[0, 0], [0, 1], [0, 2]], c=f(1.2), d=f(1.5))


def resize(mirror, sizes=None, scales=None, **attributes):
    if scales:
        return one("Resize", mirror, "", f(*scales), **attributes)
    text = """n = Shape(p) end=1
s = Concat(n, rest) axis=0
r = Resize(p, , , s) """ + " ".join(f"{k}={v!r}" for k, v in attributes.items())
    return chain(text, mirror, rest=[CHANNELS, *sizes])


def enlarge(p, size, mode, **how):
    return F.interpolate(p, size=size, mode=mode, **how)


def linear_asymmetric(p, scales):
    """Linear interpolation of which element i lies at i / scale."""
    for axis, scale in zip((2, 3), scales):
        n = p.shape[axis]
        at = (torch.arange(int(n * scale), dtype=torch.float64) / scale).clamp(0, n - 1)
        low = at.floor().long()
        high, weight = (low + 1).clamp(max=n - 1), at - low
        shape = [-1 if d == axis else 1 for d in range(4)]
        p = p.index_select(axis, low) * (1 - weight).view(shape) + p.index_select(axis, high) * weight.view(shape)
    return p


def places(p, function):
    """The elements of p that function names along axis 1."""
    return p.gather(1, function(p.detach()))


def group_norm(p, scale, shift):
    return F.group_norm(p, 4, scale.double(), shift.double(), 1e-5)


UNARY = {
    "Abs": (torch.abs, {}), "Celu": (lambda p: F.celu(p, 0.7), {"alpha": 0.7}), "Cos": (torch.cos, {}),
    "Elu": (lambda p: F.elu(p, 0.8), {"alpha": 0.8}), "Erf": (torch.erf, {}), "Exp": (torch.exp, {}),
    "Gelu": (F.gelu, {}), "HardSigmoid": (lambda p: (0.3 * p + 0.4).clamp(0, 1), {"alpha": 0.3, "beta": 0.4}),
    "HardSwish": (F.hardswish, {}), "LeakyRelu": (lambda p: F.leaky_relu(p, 0.2), {"alpha": 0.2}), "Mish": (F.mish, {}),
    "Neg": (torch.neg, {}), "Selu": (F.selu, {}), "Sigmoid": (torch.sigmoid, {}), "Sin": (torch.sin, {}),
    "Softplus": (F.softplus, {}), "Softsign": (F.softsign, {}), "Tanh": (torch.tanh, {}),
    "ThresholdedRelu": (lambda p: torch.where(p > 0.2, p, 0), {"alpha": 0.2}),
    "LogSoftmax": (lambda p: p.log_softmax(1), {"axis": 1}), "Softmax": (lambda p: p.softmax(2), {"axis": 2}),
    "SpaceToDepth": (lambda p: p.reshape(-1, 8, 2, 2, 3, 2).permute(0, 3, 5, 1, 2, 4), {"blocksize": 2}),
    "GlobalMaxPool": (lambda p: p.amax((2, 3)), {}), "GlobalAveragePool": (lambda p: p.mean((2, 3)), {}),
    "Swish": (lambda p: p * torch.sigmoid(1.3 * p), {"alpha": 1.3}),
    "Asinh": (torch.asinh, {}), "Atan": (torch.atan, {}), "Cosh": (torch.cosh, {}), "Sinh": (torch.sinh, {}),
    "LRN": (lambda p: F.local_response_norm(p, 5, alpha=0.7, beta=0.6, k=1.2),
            {"size": 5, "alpha": 0.7, "beta": 0.6, "bias": 1.2}),
    "LpNormalization": (lambda p: F.normalize(p, dim=1), {"axis": 1}),
    "LpNormalization_one": (lambda p: F.normalize(p, p=1, dim=-1), {"p": 1}),
}
REDUCTIONS = {
    "ReduceL1": lambda p: p.abs().sum((1, 3)), "ReduceL2": lambda p: (p * p).sum((1, 3)).sqrt(),
    "ReduceLogSumExp": lambda p: p.logsumexp((1, 3)), "ReduceMax": lambda p: p.amax((1, 3)),
    "ReduceMean": lambda p: p.mean((1, 3)), "ReduceMin": lambda p: p.amin((1, 3)),
    "ReduceSum": lambda p: p.sum((1, 3)),
}
NETWORKS = {
    **{op: one(op.split("_")[0], mirror, **attributes) for op, (mirror, attributes) in UNARY.items()},
    **{op: one(op, mirror, np.array([1, 3]), keepdims=0) for op, mirror in REDUCTIONS.items()},
    "ReduceSumSquare": chain("a = Mul(p, c)\nr = ReduceSumSquare(a, axes) keepdims=0",
                             lambda p: (p * p * 0.04).sum((1, 3)), c=f(0.2), axes=[1, 3]),
    "ReduceProd": chain("e = Exp(p)\nr = ReduceProd(e, axes) keepdims=1",
                        lambda p: p.exp().prod(2, keepdim=True), axes=[2]),
    "ReduceLogSum": chain("e = Exp(p)\nr = ReduceLogSum(e, axes)",
                          lambda p: p.exp().sum((2, 3), keepdim=True).log(), axes=[2, -1]),
    "Ceil": chain("a = Ceil(p)\nr = Add(a, p)", grad_free(torch.ceil)),
    "Floor": chain("a = Floor(p)\nr = Add(a, p)", grad_free(torch.floor)),
    "Round": chain("a = Round(p)\nr = Add(a, p)", grad_free(torch.round)),
    "Sign": chain("a = Sign(p)\nr = Add(a, p)", grad_free(torch.sign)),
    "Hardmax": chain("a = Hardmax(p) axis=1\nr = Mul(a, p)",
                     lambda p: p * F.one_hot(p.argmax(1), CHANNELS).permute(0, 3, 1, 2)),
    "Gelu_tanh": one("Gelu", lambda p: F.gelu(p, approximate="tanh"), approximate="tanh"),
    "Tan": chain("a = Mul(p, c)\nr = Tan(a)", lambda p: torch.tan(p * 0.25), c=f(0.25)),
    "Log": chain("a = Exp(p)\nb = Add(a, c)\nr = Log(b)", lambda p: torch.log(p.exp() + 0.3), c=f(0.3)),
    "LogSigmoid": chain("a = Mul(p, c)\nb = Sigmoid(a)\nd = Log(b)\nr = Mul(d, e)",
                        lambda p: F.logsigmoid(300 * p) * 0.01, c=f(300), e=f(0.01)),
    "LogSigmoid_used": chain("a = Mul(p, c)\nb = Sigmoid(a)\nd = Log(b)\nh = Mul(d, e)\nr = Add(h, b)",
                             lambda p: F.logsigmoid(300 * p) * 0.01 + torch.sigmoid(300 * p), c=f(300), e=f(0.01)),
    "Acosh": chain("a = Exp(p)\nb = Add(a, c)\nr = Acosh(b)", lambda p: torch.acosh(p.exp() + 1.3), c=f(1.3)),
    "Asin": chain("a = Tanh(p)\nr = Asin(a)", lambda p: torch.asin(p.tanh())),
    "Acos": chain("a = Tanh(p)\nr = Acos(a)", lambda p: torch.acos(p.tanh())),
    "Atanh": chain("a = Tanh(p)\nb = Mul(a, c)\nr = Atanh(b)", lambda p: torch.atanh(0.8 * p.tanh()), c=f(0.8)),
    "Sqrt": chain("a = Exp(p)\nr = Sqrt(a)", lambda p: p.exp().sqrt()),
    "Reciprocal": chain("a = Exp(p)\nb = Add(a, c)\nr = Reciprocal(b)", lambda p: 1 / (p.exp() + 0.5), c=f(0.5)),
    "Clip": one("Clip", lambda p: p.clamp(-0.4, 0.7), f(-0.4)[0], f(0.7)[0]),
    "PRelu": one("PRelu", lambda p: torch.where(p > 0, p, p * T(np.linspace(-1, 1, 6, dtype="f"))),
                 np.linspace(-1, 1, 6, dtype="f")),
    "Div": chain("a = Exp(p)\nb = Tanh(p)\nr = Div(b, a)", lambda p: p.tanh() / p.exp()),
    "Pow": chain("a = Sigmoid(p)\nb = Tanh(p)\nr = Pow(a, b)", lambda p: p.sigmoid() ** p.tanh()),
    "Pow_constant": chain("a = Abs(p)\nr = Pow(a, c)", lambda p: p.abs() ** 1.7, c=f(1.7)[0]),
    **{op: chain(f"a = Tanh(p)\nb = Mul(p, c)\nr = {op}(a, b, p)", mirror, c=f(*np.linspace(-1, 1.5, 6)))
       for op, mirror in {
           "Max": lambda p: torch.maximum(torch.maximum(p.tanh(), p * T(np.linspace(-1, 1.5, 6))), p),
           "Min": lambda p: torch.minimum(torch.minimum(p.tanh(), p * T(np.linspace(-1, 1.5, 6))), p),
           "Mean": lambda p: (p.tanh() + p * T(np.linspace(-1, 1.5, 6)) + p) / 3,
           "Sum": lambda p: p.tanh() + p * T(np.linspace(-1, 1.5, 6)) + p}.items()},
    "Mod": chain("a = Exp(p)\nr = Mod(p, a) fmod=1",
                 lambda p: p - p.exp() * torch.trunc(p.detach() / p.detach().exp())),
    "Logic": chain("""a = Greater(p, c)
b = LessOrEqual(p, d)
g = GreaterOrEqual(p, e)
n = IsNaN(p)
i = IsInf(p)
h = And(a, b)
j = Or(h, g)
k = Xor(j, n)
l = Not(k)
m = Xor(l, i)
q = Tanh(p)
r = Where(m, q, p)""", lambda p: torch.where(((p > 0.1) & (p <= 0.4)) | (p >= 0.8), p, p.tanh()), c=f(0.1), d=f(0.4),
                   e=f(0.8)),
    # windows
    "LpPool": one("LpPool", lambda p: lp_pool(p, 3, (2, 3), (1, 2), (1, 0, 0, 1)), kernel_shape=[2, 3], strides=[1, 2],
                  pads=[1, 0, 0, 1], p=3),
    "ReduceL2_zeros": chain("a = Mul(p, c)\nr = ReduceL2(a, axes) keepdims=0",
                            lambda p: torch.linalg.vector_norm(p * T(ROWS), dim=(1, 3)), c=ROWS, axes=[1, 3]),
    "LpPool_zeros": chain("a = Mul(p, c)\nr = LpPool(a) kernel_shape=[2,2] strides=[2,2] p=3",
                          lambda p: torch.linalg.vector_norm((p * T(ROWS)).reshape(-1, 8, 2, 2, 3, 2), 3, (3, 5)),
                          c=ROWS),
    "GlobalLpPool": one("GlobalLpPool", lambda p: (p * p).sum((2, 3)).sqrt(), p=2),
    "AveragePool": one("AveragePool", lambda p: dilated_average(p, (2, 3), (2, 2), (1, 2, 0, 1), False),
                       kernel_shape=[2, 3], dilations=[2, 2], pads=[1, 2, 0, 1]),
    "AveragePool_counted": one("AveragePool", lambda p: dilated_average(p, (2, 2), (1, 3), (1, 1, 1, 0), True),
                               kernel_shape=[2, 2], dilations=[1, 3], pads=[1, 1, 1, 0], count_include_pad=1),
    "MaxPool": one("MaxPool", lambda p: F.max_pool2d(F.pad(p, (0, 2, 1, 0), value=-1e9), (2, 3), 1, dilation=(2, 1)),
                   kernel_shape=[2, 3], dilations=[2, 1], pads=[1, 0, 0, 2]),
    # norms
    "GroupNormalization": one("GroupNormalization", lambda p: group_norm(p, T(f(*np.linspace(0.5, 2, 8))),
                                                                         T(f(*np.linspace(-1, 1, 8)))),
                              f(*np.linspace(0.5, 2, 8)), f(*np.linspace(-1, 1, 8)), num_groups=4),
    "RMSNormalization": one("RMSNormalization", lambda p: F.rms_norm(p, (WIDTH,), T(np.linspace(0.5, 2, 6)), 1e-5),
                            f(*np.linspace(0.5, 2, 6)), axis=-1),
    # layout
    "DepthToSpace": one("DepthToSpace", lambda p: F.pixel_shuffle(p, 2), blocksize=2, mode="CRD"),
    "Tile": one("Tile", lambda p: p.repeat(1, 1, 2, 3), np.array([1, 1, 2, 3])),
    "Pad_wrap": one("Pad", lambda p: F.pad(p, (2, 3, 0, 0), mode="circular"), np.array([0, 0, 0, 2, 0, 0, 0, 3]),
                    mode="wrap"),
    "Slice": one("Slice", lambda p: p.flip(3)[:, 1:, :, ::2], np.array([1, -1]), np.array([8, -100]), np.array([1, 3]),
                 np.array([1, -2])),
    "Trilu": one("Trilu", lambda p: torch.tril(p, 1), np.array(1), upper=0),
    "Trilu_upper": one("Trilu", lambda p: torch.triu(p, -1), np.array(-1)),
    "Expand": chain("a = ReduceMean(p, axes)\nn = Shape(p)\nb = Expand(a, n)\nr = Mul(b, p)",
                    lambda p: p.mean(1, keepdim=True).expand_as(p) * p, axes=[1]),
    **{f"CumSum_{name}": one("CumSum", mirror, np.array(3), **attributes) for name, mirror, attributes in (
        ("exclusive", lambda p: p.cumsum(3) - p, {"exclusive": 1}),
        ("reverse", lambda p: p.flip(3).cumsum(3).flip(3), {"reverse": 1}),
        ("both", lambda p: p.flip(3).cumsum(3).flip(3) - p, {"exclusive": 1, "reverse": 1}))},
    "Einsum": one("Einsum", lambda p: torch.einsum("nchw,nkhw->nchkw", p, p), "p",
                  equation="nchw,nkhw->nchkw"),
    # enlarged and reduced
    "Resize_half": resize(lambda p: enlarge(p, (8, 12), "bilinear"), scales=[1, 1, 2, 2], mode="linear"),
    "Resize_corners": resize(lambda p: enlarge(p, (8, 12), "bilinear", align_corners=True), scales=[1, 1, 2, 2],
                             mode="linear", coordinate_transformation_mode="align_corners"),
    "Resize_pytorch": resize(lambda p: enlarge(p, (3, 9), "bilinear"), sizes=[3, 9], mode="linear",
                             coordinate_transformation_mode="pytorch_half_pixel"),
    "Resize_asymmetric": resize(lambda p: linear_asymmetric(p, (1.6, 0.7)), scales=[1, 1, 1.6, 0.7], mode="linear",
                                coordinate_transformation_mode="asymmetric"),
    "Resize_down": resize(lambda p: enlarge(p, (2, 3), "bilinear"), sizes=[2, 3], mode="linear"),
    "Resize_floor": resize(lambda p: enlarge(p, (6, 3), "nearest"), scales=[1, 1, 1.5, 0.5], mode="nearest",
                           nearest_mode="floor", coordinate_transformation_mode="asymmetric"),
    "Resize_exact": resize(lambda p: enlarge(p, (7, 9), "nearest-exact"), sizes=[7, 9], mode="nearest",
                           nearest_mode="round_prefer_ceil"),
    "Resize_cubic": resize(lambda p: enlarge(p, (7, 4), "bicubic"), sizes=[7, 4], mode="cubic"),
    "Resize_cubic_smooth": resize(lambda p: enlarge(p, (3, 9), "bicubic", antialias=True), sizes=[3, 9], mode="cubic",
                                  antialias=1, exclude_outside=1, cubic_coeff_a=-0.5),
    "Resize_smooth": resize(lambda p: enlarge(p, (2, 4), "bilinear", antialias=True), sizes=[2, 4], mode="linear",
                            antialias=1, exclude_outside=1),
    # by index
    "TopK": chain("v,i = TopK(p, k) axis=1\nr = Identity(v)", lambda p: p.topk(3, 1)[0], k=[3]),
    "TopK_few": chain("q = Reshape(p, s)\nv,i = TopK(q, k) axis=1\nr = Identity(v)",
                      lambda p: p.flatten(1).topk(5, 1)[0], k=[5], s=[0, -1]),
    "TopK_few_smallest": chain("q = Reshape(p, s)\nv,i = TopK(q, k) axis=2 largest=0\nr = Identity(v)",
                               lambda p: p.flatten(2).topk(3, 2, largest=False)[0], k=[3], s=[0, 0, -1]),
    "TopK_smallest": chain("v,i = TopK(p, k) axis=2 largest=0\nr = Identity(v)",
                           lambda p: p.topk(2, 2, largest=False)[0], k=[2]),
    "ArgMax": chain("i = ArgMax(p) axis=1\nr = GatherElements(p, i) axis=1",
                    lambda p: places(p, lambda q: q.argmax(1, keepdim=True))),
    "ArgMin": chain("i = ArgMin(p) axis=1\nr = GatherElements(p, i) axis=1",
                    lambda p: places(p, lambda q: q.argmin(1, keepdim=True))),
    "GatherND": chain("""i = ArgMax(p) axis=2 keepdims=0
j = Slice(i, a, b, c)
r = GatherND(p, j) batch_dims=1""",
                      lambda p: torch.stack([x[x.argmax(1)[k, 0], x.argmax(1)[k, 1]]
                                             for x in p for k in range(8)]).reshape(-1, 8, WIDTH), a=[0], b=[2], c=[2]),
    "GatherND_constant": chain("t = Transpose(p) perm=[1,2,0,3]\nu = GatherND(t, at)\nr = Transpose(u) perm=[1,0,2]",
                        lambda p: p[:, [3, 1, 3], [0, -1, 0]], at=[[3, 0], [1, -1], [3, 0]]),
    "OneHot": chain("i = ArgMax(p) axis=3 keepdims=0\nh = OneHot(i, d, o) axis=3\nr = Mul(h, p)",
                    lambda p: p * (F.one_hot(p.argmax(3), WIDTH) * 2.5 - 0.5), d=np.array(WIDTH), o=f(-0.5, 2)),
    **{f"ScatterElements_{how}": scatter(how, t) for how, t in (("none", None), ("add", "sum"), ("mul", "prod"),
                                                                 ("max", "amax"), ("min", "amin"))},
    **{f"ScatterND_{how}": scatter_rows(how, t) for how, t in (("add", "sum"), ("mul", "prod"), ("max", "amax"),
                                                                ("min", "amin"))},
    # attention
    "Attention": attention("r = Attention(q, k, v)", lambda q, k, v, w: attend(q, k, v)),
    "Attention_cap": attention("r = Attention(q, k, v) softcap=0.8 scale=1.5",
                               lambda q, k, v, w: attend(q, k, v, cap=0.8, scale=1.5)),
    "Attention_causal": attention("r = Attention(q, k, v) is_causal=1",
                                  lambda q, k, v, w: attend(q, k, v, mask=window_mask(4, 4, causal=True))),
    "Attention_window": attention("r = Attention(q, k, v) left_window_size=1 right_window_size=2",
                                  lambda q, k, v, w: attend(q, k, v, mask=window_mask(4, 4, 1, 2))),
    "Attention_masks": attention("r = Attention(q, k, v, m) is_causal=1 softcap=1.5",
                                 lambda q, k, v, w: attend(q, k, v, 1.5, window_mask(4, 4, causal=True).double().log()
                                                           + T(np.linspace(-1, 1, 16).reshape(4, 4))),
                                 m=np.linspace(-1, 1, 16, dtype="f").reshape(4, 4)),
    "Attention_past": attention("r,a,b = Attention(q, k, v, , w, q) is_causal=1",
                                lambda q, k, v, w: attend(q, torch.cat([w, k], 2), torch.cat([q, v], 2),
                                                          mask=window_mask(4, 8, past=4, causal=True))),
    "Attention_present": attention("o,a,b = Attention(q, k, v, , w, q)\nr = Concat(o, a, b) axis=2",
                                   lambda q, k, v, w: torch.cat([
                                       attend(q, torch.cat([w, k], 2), torch.cat([q, v], 2)),
                                       torch.cat([w, k], 2), torch.cat([q, v], 2)], 2)),
    "Attention_scores": attention("o,,,s = Attention(q, k, v) softcap=0.8 qk_matmul_output_mode=1\n"
                                  "r = Concat(o, s) axis=3",
                                  lambda q, k, v, w: torch.cat(attend(q, k, v, 0.8, scores=True), 3)),
    "Attention_only_scores": attention("o,,,r = Attention(q, k, v) softcap=0.8 qk_matmul_output_mode=1",
                                       lambda q, k, v, w: attend(q, k, v, 0.8, scores=True)[1]),
    "Attention_groups": attention("s = Concat(q, w) axis=1\nr = Attention(s, k, v)",
                                  lambda q, k, v, w: attend(torch.cat([q, w], 1), k.repeat_interleave(2, 1),
                                                            v.repeat_interleave(2, 1))),
}
OPSETS = {"Swish": 24, "RMSNormalization": 23, "GroupNormalization": 21}


def opset_of(name):
    op = name.split("_")[0]
    return 26 if name == "Attention_window" else 23 if op == "Attention" else OPSETS.get(op, 20)


def weights(size):
    generator = np.random.default_rng(7)
    return {"conv.weight": generator.standard_normal((CHANNELS, INPUTS, 1, 1)).astype("f") * 0.6,
            "conv.bias": generator.standard_normal(CHANNELS).astype("f") * 0.3,
            "head.weight": (generator.standard_normal((CLASSES, size)) / size ** 0.5).astype("f"),
            "head.bias": np.zeros(CLASSES, "f")}


def write(name, tensors):
    nodes, constants, _ = NETWORKS[name]
    nodes = [helper.make_node("Conv", ["x", "conv.weight", "conv.bias"], ["p"]), *nodes,
             helper.make_node("Flatten", ["r"], ["flat"]),
             helper.make_node("Gemm", ["flat", "head.weight", "head.bias"], ["y"], transB=1)]
    for key, value in constants.items():  # a number of the code, not a parameter
        nodes = [helper.make_node("Constant", [], [key],
                                  value=numpy_helper.from_array(np.ascontiguousarray(value))), *nodes]
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", INPUTS, HEIGHT, WIDTH]),
             helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", CLASSES])]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:],
                              [numpy_helper.from_array(value, key) for key, value in tensors.items()])
    opset = opset_of(name)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9 if opset == 20 else 10)
    onnx.save(model, os.path.join(FOLDER, f"{name}.onnx"))


def train(mirror, tensors, x, passes=True):
    """The first outputs and the losses.  passes: whether the gradient passes the operator."""
    p = {key: T(value, dtype=torch.float64, requires_grad=True) for key, value in tensors.items()}
    optimizer, losses, first = torch.optim.SGD(p.values(), lr=0.01, momentum=0.9), [], None
    for _ in range(STEPS):
        optimizer.zero_grad()
        y = F.conv2d(x, p["conv.weight"], p["conv.bias"])
        y = mirror(y if passes else y.detach()).flatten(1) @ p["head.weight"].T + p["head.bias"]
        first = y.detach() if first is None else first
        loss = F.cross_entropy(y, torch.arange(COUNT) % CLASSES)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return first.numpy(), np.array(losses)


def main():
    failed = False
    os.makedirs(FOLDER, exist_ok=True)
    x = np.random.default_rng(1).standard_normal((COUNT, INPUTS, HEIGHT, WIDTH)).astype("f")
    x.transpose(0, 2, 3, 1).astype("<f4").tofile(os.path.join(FOLDER, "x.f32"))
    for name, (_, _, mirror) in NETWORKS.items():
        if len(sys.argv) > 1 and name not in sys.argv[1:]:
            continue
        double = T(x, dtype=torch.float64)
        size = mirror(F.conv2d(double, torch.zeros(CHANNELS, INPUTS, 1, 1, dtype=torch.float64))).flatten(1).shape[1]
        tensors = weights(size)
        write(name, tensors)
        first, losses = train(mirror, tensors, double)
        still = train(mirror, tensors, double, passes=False)[1]
        try:
            session = onnxruntime.InferenceSession(os.path.join(FOLDER, f"{name}.onnx"))
            y = session.run(None, {"x": x})[0]
            off = np.abs(y - first).max() / np.abs(first).max()
            if not np.isfinite(y).all():  # a logarithm of a sigmoid that is 0
                print(f"{name}: not finite in ONNX Runtime")
                off = 0
        except Exception as error:
            print(f"{name}: not run by ONNX Runtime: {str(error)[:150]}")
            off = 0
        least = np.abs(losses / still - 1).max()
        if not off < 1e-5 or not least > 1e-3:
            failed = True
            print(f"{name}: outputs differ by {off:.2g}, losses without gradient by {least:.2g}")
        losses.astype("<f4").tofile(os.path.join(FOLDER, f"{name}.f32"))
    sys.exit(failed)


if __name__ == "__main__":
    main()
