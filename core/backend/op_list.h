/* The list of operators: the only place that registers one.  Names, tensors and capability stand in
   DPT_OP_LIST.  The formulas stand below the list.

   These are generated from the lists: the enumeration of kinds and the union of descriptions
   (operators.h), names and traits (helpers.h), signatures and with them the checks of dispatch
   (core/device/signature.c), the tables of preparations of every backend, the table of CUDA's
   element-wise kernels, and the cases of the conformance suite.

   This header has macros only and includes no other header, so that device code can include it.  A
   backend includes backend.h, which includes this header. */
#ifndef DPT_BACKEND_OP_LIST_H
#define DPT_BACKEND_OP_LIST_H

/* ---- Families -------------------------------------------------------------------------------- */

/* X(FAMILY, name).  Kinds of one family share the description dpt_NAME_desc, which is the member
   u.NAME of dpt_op_desc, and one function of core/device/signature.c. */
#define DPT_OP_FAMILY_LIST(X)                                                                      \
    X(GATHER, gather)                                                                              \
    X(CONV2D, conv2d)                                                                              \
    X(LINEAR, linear)                                                                              \
    X(POOL2D, pool2d)                                                                              \
    X(ACTIVATION, activation)                                                                      \
    X(DROPOUT, dropout)                                                                            \
    X(BATCH_NORM, batch_norm)                                                                      \
    X(LAYER_NORM, layer_norm)                                                                      \
    X(ROW_SOFTMAX, row_softmax)                                                                    \
    X(TAKE, take)                                                                                  \
    X(SOFTMAX, softmax)                                                                            \
    X(SQUARED_ERROR, squared_error)                                                                \
    X(ELEMENTWISE, elementwise)                                                                    \
    X(MAP, map)                                                                                    \
    X(MATMUL, matmul)                                                                              \
    X(RECURRENT, recurrent)                                                                        \
    X(ATTENTION, attention)                                                                        \
    X(SGD, sgd)                                                                                    \
    X(ADAMW, adamw)                                                                                \
    X(CLIP_NORM, clip_norm)                                                                        \
    X(CHECK_FINITE, check_finite)

/* ---- Capability ------------------------------------------------------------------------------ */

#define DPT_MARK_NONE 0x00u
/* Reads the step block at dpt_op_args.step.  GATHER does so with an augmentation only. */
#define DPT_MARK_STEP 0x01u
/* Honours dpt_op_args.halt: where the halt word is not 0, the operator writes nothing. */
#define DPT_MARK_HALT 0x02u
/* Works on whole tensors once a step: n is 1. */
#define DPT_MARK_PER_STEP 0x04u
/* Reads its outputs before it writes them, or may leave them as they are. */
#define DPT_MARK_UPDATES 0x08u
/* Core uses the operator in float32 on every device, also on one that stores bfloat16. */
#define DPT_MARK_ALSO_F32 0x10u
/* Element-wise operators: small integers give exact results, always or if alpha and beta are small
   integers.  Without either mark a result is rounded. */
#define DPT_MARK_EXACT         0x20u
#define DPT_MARK_EXACT_FACTORS 0x40u

/* ---- The list -------------------------------------------------------------------------------- */

/* X(KIND, name, FAMILY, in_place, marks, slots)

   KIND      DPT_OP_KIND is the kind in code.  Messages and logs say KIND.
   name      The same in lower case: the case of the conformance suite, the preparation of the CPU
             backend (prepare_NAME), and the kernel of an element-wise operator (dpt_NAME).
   in_place  The first so many inputs may each be the same tensor as the first output.
   marks     The sum of DPT_MARK_ values above.
   slots     The inputs in the order of dpt_op_args.in, and the outputs in the order of
               dpt_op_args.out:
               DPT_IN(slot, type, axis, size)   an input
               DPT_OUT(slot, type, axis, size)  an output, which is written over
               DPT_SUM(slot, type, axis, size)  an output that DPT_RUN_ACCUMULATE adds to
               DPT_PART(slot, type, axis, size) an output that is written over and, in a call with
                                                grains (dpt_op_args.grain), has a row of `size`
                                                elements for each grain
             DPT_IN_IF, DPT_OUT_IF and DPT_SUM_IF have a condition in front: without it there is no
             such slot, and the later slots move up.

   type      F32, I32 or U32.  T is desc.type, DPT_F32 or DPT_BF16.  DATA is desc.u.gather.dtype:
             U8, or F32 for images and I32 for labels.
   axis      N: `size` elements for each of the n samples of the call.  ALL: `size` elements in all.
   size      one, two  1, 2
             x, y      what a layer reads and writes: the count of an element-wise operator, an
                       activation, dropout or a loss; the classes of a softmax; h * w * channels of
                       an image; area * channels or rows * channels of a norm; rows * columns of a
                       row softmax; in and out of a linear layer; of a TAKE, x is the count of
                       indices and y is count * width; the labels of a record
             w, bias   a parameter: all weights, one value a channel or an output;
                       rows * width of a TAKE's table
             dw, dbias the gradient of one; smaller than w and bias for a slice (dpt_linear_desc)
             data      n_records * count
             moments   3 * channels of a batch-norm, 2 * rows of a layer-norm
             parts     n_parts * 3 * channels
             sums      2 * channels
             all_sums  n_parts * 2 * channels
             q, k      the queries; the keys, or the values, of an attention
             state     hidden
             gates     length * dpt_recurrent_saved * hidden
             cells     length * hidden
             lse       queries * heads
             (of ATTENTION, x is queries * (heads + 2 * key_heads) * width; q and y are queries *
             heads * width; k is keys * key_heads * width)
             (of RECURRENT, x is length * dpt_recurrent_gates * hidden; y is length * hidden, and
             hidden more with gives_cell; w is dpt_recurrent_rows * hidden * hidden; w_new is
             hidden * hidden; bias is dpt_recurrent_gates * hidden)
   condition has_bias, has_residual  the member of the description
             mask          input_activation is not NONE
             output_mask   output_activation is not NONE
             augmented     dpt_augments of the description
             from_input, from_output   the derivative of the activation is a function of its input,
                                       or of its output (dpt_activation_fuses)
             has_velocity  momentum > 0
             resets_before, resets_behind   the cell is GRU_BEFORE, or GRU
             has_initial, has_initial_cell  members: has_initial, and that of an LSTM
             is_packed, is_apart   the member `packed`, and its opposite
             saves_lse     no_gradient is not set
             saves_cells   the cell is LSTM, and no_gradient is not set
             saves_gates   the cell is not RNN, and no_gradient is not set
             reads_output, reads_initial    the cell is not LSTM, and reads_initial: nor RNN, and
                                            has_initial

   MAP, MAP_REDUCE and MATMUL have no slots in the list: their slots are the operands of the
   description. */
/* clang-format off */
#define DPT_OP_LIST(X) \
    X(GATHER, gather, GATHER, 0, DPT_MARK_STEP | DPT_MARK_ALSO_F32, \
        DPT_IN(data, DATA, ALL, data) DPT_IN(index, U32, N, one) \
        DPT_IN_IF(augmented, sample, U32, N, one) DPT_OUT(x, T, N, x)) \
    X(GATHER_LABELS, gather_labels, GATHER, 0, DPT_MARK_NONE, \
        DPT_IN(labels, DATA, ALL, data) DPT_IN(index, U32, N, one) DPT_OUT(label, I32, N, x)) \
    X(CONV2D_FORWARD, conv2d_forward, CONV2D, 0, DPT_MARK_NONE, \
        DPT_IN(x, T, N, x) DPT_IN(w, F32, ALL, w) DPT_IN_IF(has_bias, bias, F32, ALL, bias) \
        DPT_OUT(y, T, N, y)) \
    X(CONV2D_BACKWARD_DATA, conv2d_backward_data, CONV2D, 0, DPT_MARK_NONE, \
        DPT_IN(dy, T, N, y) DPT_IN(w, F32, ALL, w) DPT_IN_IF(mask, x, T, N, x) \
        DPT_SUM(dx, T, N, x)) \
    X(CONV2D_BACKWARD_WEIGHTS, conv2d_backward_weights, CONV2D, 0, DPT_MARK_NONE, \
        DPT_IN(dy, T, N, y) DPT_IN(x, T, N, x) \
        DPT_SUM(dw, F32, ALL, dw) DPT_SUM_IF(has_bias, dbias, F32, ALL, dbias)) \
    X(LINEAR_FORWARD, linear_forward, LINEAR, 0, DPT_MARK_ALSO_F32, \
        DPT_IN(x, T, N, x) DPT_IN(w, F32, ALL, w) DPT_IN_IF(has_bias, bias, F32, ALL, bias) \
        DPT_OUT(y, T, N, y)) \
    X(LINEAR_BACKWARD_DATA, linear_backward_data, LINEAR, 0, DPT_MARK_NONE, \
        DPT_IN(dy, T, N, y) DPT_IN(w, F32, ALL, w) DPT_IN_IF(mask, x, T, N, x) \
        DPT_SUM(dx, T, N, x)) \
    X(LINEAR_BACKWARD_WEIGHTS, linear_backward_weights, LINEAR, 0, DPT_MARK_NONE, \
        DPT_IN(dy, T, N, y) DPT_IN(x, T, N, x) \
        DPT_SUM(dw, F32, ALL, dw) DPT_SUM_IF(has_bias, dbias, F32, ALL, dbias)) \
    X(POOL2D_FORWARD, pool2d_forward, POOL2D, 0, DPT_MARK_NONE, \
        DPT_IN(x, T, N, x) DPT_OUT(y, T, N, y)) \
    X(POOL2D_BACKWARD, pool2d_backward, POOL2D, 0, DPT_MARK_NONE, \
        DPT_IN(dy, T, N, y) DPT_IN(x, T, N, x) DPT_SUM(dx, T, N, x)) \
    X(ACTIVATION_FORWARD, activation_forward, ACTIVATION, 0, DPT_MARK_NONE, \
        DPT_IN(x, T, N, x) DPT_OUT(y, T, N, y)) \
    X(ACTIVATION_BACKWARD, activation_backward, ACTIVATION, 1, DPT_MARK_NONE, \
        DPT_IN(dy, T, N, y) DPT_IN_IF(from_input, x, T, N, x) DPT_IN_IF(from_output, y, T, N, y) \
        DPT_SUM(dx, T, N, x)) \
    X(DROPOUT, dropout, DROPOUT, 1, DPT_MARK_STEP, \
        DPT_IN(x, T, N, x) DPT_IN(sample, U32, N, one) DPT_SUM(y, T, N, y)) \
    X(BATCH_NORM_PARTIAL, batch_norm_partial, BATCH_NORM, 0, DPT_MARK_NONE, \
        DPT_IN(x, T, N, x) DPT_PART(part, F32, ALL, moments)) \
    X(BATCH_NORM_MERGE, batch_norm_merge, BATCH_NORM, 0, DPT_MARK_STEP, \
        DPT_IN(parts, F32, ALL, parts) \
        DPT_OUT(moments, F32, ALL, moments) DPT_SUM(mean, F32, ALL, w) DPT_SUM(variance, F32, ALL, w)) \
    X(BATCH_NORM_FREEZE, batch_norm_freeze, BATCH_NORM, 0, DPT_MARK_PER_STEP, \
        DPT_IN(mean, F32, ALL, w) DPT_IN(variance, F32, ALL, w) DPT_OUT(moments, F32, ALL, moments)) \
    X(BATCH_NORM_FORWARD, batch_norm_forward, BATCH_NORM, 0, DPT_MARK_NONE, \
        DPT_IN(x, T, N, x) DPT_IN(moments, F32, ALL, moments) DPT_IN(w, F32, ALL, w) \
        DPT_IN(b, F32, ALL, bias) DPT_IN_IF(has_residual, residual, T, N, x) DPT_OUT(y, T, N, y)) \
    X(BATCH_NORM_BACKWARD_PARTIAL, batch_norm_backward_partial, BATCH_NORM, 0, DPT_MARK_NONE, \
        DPT_IN(dy, T, N, y) DPT_IN(x, T, N, x) DPT_IN(moments, F32, ALL, moments) \
        DPT_IN_IF(output_mask, w, F32, ALL, w) DPT_IN_IF(output_mask, b, F32, ALL, bias) \
        DPT_PART(part, F32, ALL, sums) DPT_SUM(dw, F32, ALL, w) DPT_SUM(db, F32, ALL, bias)) \
    X(BATCH_NORM_BACKWARD_DATA, batch_norm_backward_data, BATCH_NORM, 0, DPT_MARK_NONE, \
        DPT_IN(dy, T, N, y) DPT_IN(x, T, N, x) DPT_IN(moments, F32, ALL, moments) \
        DPT_IN(w, F32, ALL, w) DPT_IN(parts, F32, ALL, all_sums) \
        DPT_IN_IF(output_mask, b, F32, ALL, bias) DPT_SUM(dx, T, N, x)) \
    X(LAYER_NORM_FORWARD, layer_norm_forward, LAYER_NORM, 0, DPT_MARK_NONE, \
        DPT_IN(x, T, N, x) DPT_IN(w, F32, ALL, w) DPT_IN(b, F32, ALL, bias) \
        DPT_OUT(y, T, N, y) DPT_OUT(moments, F32, N, moments)) \
    X(LAYER_NORM_BACKWARD_DATA, layer_norm_backward_data, LAYER_NORM, 0, DPT_MARK_NONE, \
        DPT_IN(dy, T, N, y) DPT_IN(x, T, N, x) DPT_IN(moments, F32, N, moments) \
        DPT_IN(w, F32, ALL, w) DPT_SUM(dx, T, N, x)) \
    X(LAYER_NORM_BACKWARD_WEIGHTS, layer_norm_backward_weights, LAYER_NORM, 0, DPT_MARK_NONE, \
        DPT_IN(dy, T, N, y) DPT_IN(x, T, N, x) DPT_IN(moments, F32, N, moments) \
        DPT_SUM(dw, F32, ALL, w) DPT_SUM(db, F32, ALL, bias)) \
    X(ROW_SOFTMAX_FORWARD, row_softmax_forward, ROW_SOFTMAX, 0, DPT_MARK_NONE, \
        DPT_IN(x, T, N, x) DPT_OUT(y, T, N, y)) \
    X(ROW_SOFTMAX_BACKWARD, row_softmax_backward, ROW_SOFTMAX, 0, DPT_MARK_NONE, \
        DPT_IN(dy, T, N, y) DPT_IN(y, T, N, y) DPT_SUM(dx, T, N, x)) \
    X(TAKE_FORWARD, take_forward, TAKE, 0, DPT_MARK_ALSO_F32, \
        DPT_IN(table, F32, ALL, w) DPT_IN(index, I32, N, x) DPT_OUT(y, T, N, y)) \
    X(TAKE_BACKWARD, take_backward, TAKE, 0, DPT_MARK_ALSO_F32, \
        DPT_IN(dy, T, N, y) DPT_IN(index, I32, N, x) DPT_SUM(dtable, F32, ALL, dw)) \
    X(SOFTMAX_XENT, softmax_xent, SOFTMAX, 0, DPT_MARK_NONE, \
        DPT_IN(logits, T, N, x) DPT_IN(label, I32, N, one) DPT_OUT(result, F32, N, two)) \
    X(SOFTMAX_XENT_GRADIENT, softmax_xent_gradient, SOFTMAX, 0, DPT_MARK_STEP, \
        DPT_IN(logits, T, N, x) DPT_IN(label, I32, N, one) \
        DPT_OUT(result, F32, N, two) DPT_OUT(dlogits, T, N, x)) \
    X(SQUARED_ERROR, squared_error, SQUARED_ERROR, 0, DPT_MARK_ALSO_F32, \
        DPT_IN(y, T, N, y) DPT_IN(target, F32, N, y) DPT_OUT(result, F32, N, two)) \
    X(SQUARED_ERROR_GRADIENT, squared_error_gradient, SQUARED_ERROR, 0, DPT_MARK_STEP, \
        DPT_IN(y, T, N, y) DPT_IN(target, F32, N, y) \
        DPT_OUT(result, F32, N, two) DPT_OUT(dy, T, N, y)) \
    DPT_ELEMENTWISE_LIST(X) \
    X(MAP, map, MAP, 0, DPT_MARK_ALSO_F32 | DPT_MARK_UPDATES, /* slots: dpt_map_desc */) \
    X(MAP_REDUCE, map_reduce, MAP, 0, DPT_MARK_ALSO_F32 | DPT_MARK_UPDATES, /* slots: dpt_map_desc */) \
    X(MATMUL, matmul, MATMUL, 0, DPT_MARK_UPDATES, /* slots: dpt_matmul_desc */) \
    X(RECURRENT_FORWARD, recurrent_forward, RECURRENT, 0, DPT_MARK_NONE, \
        DPT_IN(x, T, N, x) DPT_IN(w, F32, ALL, w) \
        DPT_IN_IF(resets_before, w_new, F32, ALL, w_new) \
        DPT_IN_IF(has_bias, bias, F32, ALL, bias) DPT_IN_IF(has_initial, h0, T, N, state) \
        DPT_IN_IF(has_initial_cell, c0, T, N, state) DPT_OUT(y, T, N, y) \
        DPT_OUT_IF(saves_gates, gates, T, N, gates) DPT_OUT_IF(saves_cells, cells, F32, N, cells)) \
    X(RECURRENT_BACKWARD, recurrent_backward, RECURRENT, 0, DPT_MARK_NONE, \
        DPT_IN(dy, T, N, y) DPT_IN_IF(reads_output, y, T, N, y) \
        DPT_IN_IF(saves_gates, gates, T, N, gates) DPT_IN_IF(saves_cells, cells, F32, N, cells) \
        DPT_IN(w, F32, ALL, w) DPT_IN_IF(resets_before, w_new, F32, ALL, w_new) \
        DPT_IN_IF(reads_initial, h0, T, N, state) DPT_IN_IF(has_initial_cell, c0, T, N, state) \
        DPT_OUT(dx, T, N, x) DPT_OUT_IF(resets_behind, dq, T, N, x) \
        DPT_OUT_IF(has_initial, dh0, T, N, state) DPT_OUT_IF(has_initial_cell, dc0, T, N, state)) \
    X(ATTENTION_FORWARD, attention_forward, ATTENTION, 0, DPT_MARK_NONE, \
        DPT_IN_IF(is_packed, x, T, N, x) DPT_IN_IF(is_apart, q, T, N, q) \
        DPT_IN_IF(is_apart, k, T, N, k) DPT_IN_IF(is_apart, v, T, N, k) \
        DPT_OUT(y, T, N, q) DPT_OUT_IF(saves_lse, lse, F32, N, lse)) \
    X(ATTENTION_BACKWARD, attention_backward, ATTENTION, 0, DPT_MARK_NONE, \
        DPT_IN(dy, T, N, q) DPT_IN(y, T, N, q) DPT_IN(lse, F32, N, lse) \
        DPT_IN_IF(is_packed, x, T, N, x) DPT_IN_IF(is_apart, q, T, N, q) \
        DPT_IN_IF(is_apart, k, T, N, k) DPT_IN_IF(is_apart, v, T, N, k) \
        DPT_SUM_IF(is_packed, dx, T, N, x) DPT_SUM_IF(is_apart, dq, T, N, q) \
        DPT_SUM_IF(is_apart, dk, T, N, k) DPT_SUM_IF(is_apart, dv, T, N, k)) \
    X(SGD, sgd, SGD, 0, DPT_MARK_STEP | DPT_MARK_HALT | DPT_MARK_PER_STEP | DPT_MARK_UPDATES, \
        DPT_IN(gradient, F32, ALL, w) \
        DPT_OUT(w, F32, ALL, w) DPT_OUT_IF(has_velocity, velocity, F32, ALL, w)) \
    X(ADAMW, adamw, ADAMW, 0, DPT_MARK_STEP | DPT_MARK_HALT | DPT_MARK_PER_STEP | DPT_MARK_UPDATES, \
        DPT_IN(gradient, F32, ALL, w) \
        DPT_OUT(w, F32, ALL, w) DPT_OUT(m, F32, ALL, w) DPT_OUT(v, F32, ALL, w)) \
    X(CLIP_NORM, clip_norm, CLIP_NORM, 0, DPT_MARK_PER_STEP | DPT_MARK_UPDATES, \
        DPT_OUT(gradient, F32, ALL, w)) \
    X(CHECK_FINITE, check_finite, CHECK_FINITE, 0, DPT_MARK_UPDATES, \
        DPT_IN(x, F32, N, x) DPT_OUT(halt, F32, ALL, one))

/* The element-wise operators, which are part of DPT_OP_LIST.  Their slots have type T, axis N and
   size x.  The first output may be a sum. */
#define DPT_ELEMENTWISE_LIST(X) \
    X(MULTIPLY, multiply, ELEMENTWISE, 2, DPT_MARK_ALSO_F32 | DPT_MARK_EXACT, \
        DPT_IN(a, T, N, x) DPT_IN(b, T, N, x) DPT_OUT(c, T, N, x)) \
    X(ADD, add, ELEMENTWISE, 2, DPT_MARK_ALSO_F32 | DPT_MARK_EXACT_FACTORS | DPT_MARK_HALT, \
        DPT_IN(a, T, N, x) DPT_IN(b, T, N, x) DPT_OUT(c, T, N, x)) \
    X(AFFINE, affine, ELEMENTWISE, 1, DPT_MARK_ALSO_F32 | DPT_MARK_EXACT_FACTORS, \
        DPT_IN(a, T, N, x) DPT_OUT(c, T, N, x))
/* clang-format on */

/* ---- What the operators compute -------------------------------------------------------------- */

/* Tensors.  All tensors are dense.  Activations are NHWC.  Filters are OHWI with
     I = in_channels / groups.  The weights of a linear layer are (out, in).  n is the number of
     samples of the call.

   Types.  T is the type of activations and of their gradients.  A value that is stored as bfloat16
     is rounded once.  Computing, summing and accumulating are done in float32, or in the type in
     which a matrix product of bfloat16 inputs sums up.  Weights, and biases that are added to such
     a product, may be rounded before (dpt_op_info.input_rounding).  A device whose info names
     DPT_BF16 takes operators of either type, because targets, running statistics, arrays and what
     core measures with are float32 everywhere.

   Mask.  desc.input_activation names the activation whose OUTPUT is the forward input x.  A
     backward-data operator multiplies dx by the derivative of this activation, taken from x.  dx is
     then the gradient before the activation.  When the operator accumulates, the mask applies to
     the whole sum.

   GATHER: x = (value - mean) * scale, of the records that `index` names.  With an augmentation
     (dpt_augment) the third input, `sample`, keys the random numbers.  GATHER_LABELS: label =
     value, `count` values a record.

   CONV2D: y = activation(x * w + bias).  LINEAR: the same, with a matrix product.

   POOL2D: a maximum or an average of each window.  MAX sends its gradient to the first maximum of
     the window, in row-major order.

   ACTIVATION: dpt_activation (dpt_types.h) has the formulas.

   DROPOUT: y = x / (1 - p) for elements that are kept, else 0.  Element e of a sample is kept where
     u >= p.  u is (word e % 4 >> 8) * 2^-24 of Philox4x32-10 (Salmon et al., SC 2011) with counter
     (e / 4, sample, epoch, desc.stream) and key (seed_low, seed_high).  The backward pass is the
     same operator, applied to dy.

   BATCH_NORM: x, y, dy, dx and residual are (n, area, channels).  c is the number of channels.
     PARTIAL: a part (3,c) is count (n * area, in every channel), mean, and M2, the sum of squared
       deviations from that mean, of this device's values.  All are zero where n is 0.
     MERGE combines the parts (n_parts,3,c) in their order (Chan, Golub, LeVeque 1979) in double
       precision.  moments (3,c) are mean, 1 / sqrt(M2 / count + epsilon) and 1 / count of all
       parts. Where all counts are 0, the mean and 1 / count are 0.  `mean` and `variance` (M2 /
       (count - 1), 0 where count is 1) are multiplied by n * inv_batch, so that their sum over
       devices is the mean weighted by samples.  With n 0 they add nothing, and moments are written
       all the same.
     FREEZE makes moments from running statistics.  Its third row is zero.
     FORWARD: y = activation(bn(x) + residual), with bn(x) = w * xhat + b and
       xhat = (x - mean) * inverse deviation, both from moments.
     BACKWARD_PARTIAL: a part (2,c) is the sum of dy and the sum of dy * xhat over this device's
       values. db and dw are the same sums.
     BACKWARD_DATA: dx = w * inverse deviation * (dy - (S0 + xhat * S1) / count), where S is the
       sum of the parts (n_parts,2,c).
     dy is the gradient before the activation: its derivative has been applied.  dy is therefore the
       gradient of the residual too.  With output_activation, a ReLU, that derivative has not been
       applied.  Both backward operators then read w and b, and multiply dy by 1 where
       fma(x - mean, inverse deviation * w, b) in float32 is positive, else by 0.

   LAYER_NORM normalises each row of c values: y = w * xhat + b.  moments (n,rows,2) are the mean
     and 1 / sqrt(variance + epsilon) of each row.  The variance is divided by c.

   ROW_SOFTMAX: x, y, dy and dx are (n, rows, columns).  Each row is computed by itself.
     FORWARD: y = exp(x - m) / s with m = max(x) and s = sum(exp(x - m)) of the row.  With `log`,
       y = x - m - log(s).  A row without a finite maximum, and a row with a NaN, becomes NaN.
     BACKWARD: dx = y * (dy - sum(dy * y)).  With `log`, dx = dy - exp(y) * sum(dy).

   TAKE: y (n, count, width) are the rows of table (rows, width) that index (n, count) names.
     FORWARD: y[s, i] = table[index[s, i]].  An index that is negative or not below `rows` makes all
       elements of y[s, i] NaN.
     BACKWARD: dtable[r] = sum of dy[s, i] over all s and i with index[s, i] = r, in the order of s
       and then of i.  Rows that no index names become 0.  An index that is out of range adds
       nothing.  When it accumulates, each dy is added to what dtable has.

   SOFTMAX_XENT: result (n,2) is the loss of a sample and a hit, 0 or 1.  The loss is
     -sum(target * log softmax(logits)), computed with the maximum subtracted.  It is a hit if the
     label's logit is greater than every other; of equal logits the first one counts.
     dlogits = (softmax - target) * inv_labels, target = (1 - smoothing) * onehot + smoothing /
     classes.  A negative label is ignored: result and dlogits are 0.  n is the number of labels.

   SQUARED_ERROR: result (n,2) is the loss of a sample, the mean of (y - target)^2, and 0.
     dy = 2 / count * (y - target) * inv_batch.

   MULTIPLY: c = a * b.   ADD: c = alpha * a + beta * b.   AFFINE: c = alpha * a + beta.

   MAP computes a program of up to DPT_MAP_LENGTH instructions for every index of a space of up to
     DPT_MAX_RANK axes, of every sample.  Every instruction gives a float32.  An operand, which is
   an input or an output, has at index (i0, i1, ...) of a sample the element offset + i0 * stride[0]
   + i1 * stride[1] + ... of the sample's elements.  With strides an input is transposed, sliced,
     reversed or broadcast, and an output is written in part: its other elements keep their values.
     U8 and integer outputs get the value without its fraction.

   MAP_REDUCE combines the values of the program over all axes along which the output has the
     stride 0: the sum, the product, the maximum or the minimum.  A sum whose output has no sample
     axis is over all samples too.  A maximum or minimum of values with a NaN is NaN.

   MATMUL computes, for each sample s, each index (b0, b1, b2) of the batch, each row i and each
     column j,
       y[s, b, i, j] = alpha * sum over l of a[s, b, i, l] * b[s, b, l, j].
     An operand (dpt_matmul_operand) has an index of the batch and of its matrix at the element
     offset + b0 * batch_stride[0] + b1 * batch_stride[1] + b2 * batch_stride[2] + row * row_stride
     + column * column_stride of the sample's elements.  An operand that is not per sample is one
     tensor of float32 for all samples.  With a stride of 0, a and b are broadcast along an axis.
     With the strides of its rows and columns exchanged, an operand is transposed.  The gradients of
     a and b are therefore MATMUL, too.  Elements of y that no index names keep their values.  The
     bits of a sample's result do not depend on the other samples of the call.

   RECURRENT carries a state along a sequence.  x (n, length, G, hidden) is what each element of the
     sequence adds to the G gates: inputs times weights, with biases.  Block place[g] of x, of the
     rows of w and of the bias belongs to gate g.  h(t) and c(t) are the states at the place t of
   the sequence; the state before the first place is h0 and c0, or 0.  With `reverse` the sequence
   is walked from its end to its begin, and "before" means the place t + 1.  f, g and k are
     activation[0], activation[1] and activation[2].  The states are float32 until they are stored.
     FORWARD: for each t in order, with h = h(before t), c = c(before t) and q = w h (+ bias),
       RNN         h(t) = f(x + q)
       LSTM        i, s, o = f(x + q) and u = g(x + q) for the gates i, s, u, o in this order;
                   c(t) = s * c + i * u;  h(t) = o * k(c(t))
       GRU         r, z = f(x + q) and u = g(x + r * q) for the gates r, z, u in this order;
                   h(t) = (1 - z) * u + z * h
       GRU_BEFORE  the same with u = g(x + w_new (r * h)).  w has the rows of r and z only, and u is
                   the block 2.
       y (n, length, hidden) are the h(t).  With gives_cell, c at the last place walked follows.
       gates (n, length, saved, hidden) are i, s, u, o, or r, z, u and, of a GRU, q of the gate u.
       cells (n, length, hidden) are the c(t).
     BACKWARD: dx is the gradient of x.  dq is the gradient of q, which differs from dx in the gate
       u of a GRU only; it is an output of a GRU alone.  dh0 and dc0 are the gradients of the
   initial states.  The gradient of w is dx (or dq) times h(before t), summed over all t and
   samples, which is a LINEAR_BACKWARD_WEIGHTS; that of the bias too. The bits of a sample's result
   do not depend on the other samples of the call.

   ATTENTION reads values by the likeness of queries and keys.  No matrix of all scores is stored.
     q and y (n, queries, heads, width), k and v (n, keys, key_heads, width) are tensors of their
     own; or, if packed, the parts of each row of x (n, queries, (heads + 2 * key_heads) * width):
     first the queries, then the keys, then the values.  Head h reads the keys and values of head
     h / (heads / key_heads).  Query i reads the keys j <= i + keys - queries if causal, and else
   all keys.  The sums below are over these keys, or over the queries that read a key and the heads
     that read its head.
     FORWARD: for each head and query, with s(j) = scale * (q . k(j)),
         lse = log(sum of exp(s(j))),  p(j) = exp(s(j) - lse),  y = sum of p(j) * v(j).
       lse is (n, heads, queries).  Scores are above -1e38.
     BACKWARD: with p and s of FORWARD, and ds(j) = p(j) * (dy . v(j) - dy . y),
         dq = scale * sum of ds(j) * k(j),  dk(j) = scale * sum of ds(j) * q,
         dv(j) = sum of p(j) * dy.
       dx has the layout of x.  The bits of a sample's result do not depend on the other samples of
       the call.

   SGD is PyTorch's:  g += weight_decay * w for the first decay_count elements;
     velocity = momentum * velocity + g;  g = nesterov ? g + momentum * velocity : velocity;
     w -= lr * g.

   ADAMW is PyTorch's:  w -= lr * weight_decay * w for the first decay_count elements;
     m = beta1 * m + (1 - beta1) * g;  v = beta2 * v + (1 - beta2) * g * g;
     w -= lr * adam_scale_m * m / (sqrt(v) * adam_scale_v + epsilon).

   CLIP_NORM: gradient *= min(1, max_norm / (norm + 1e-6)), as PyTorch's clip_grad_norm_.  norm is
     the square root of the sum of squares of all elements, summed in double precision.

   CHECK_FINITE: halt = 1 if any x is infinite or not a number.  Else halt keeps its value. */

#endif
