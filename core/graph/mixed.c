/* Programs that mix images and losses (mixed.h). */
#include "graph/mixed.h"

/* The numbers of a sample's draw (train/components/mix.h) that a program reads. */
static dpt_map_operand draw_of(const dpti_compiler *c, size_t offset)
{
    return (dpt_map_operand){
        .type = DPT_F32, .sampled = true, .size = dpti_mix_elements(c->options), .offset = offset};
}

/* inputs own, other, the rows' numbers and the columns' numbers */
static void take_image_program(dpt_map_desc *d)
{
    static const dpt_map_instruction code[] = {
        {.code = DPT_MAP_LOAD, .index = 0},         {.code = DPT_MAP_LOAD, .index = 1},
        {.code = DPT_MAP_LOAD, .index = 2},         {.code = DPT_MAP_LOAD, .index = 3},
        {.code = DPT_MAP_MULTIPLY, .a = 2, .b = 3}, {.code = DPT_MAP_CONSTANT, .constant = 1.0f},
        {.code = DPT_MAP_SUBTRACT, .a = 5, .b = 4}, {.code = DPT_MAP_MULTIPLY, .a = 0, .b = 6},
        {.code = DPT_MAP_MULTIPLY, .a = 1, .b = 4}, {.code = DPT_MAP_ADD, .a = 7, .b = 8},
    };
    d->n_code = sizeof code / sizeof *code;
    for (uint8_t i = 0; i < d->n_code; i++)
        d->code[i] = code[i];
    d->value[0] = d->n_code - 1;
}

dpt_status dpti_emit_mixed_images(dpti_compiler *c, int own, int other, int out)
{
    const dpt_dataset *data = c->options->data;
    const size_t elements = c->model->nodes[c->model->input].elements;
    const size_t h = data->height, w = data->width, channels = elements / (h * w);
    const dpt_map_operand image = {.type = c->options->type,
                                   .sampled = true,
                                   .size = elements,
                                   .stride = {(int32_t)(w * channels), (int32_t)channels, 1}};
    dpt_map_operand rows = draw_of(c, 2), columns = draw_of(c, 2 + h);
    rows.stride[0] = columns.stride[1] = 1;
    dpti_instruction mix = {.desc = {.kind = DPT_OP_MAP,
                                     .type = c->options->type,
                                     .u.map = {.rank = 3,
                                               .extent = {h, w, channels},
                                               .n_in = 4,
                                               .n_out = 1,
                                               .in = {image, image, rows, columns},
                                               .out = {image}}},
                            .layer = "input"};
    take_image_program(&mix.desc.u.map);
    return DPTI_EMIT(c, mix, ((int[]){own, other, c->mix, c->mix}), ((int[]){out}));
}

/* own weight + other (1 - weight), over `count` elements of this type.  Each element has the first
   weight of the draw, or its own. */
static dpti_instruction weighted_sum(const dpti_compiler *c, size_t count, dpt_dtype type,
                                     bool one_weight)
{
    const dpt_map_operand value = {.type = type, .sampled = true, .size = count, .stride = {1}};
    dpt_map_operand weight = draw_of(c, 0);
    weight.stride[0] = one_weight ? 0 : 1;
    return (dpti_instruction){
        .desc = {.kind = DPT_OP_MAP,
                 .type = type,
                 .u.map = {.rank = 1,
                           .extent = {count},
                           .n_in = 3,
                           .n_out = 1,
                           .n_code = 8,
                           .value = {7},
                           .in = {value, value, weight},
                           .out = {value},
                           .code = {{.code = DPT_MAP_LOAD, .index = 0},
                                    {.code = DPT_MAP_LOAD, .index = 1},
                                    {.code = DPT_MAP_LOAD, .index = 2},
                                    {.code = DPT_MAP_CONSTANT, .constant = 1.0f},
                                    {.code = DPT_MAP_SUBTRACT, .a = 3, .b = 2},
                                    {.code = DPT_MAP_MULTIPLY, .a = 0, .b = 2},
                                    {.code = DPT_MAP_MULTIPLY, .a = 1, .b = 4},
                                    {.code = DPT_MAP_ADD, .a = 5, .b = 6}}}},
        .layer = "loss"};
}

dpt_status dpti_emit_mixed_loss(dpti_compiler *c, const dpti_two_losses *two, int rows,
                                int gradient)
{
    const size_t classes = c->model->nodes[c->model->logits].elements;
    DPT_TRY(DPTI_EMIT(c, weighted_sum(c, classes, c->options->type, true),
                      ((int[]){two->gradients[0], two->gradients[1], c->mix}),
                      ((int[]){gradient})));
    return DPTI_EMIT(c, weighted_sum(c, 2, DPT_F32, false),
                     ((int[]){two->rows[0], two->rows[1], c->mix}), ((int[]){rows}));
}
