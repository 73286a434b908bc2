/* Small networks over values of any rank: views, parameters and constants that are read as values,
   reductions, and values that are joined (nets.h). */
#include "graph/given.h"
#include "graph/product.h"
#include "graph/softmax.h"
#include "train/nets.h"

enum { CONV_CHANNELS = 3 };

static dpt_value conv(dpt_model *m, dpt_value x, const char *name, size_t channels)
{
    return dpt_conv2d(m, x, name,
                      &(dpt_conv2d_options){.size = sizeof(dpt_conv2d_options),
                                            .out_channels = channels,
                                            .kernel = {3, 3},
                                            .padding = {1, 1}});
}

static dpt_value head(dpt_model *m, dpt_value x)
{
    return dpt_linear(
        m, dpt_flatten(m, x), "fc",
        &(dpt_linear_options){.size = sizeof(dpt_linear_options), .out = NET_CLASSES});
}

static dpt_value parameter(dpt_model *m, const char *name, const dpti_extents *shape)
{
    dpti_parameter p = {.rank = shape->rank, .role = DPTI_ROLE_TENSOR, .fan_in = 4, .fan_out = 4};
    for (size_t i = 0; i < shape->rank; i++)
        p.shape[i] = shape->extent[i];
    return dpti_read_parameter(m, dpti_build_named(m, name, p));
}

static dpt_value constant(dpt_model *m, const dpti_extents *shape)
{
    float data[CONV_CHANNELS * NET_SIDE * NET_SIDE];
    for (size_t i = 0; i < sizeof data / sizeof *data; i++)
        data[i] = 0.25f * (float)(i % 7) - 0.5f;
    return dpti_add_constant(m, shape, data);
}

static dpt_value sum_of(dpt_model *m, dpt_value x, uint32_t axes, dpt_map_reduction reduction)
{
    const dpti_map_code load = {.n_code = 1, .n_in = 1};
    return dpti_map(m, &(dpti_mapping){.what = "sum",
                                       .code = &load,
                                       .inputs = &x,
                                       .n = 1,
                                       .reduced = axes,
                                       .reduction = reduction});
}

/* Parts of a transposed image, forwards and backwards, that overlap in some elements and leave
   others out. */
dpt_value net_views(dpt_model *m, dpt_value x)
{
    const size_t order[DPT_MAX_RANK] = {1, 0, 2};
    dpt_value y = dpti_transpose(m, dpt_activate(m, conv(m, x, "c", 3), DPT_ACT_TANH), order);
    const dpt_value a = dpti_slice(m, y, (dpti_cut){.axis = 0, .count = 2, .step = 2});
    const dpt_value b = dpti_slice(m, y, (dpti_cut){.axis = 0, .begin = 2, .count = 2, .step = -1});
    y = dpti_formula(m, "a * b + tanh(a)", (dpt_value[]){a, b}, 2);
    y = dpti_slice(m, y, (dpti_cut){.axis = 2, .begin = 1, .count = 3, .step = 1});
    return head(m, dpti_reshape(m, y, &(dpti_extents){.rank = 2, .extent = {9, 2}}));
}

/* Shapes that broadcast, with a parameter, a part of a parameter and a constant. */
dpt_value net_broadcasts(dpt_model *m, dpt_value x)
{
    dpt_value y = conv(m, x, "c", 3);
    const dpt_value p =
        parameter(m, "scale", &(dpti_extents){.rank = 3, .extent = {4, 3, NET_SIDE}});
    const dpt_value part =
        dpti_slice(m, p, (dpti_cut){.axis = 0, .begin = 1, .count = 1, .step = 1});
    const dpt_value row =
        dpti_reshape(m, part, &(dpti_extents){.rank = 3, .extent = {3, 1, NET_SIDE}});
    const dpt_value c = constant(m, &(dpti_extents){.rank = 2, .extent = {NET_SIDE, NET_SIDE}});
    y = dpti_formula(m, "a * b + b * c", (dpt_value[]){y, row, c}, 3);
    const dpt_value column = sum_of(m, y, 4u, DPT_REDUCE_SUM);
    y = dpti_formula(m, "a - 0.25 * b", (dpt_value[]){y, column}, 2);
    y = dpti_expand(m, sum_of(m, y, 2u, DPT_REDUCE_SUM),
                    &(dpti_extents){.rank = 3, .extent = {3, 2, NET_SIDE}});
    return head(m, dpti_formula(m, "sigmoid(a) * a", &y, 1));
}

/* The largest and the smallest along axes, and parameters that only other parameters meet first. */
dpt_value net_extremes(dpt_model *m, dpt_value x)
{
    const dpt_value y = conv(m, x, "c", 4);
    const dpt_value most = sum_of(m, y, 6u, DPT_REDUCE_MAXIMUM);
    const dpt_value least = sum_of(m, y, 1u, DPT_REDUCE_MINIMUM);
    const dpti_extents four = {.rank = 3, .extent = {4, 1, 1}};
    const dpt_value a = parameter(m, "a", &four), b = parameter(m, "b", &four);
    const dpt_value ab = dpti_formula(m, "a * exp(b)", (dpt_value[]){a, b}, 2);
    return head(m, dpti_formula(m, "a * c - b", (dpt_value[]){most, least, ab}, 3));
}

/* Values that are concatenated, one of them twice, padded and spread out. */
dpt_value net_joins(dpt_model *m, dpt_value x)
{
    const dpt_value a = conv(m, x, "a", 2), b = dpt_activate(m, conv(m, x, "b", 1), DPT_ACT_RELU);
    const dpt_value cls = parameter(m, "c", &(dpti_extents){.rank = 3, .extent = {1, 1, NET_SIDE}});
    const dpt_value rows =
        dpti_expand(m, cls, &(dpti_extents){.rank = 3, .extent = {1, NET_SIDE, NET_SIDE}});
    dpt_value y = dpti_concatenate(m, (dpt_value[]){a, b, rows, a}, 4, 0);
    y = dpti_pad(
        m, y,
        &(dpti_padding){.before = {0, 1, 0}, .after = {0, 0, 2}, .gap = {0, 2}, .fill = 0.5f});
    y = dpt_batch_norm(m, dpti_as_image(m, y), "n", NULL);
    y = dpti_slice(m, y, (dpti_cut){.axis = 1, .begin = 1, .count = 3, .step = 2});
    return head(m, dpti_formula(m, "a * a", &y, 1));
}

/* The public functions (dptrain/tensor.h): a product with a parameter from either side, parts that
   are used in part, reductions of every kind, images and values in turns. */
dpt_value net_axes(dpt_model *m, dpt_value x)
{
    static const size_t pixels[] = {4, NET_SIDE * NET_SIDE}, wide[] = {NET_SIDE * NET_SIDE, 5},
                        left[] = {3, 4}, parts[] = {1, 2, 2}, cube[] = {3, 2, 3};
    dpt_value y = dpt_reshape(m, conv(m, x, "c", 4), pixels, 2), v[3];
    y = dpt_matmul(m, y, dpt_parameter(m, "w", wide, 2, NULL));
    y = dpt_matmul(m, dpt_parameter(m, "left", left, 2, NULL), y);
    dpt_split_axis(m, y, 1, parts, 3, v);
    const dpt_reduce_options mean = {
        .size = sizeof mean, .kind = DPT_REDUCTION_MEAN, .axes = {1}, .n_axes = 1, .keep = true};
    const dpt_reduce_options most = {
        .size = sizeof most, .kind = DPT_REDUCTION_MAX, .axes = {0}, .n_axes = 1};
    y = dpt_elementwise(
        m, "a * b + c",
        (dpt_value[]){v[1], dpt_reduce_axes(m, v[2], &mean), dpt_reduce_axes(m, v[1], &most)}, 3);
    y = dpt_concatenate(m, (dpt_value[]){y, dpt_softmax(m, y, 0), dpt_log_softmax(m, v[2], 1)}, 3,
                        1);
    y = dpt_batch_norm(m, dpt_as_image(m, dpt_reshape(m, y, cube, 3)), "n", NULL);
    return head(m, dpt_elementwise(m, "a * b", (dpt_value[]){y, dpt_reduce_axes(m, y, &most)}, 2));
}

/* Products of a value with its own transpose, with a value that is broadcast over the batch and is
   read backwards, and of parts of one value that leave other parts out; then the softmax along two
   axes. */
dpt_value net_products(dpt_model *m, dpt_value x)
{
    const size_t order[DPT_MAX_RANK] = {0, 2, 1};
    const dpt_value a = dpt_activate(m, conv(m, x, "c", CONV_CHANNELS), DPT_ACT_TANH);
    const dpt_value square = dpti_product(m, a, dpti_transpose(m, a, order));
    dpt_value b = dpt_activate(m, conv(m, x, "d", 2), DPT_ACT_RELU);
    b = dpti_slice(m, b, (dpti_cut){.axis = 0, .begin = 1, .count = 1, .step = 1});
    b = dpti_slice(m, b,
                   (dpti_cut){.axis = 1, .begin = NET_SIDE - 1, .count = NET_SIDE, .step = -1});
    dpt_value y = dpti_product(m, square, b);
    y = dpti_formula(m, "tanh(0.2 * a)", &y, 1);
    const dpt_value left = dpti_slice(m, y, (dpti_cut){.axis = 2, .count = 2, .step = 1});
    const dpt_value right =
        dpti_slice(m, y, (dpti_cut){.axis = 1, .begin = 1, .count = 2, .step = 1});
    y = dpti_product(m, left, right);
    y = dpti_product(m, dpti_transpose(m, y, order), y);
    y = dpti_softmax(m, y, &(dpti_softmax_options){.axis = 2});
    return head(m, dpti_softmax(m, y, &(dpti_softmax_options){.axis = 0, .log = true}));
}

/* Everything behind a reshape that needs a copy; a shared scale; an image made of a value. */
dpt_value net_reshapes(dpt_model *m, dpt_value x)
{
    const dpt_value s = parameter(m, "s", &(dpti_extents){.rank = 1, .extent = {1}});
    dpt_value y = dpti_reshape(m, conv(m, x, "c1", 4),
                               &(dpti_extents){.rank = 4, .extent = {2, 2, NET_SIDE, NET_SIDE}});
    const size_t order[DPT_MAX_RANK] = {1, 0, 2, 3};
    y = dpti_reshape(m, dpti_transpose(m, y, order),
                     &(dpti_extents){.rank = 3, .extent = {4, NET_SIDE, NET_SIDE}});
    y = dpti_formula(m, "a * b", (dpt_value[]){y, s}, 2);
    y = conv(m, dpti_as_image(m, y), "c2", 2);
    y = dpti_reshape(m, dpt_flatten(m, y), &(dpti_extents){.rank = 2, .extent = {8, 4}});
    y = dpt_dropout(m, dpti_formula(m, "a * b", (dpt_value[]){y, s}, 2), 0.2f);
    return head(m, dpt_activate(m, y, DPT_ACT_TANH));
}

/* A table that two embeddings and a linear layer share, ids that are cut out backwards, a mask, and
   ids that are the same for all samples. */
dpt_value net_embeddings(dpt_model *m, dpt_value x)
{
    enum { WIDTH = 4 };
    static const int32_t places[NET_IDS] = {3, 3, 1, 0, 2, 5};
    const dpti_extents row = {.rank = 1, .extent = {NET_IDS}},
                       column = {.rank = 2, .extent = {NET_IDS, 1}};
    const dpti_parameter like = {
        .rank = 2, .shape = {NET_VOCABULARY, WIDTH}, .role = DPTI_ROLE_TENSOR, .fan_in = WIDTH};
    const size_t table = dpti_build_named(m, "table", like),
                 place = dpti_build_named(m, "place", like);
    const dpt_value ids = dpti_reshape(m, x, &row);
    const dpt_value cut =
        dpti_slice(m, ids, (dpti_cut){.axis = 0, .begin = 5, .count = 3, .step = -2});
    const dpt_value a = dpti_given_embedding(m, ids, table),
                    b = dpti_given_embedding(m, cut, table);
    const dpt_value c = dpti_given_embedding(m, dpti_add_constant_ids(m, &row, places), place);
    const dpt_value all[] = {a, dpti_reshape(m, ids, &column), c};
    dpt_value y =
        sum_of(m, dpti_formula(m, "select(equal(b, 0), 0, a) + c", all, 3), 1u, DPT_REDUCE_SUM);
    y = dpti_formula(m, "tanh(a) * b", (dpt_value[]){y, b}, 2);
    y = dpti_given_linear(m, y, &(dpti_given){.weight = table, .bias = SIZE_MAX}, NET_VOCABULARY);
    return head(m, y);
}

/* Ids in the public functions: an embedding is an image of one row. */
dpt_value net_tokens(dpt_model *m, dpt_value x)
{
    dpt_value y = dpt_embedding(
        m, x, "e",
        &(dpt_embedding_options){.size = sizeof(dpt_embedding_options), .rows = 7, .width = 3});
    const dpt_value is_known = dpt_elementwise(m, "less(0, a)", &x, 1);
    y = dpt_conv2d(m, dpt_layer_norm(m, y, "n", NULL), "c",
                   &(dpt_conv2d_options){.size = sizeof(dpt_conv2d_options),
                                         .out_channels = 4,
                                         .kernel = {1, 1},
                                         .activation = DPT_ACT_TANH});
    y = dpt_linear(m, dpt_flatten(m, dpt_global_average_pool(m, y)), "h",
                   &(dpt_linear_options){.size = sizeof(dpt_linear_options), .out = NET_IDS});
    return head(m, dpt_elementwise(m, "a * b", (dpt_value[]){y, dpt_flatten(m, is_known)}, 2));
}

/* Scores for each token; the head has an activation of its own. */
dpt_value net_token_labels(dpt_model *m, dpt_value x)
{
    const dpt_value y = dpt_embedding(
        m, x, "e",
        &(dpt_embedding_options){.size = sizeof(dpt_embedding_options), .rows = 7, .width = 3});
    return dpt_conv2d(m, y, "c",
                      &(dpt_conv2d_options){.size = sizeof(dpt_conv2d_options),
                                            .out_channels = NET_CLASSES,
                                            .kernel = {1, 3},
                                            .padding = {0, 1},
                                            .activation = DPT_ACT_TANH});
}

/* The last layer is linear over tokens, so that logits are computed in chunks. */
dpt_value net_token_logits(dpt_model *m, dpt_value x)
{
    const dpt_value y = dpt_embedding(
        m, x, "e",
        &(dpt_embedding_options){.size = sizeof(dpt_embedding_options), .rows = 7, .width = 5});
    return dpt_sequence_linear(
        m, dpt_layer_norm(m, y, "n", NULL), "l",
        &(dpt_sequence_linear_options){.size = sizeof(dpt_sequence_linear_options),
                                       .out = NET_CLASSES});
}

/* Scores for each pixel. */
dpt_value net_pixels(dpt_model *m, dpt_value x)
{
    const dpt_value y = dpt_batch_norm(m, conv(m, x, "a", 4), "n", NULL);
    return conv(m, dpt_activate(m, y, DPT_ACT_RELU), "b", NET_CLASSES);
}

static size_t filters(dpt_model *m, const char *name, const size_t shape[4])
{
    dpti_parameter p = {.rank = 4,
                        .layout = DPTI_LAYOUT_CONV,
                        .fan_in = 4,
                        .fan_out = 4,
                        .h = shape[2],
                        .w = shape[3],
                        .c = shape[1]};
    for (size_t i = 0; i < 4; i++)
        p.shape[i] = shape[i];
    return dpti_build_named(m, name, p);
}

/* Transposed convolutions: in groups, with a row that no window reaches; of a value that
   another layer reads, too; and one that is dilated and padded. */
dpt_value net_transposed(dpt_model *m, dpt_value x)
{
    dpt_value y = dpt_activate(m, conv(m, x, "c", 4), DPT_ACT_TANH);
    const dpti_transposed in_groups = {
        .convolution = {.kernel = {2, 3}, .stride = {2, 1}, .padding = {0, 1}, .groups = 2},
        .out = {.h = 9, .w = 4, .c = 6}};
    const dpti_transposed dilated = {
        .convolution = {.kernel = {3, 2}, .padding = {1, 0}, .dilation = {2, 1}},
        .out = {.h = 6, .w = 5, .c = 2}};
    const dpt_value a = dpti_given_conv2d_transpose(
        m, y, &(dpti_given){.weight = filters(m, "g", (size_t[]){4, 3, 2, 3}), .bias = SIZE_MAX},
        &in_groups);
    const dpt_value b = dpti_given_conv2d_transpose(
        m, y, &(dpti_given){.weight = filters(m, "d", (size_t[]){4, 2, 3, 2}), .bias = SIZE_MAX},
        &dilated);
    const dpt_value sums[] = {sum_of(m, dpti_formula(m, "tanh(a)", &a, 1), 7u, DPT_REDUCE_SUM),
                              sum_of(m, b, 7u, DPT_REDUCE_SUM)};
    return head(m, dpti_formula(m, "a * (b + c) * 0.05", (dpt_value[]){y, sums[0], sums[1]}, 3));
}

static dpt_value convolve(dpt_model *m, dpt_value x, const dpti_given *given,
                          const dpt_conv2d_options *options)
{
    return dpti_given_conv2d(m, x, &(dpti_convolution){.given = given, .options = options});
}

/* Convolutions whose filters are computed: behind a convolution whose filters are a parameter, with
   a bias that is computed and that another layer reads, too, in groups, transposed, and one over
   two images a sample whose filters are constant although its bias is trained. */
dpt_value net_filters(dpt_model *m, dpt_value x)
{
    const dpti_extents shape = {.rank = 4, .extent = {4, 3, 3, 3}},
                       few = {.rank = 4, .extent = {4, 2, 2, 1}},
                       fixed = {.rank = 4, .extent = {3, 4, 1, 1}},
                       four = {.rank = 1, .extent = {4}}, three = {.rank = 1, .extent = {3}};
    const dpt_value w = parameter(m, "w", &shape), v = parameter(m, "v", &few),
                    b = parameter(m, "b", &four), u = parameter(m, "u", &three);
    const dpt_value squares = dpti_formula(m, "a * a", &w, 1);
    const dpt_value norm = sum_of(m, squares, 14u, DPT_REDUCE_SUM);
    dpti_given given = {.weight = SIZE_MAX,
                        .bias = SIZE_MAX,
                        .filters = dpti_formula(m, "a / sqrt(b + 0.1)", (dpt_value[]){w, norm}, 2),
                        .shift = dpti_formula(m, "2 * a", &b, 1)};
    const dpt_conv2d_options whole = {.size = sizeof whole,
                                      .out_channels = 4,
                                      .kernel = {3, 3},
                                      .padding = {1, 1},
                                      .activation = DPT_ACT_RELU};
    x = dpt_activate(m, conv(m, x, "c", 3), DPT_ACT_TANH);
    dpt_value y = convolve(m, x, &given, &whole);
    given = (dpti_given){
        .weight = SIZE_MAX, .bias = SIZE_MAX, .filters = dpti_formula(m, "tanh(a)", &v, 1)};
    const dpt_conv2d_options in_groups = {.size = sizeof in_groups,
                                          .out_channels = 4,
                                          .kernel = {2, 1},
                                          .groups = 2,
                                          .no_bias = true};
    const dpti_transposed enlarged = {.convolution = {.kernel = {2, 1}, .groups = 2},
                                      .out = {.h = NET_SIDE, .w = NET_SIDE, .c = 4}};
    const dpt_value narrow = convolve(m, y, &given, &in_groups);
    y = dpti_formula(m, "a + b * 0.5",
                     (dpt_value[]){y, dpti_given_conv2d_transpose(m, narrow, &given, &enlarged)},
                     2);
    given = (dpti_given){
        .weight = SIZE_MAX, .bias = SIZE_MAX, .filters = constant(m, &fixed), .shift = u};
    const dpt_conv2d_options single = {
        .size = sizeof single, .out_channels = 3, .kernel = {1, 1}, .activation = DPT_ACT_TANH};
    const dpti_convolution of_halves = {.given = &given, .options = &single, .images = 2};
    y = dpti_given_conv2d(m, dpti_as_image(m, y), &of_halves);
    const dpt_value shift = dpti_reshape(m, u, &(dpti_extents){.rank = 3, .extent = {3, 1, 1}});
    return head(m, dpti_formula(m, "a * b", (dpt_value[]){y, shift}, 2));
}
