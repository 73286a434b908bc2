/* Tests the compiler and the memory plan without a device: every tensor is written before it is
   read, no two tensors that are alive at the same time overlap, gradients are complete, and
   inference needs less memory. */
#include "context/context.h"
#include "device/signature.h"
#include "dptrain_models.h"
#include "graph/program.h"
#include "harness.h"

#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 7, WORKSPACE = 5000 };

static dpt_dataset data = {.name = "none",
                           .count = 10,
                           .n_records = 10,
                           .height = 12,
                           .width = 12,
                           .channels = 2,
                           .classes = 3,
                           .dtype = DPT_U8,
                           .stat_channels = 1};

/* ---- Networks -------------------------------------------------------------------------------- */

static dpt_value convolution(dpt_model *m, dpt_value x, const char *name, size_t channels,
                             dpt_activation activation)
{
    return dpt_conv2d(m, x, name,
                      &(dpt_conv2d_options){.size = sizeof(dpt_conv2d_options),
                                            .out_channels = channels,
                                            .kernel = {3, 3},
                                            .padding = {1, 1},
                                            .activation = activation});
}

static dpt_value head(dpt_model *m, dpt_value x)
{
    x = dpt_flatten(m, x);
    return dpt_linear(m, x, "head",
                      &(dpt_linear_options){.size = sizeof(dpt_linear_options), .out = 3});
}

static dpt_value chain(dpt_model *m, dpt_value x)
{
    x = convolution(m, x, "a", 4, DPT_ACT_RELU);
    x = dpt_pool2d(m, x,
                   &(dpt_pool2d_options){.size = sizeof(dpt_pool2d_options), .kernel = {2, 2}});
    x = dpt_activate(m, convolution(m, x, "b", 5, DPT_ACT_NONE), DPT_ACT_TANH);
    return head(m, x);
}

static dpt_value residual(dpt_model *m, dpt_value x)
{
    x = convolution(m, x, "a", 4, DPT_ACT_RELU);
    dpt_value y = convolution(m, x, "b", 4, DPT_ACT_NONE);
    x = dpt_activate(m, dpt_add(m, x, y), DPT_ACT_RELU);
    y = dpt_add(m, x, x);
    return head(m, dpt_add(m, y, convolution(m, y, "c", 4, DPT_ACT_SIGMOID)));
}

static dpt_value normalised(dpt_model *m, dpt_value x)
{
    x = dpt_batch_norm(m, convolution(m, x, "a", 4, DPT_ACT_NONE), "a.norm", NULL);
    dpt_value y = convolution(m, dpt_activate(m, x, DPT_ACT_RELU), "b", 4, DPT_ACT_NONE);
    y = dpt_add(m, dpt_batch_norm(m, y, "b.norm", NULL), x);
    x = dpt_activate(m, dpt_layer_norm(m, y, "c.norm", NULL), DPT_ACT_GELU);
    return head(m, dpt_dropout(m, x, 0.5f));
}

/* A shortcut with a convolution, behind a layer that both branches read. */
static dpt_value projected(dpt_model *m, dpt_value x)
{
    const dpt_norm_options relu = {.size = sizeof relu, .activation = DPT_ACT_RELU};
    x = dpt_batch_norm(m, convolution(m, x, "a", 4, DPT_ACT_NONE), "a.norm", &relu);
    dpt_value y = dpt_batch_norm(m, convolution(m, x, "b", 4, DPT_ACT_NONE), "b.norm", &relu);
    y = dpt_batch_norm(m, convolution(m, y, "c", 4, DPT_ACT_NONE), "c.norm", NULL);
    x = dpt_batch_norm(m, convolution(m, x, "d", 4, DPT_ACT_NONE), "d.norm", NULL);
    return head(m, dpt_activate(m, dpt_add(m, y, x), DPT_ACT_RELU));
}

/* What a network is compiled for. */
typedef struct purpose {
    dpt_dtype type;
    size_t n_parts;
    bool at_once; /* no filters are held back */
    bool single_launch;
    bool recompute;
    dpt_loss loss;
} purpose;

typedef struct built {
    dpt_context context;
    dpt_model *model;
    dpti_program training, inference;
} built;

static bool build(test *t, dpt_value (*network)(dpt_model *, dpt_value), purpose p, built *b)
{
    dpt_error error = {0};
    *b = (built){0};
    if (!CHECK_OK(dpt_model_create(&b->context, "net", &b->model))) return false;
    const dpt_value x = dpt_input(b->model, 12, 12, 2);
    if (!CHECK_OK(dpt_model_finish(b->model, network(b->model, x)))) return false;
    const dpti_program_options options = {.data = &data,
                                          .purpose = DPTI_PURPOSE_TRAIN,
                                          .type = p.type,
                                          .n_parts = p.n_parts,
                                          .holds_filters = !p.at_once,
                                          .single_launch = p.single_launch,
                                          .recompute = p.recompute,
                                          .loss = p.loss,
                                          .optimizer = {.momentum = 0.9f}};
    const dpti_program_options inference = {.data = &data, .type = p.type, .loss = p.loss};
    return CHECK_OK(dpti_compile(b->model, &options, &b->training, &error)) &&
           CHECK_OK(dpti_compile(b->model, &inference, &b->inference, &error));
}

static void release(built *b)
{
    dpti_program_free(&b->training);
    dpti_program_free(&b->inference);
    dpt_model_destroy(b->model);
}

/* ---- Checks ---------------------------------------------------------------------------------- */

static bool is_arena(const dpti_program *p, int tensor)
{
    return tensor != DPTI_NO_TENSOR && p->tensors[tensor].home == DPTI_HOME_ARENA;
}

/* A tensor is as large as the slot that it is bound to, whoever wrote it: types agree. */
static void check_size(test *t, const dpti_program *p, int tensor, const dpti_slot *slot)
{
    if (!is_arena(p, tensor)) return;
    const size_t bytes = dpt_dtype_bytes(slot->dtype);
    if (!CHECK_SIZE(p->tensors[tensor].per_sample_bytes, slot->per_sample * bytes) ||
        !CHECK_SIZE(p->tensors[tensor].fixed_bytes, slot->fixed * bytes))
        FAIL("%s", slot->name);
}

/* Parts are gathered behind the last instruction of a segment: all there is of a part then. */
static void gather_parts(test *t, const dpti_program *p, size_t behind, bool *written)
{
    for (size_t s = 0; s < p->n_segments; s++) {
        const dpti_segment *segment = &p->segments[s];
        if (segment->last != behind) continue;
        for (size_t i = 0; i < segment->n_parts; i++) {
            const dpti_part *part = &segment->parts[i];
            CHECK(written[part->part] && !written[part->parts]);
            CHECK_SIZE(p->tensors[part->part].fixed_bytes, 4 * part->count);
            if (segment->exchange == DPTI_EXCHANGE_TAKE) written[part->parts] = true;
        }
    }
}

/* Slots are those of the operator's signature, inputs have been written, accumulation has something
   to add to. */
static void check_order(test *t, const dpti_program *p)
{
    bool *written = calloc(p->n_tensors, sizeof *written);
    REQUIRE(written);
    for (size_t i = 0; i < p->n_instructions; i++) {
        gather_parts(t, p, i, written);
        const dpti_instruction *ins = &p->instructions[i];
        dpti_signature signature;
        CHECK_OK(dpti_op_signature(&ins->desc, &signature, NULL));
        for (size_t s = 0; s < DPT_MAX_INPUTS; s++) {
            CHECK((ins->in[s] != DPTI_NO_TENSOR) == (s < signature.n_in));
            check_size(t, p, ins->in[s], &signature.in[s]);
            if (is_arena(p, ins->in[s])) CHECK(written[ins->in[s]]);
        }
        for (size_t s = 0; s < DPT_MAX_OUTPUTS; s++) {
            CHECK((ins->out[s] != DPTI_NO_TENSOR) == (s < signature.n_out));
            check_size(t, p, ins->out[s], &signature.out[s]);
            if (!is_arena(p, ins->out[s])) continue;
            if (ins->flags & DPT_RUN_ACCUMULATE) CHECK(written[ins->out[s]]);
            written[ins->out[s]] = true;
        }
    }
    free(written);
}

typedef struct region {
    size_t first, last, begin, end;
} region;

static void check_plan(test *t, const dpti_program *p, size_t *arena_bytes)
{
    dpti_plan plan = {0};
    size_t n = 0, workspace[512];
    region regions[1024];
    REQUIRE(p->n_instructions <= 512 && p->n_tensors + p->n_instructions <= 1024);
    for (size_t i = 0; i < p->n_instructions; i++)
        workspace[i] = i % 3 ? WORKSPACE + i : 0;
    REQUIRE_OK(dpti_plan_memory(&(dpti_plan_request){p, SAMPLES, workspace}, &plan, NULL));
    for (size_t i = 0; i < p->n_tensors; i++)
        if (p->tensors[i].home == DPTI_HOME_ARENA)
            regions[n++] =
                (region){p->tensors[i].first, p->tensors[i].last, plan.tensor_offsets[i],
                         plan.tensor_offsets[i] + SAMPLES * p->tensors[i].per_sample_bytes +
                             p->tensors[i].fixed_bytes};
    for (size_t i = 0; i < p->n_instructions; i++)
        if (workspace[i])
            regions[n++] =
                (region){i, i, plan.workspace_offsets[i], plan.workspace_offsets[i] + workspace[i]};
    for (size_t a = 0; a < n; a++) {
        CHECK(regions[a].begin % 256 == 0);
        CHECK(regions[a].end <= plan.arena_bytes);
        for (size_t b = 0; b < a; b++)
            if (regions[a].first <= regions[b].last && regions[b].first <= regions[a].last)
                CHECK(regions[a].end <= regions[b].begin || regions[b].end <= regions[a].begin);
    }
    *arena_bytes = plan.arena_bytes;
    dpti_plan_free(&plan);
}

/* The bytes of the arena that training takes. */
static size_t check_purpose(test *t, dpt_value (*network)(dpt_model *, dpt_value), purpose p)
{
    built b;
    size_t training = 0, inference = 0;
    if (build(t, network, p, &b)) {
        check_order(t, &b.training);
        check_order(t, &b.inference);
        check_plan(t, &b.training, &training);
        check_plan(t, &b.inference, &inference);
        CHECK(inference < training);
    }
    release(&b);
    return training;
}

/* In both types, on one device and on three. */
static void check_network(test *t, dpt_value (*network)(dpt_model *, dpt_value))
{
    for (size_t n_parts = 1; n_parts <= 3; n_parts += 2) {
        purpose p = {.n_parts = n_parts};
        const size_t whole = check_purpose(t, network, p);
        p.type = DPT_BF16;
        CHECK(check_purpose(t, network, p) < whole);
        p.loss = DPT_LOSS_SQUARED_ERROR; /* targets stay float32 */
        (void)check_purpose(t, network, p);
        p.loss = DPT_LOSS_BINARY_CROSS_ENTROPY;
        (void)check_purpose(t, network, p);
    }
}

/* Sixteen blocks of two convolutions. */
static dpt_value deep(dpt_model *m, dpt_value x)
{
    char name[8];
    x = convolution(m, x, "a", 4, DPT_ACT_RELU);
    for (int i = 0; i < 16; i++) {
        snprintf(name, sizeof name, "b%d", i);
        dpt_value y = convolution(m, x, name, 4, DPT_ACT_TANH);
        snprintf(name, sizeof name, "c%d", i);
        y = dpt_activate(m, convolution(m, y, name, 4, DPT_ACT_NONE), DPT_ACT_GELU);
        x = dpt_add(m, x, y);
    }
    return head(m, x);
}

/* Stages of a deep network: what is kept, and one stage. */
static void recomputation_takes_less(test *t)
{
    const size_t kept = check_purpose(t, deep, (purpose){.n_parts = 1});
    const size_t again = check_purpose(t, deep, (purpose){.n_parts = 1, .recompute = true});
    if (!CHECK(again > 0 && again < kept / 2)) FAIL("%zu bytes, and %zu before", again, kept);
    built b;
    if (build(t, deep, (purpose){.recompute = true}, &b)) {
        size_t n_again = 0, n_forward = 0;
        for (size_t i = 0; i < b.training.n_instructions; i++) {
            const dpti_instruction *ins = &b.training.instructions[i];
            n_again += ins->again > 0;
            n_forward += ins->desc.kind == DPT_OP_CONV2D_FORWARD;
        }
        /* The last stage is not computed again, nor is what nothing reads. */
        CHECK(n_again > 10 && n_forward > 33 && n_forward < 2 * 33);
    }
    release(&b);
}

/* What decays with no_bias_decay, the beginning of the flat buffer, are the matrices of a language
   model and no others, as nanoGPT has it: p.dim() >= 2. */
static void decay_of_matrices(test *t)
{
    static const char *const names[] = {"gpt:2:2:16:8:31", "llama:2:4:2:16:8:31:24",
                                        "llama-tied:2:4:2:16:8:31:24", "lstm:2:16:8:31"};
    const dpt_model_shape shape = {1, 1, 8, 31};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        dpt_context context = {0};
        dpt_model *m = NULL;
        size_t n_matrices = 0, n_others = 0;
        REQUIRE_OK(dpt_model_by_name(&context, names[k], &shape, &m));
        for (size_t i = 0; i < m->n_parameters; i++) {
            const dpti_parameter *p = &m->parameters[i];
            if (!CHECK((p->rank >= 2) == (p->offset < m->flat_weights)))
                FAIL("%s: %s", names[k], p->name);
            *(p->rank >= 2 ? &n_matrices : &n_others) += 1;
        }
        CHECK(n_matrices >= 4 && n_others >= 4);
        dpt_model_destroy(m);
    }
}

static void chains(test *t)
{
    check_network(t, chain);
}

static void residuals(test *t)
{
    check_network(t, residual);
}

static void norms(test *t)
{
    check_network(t, normalised);
    check_network(t, projected);
}

static size_t count(const dpti_program *p, dpt_op_kind kind)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n_instructions; i++)
        n += p->instructions[i].desc.kind == kind;
    return n;
}

/* Devices that have brought their parts have `between` to compute before they take all of them: a
   convolution's gradient of filters, or NULL for nothing. */
static void check_rendezvous(test *t, const dpti_program *p, size_t bring, size_t n_parts,
                             const char *between)
{
    REQUIRE(bring + 1 < p->n_segments);
    const dpti_segment *s = &p->segments[bring], *next = s + 1;
    CHECK(s->exchange == DPTI_EXCHANGE_CONTRIBUTE && next->exchange == DPTI_EXCHANGE_TAKE);
    CHECK_SIZE(s->n_parts, n_parts);
    CHECK_SIZE(next->n_parts, n_parts);
    for (size_t i = 0; i < n_parts; i++) {
        const dpti_part *part = &s->parts[i];
        CHECK(part->parts == next->parts[i].parts);
        CHECK_SIZE(p->tensors[part->part].last, s->last - 1);
        CHECK_SIZE(p->tensors[part->parts].first, next->last - 1);
    }
    if (!CHECK_SIZE(next->last - next->first, between ? 1 : 0) || !between) return;
    CHECK(p->instructions[next->first].desc.kind == DPT_OP_CONV2D_BACKWARD_WEIGHTS);
    CHECK(strcmp(p->instructions[next->first].layer, between) == 0);
}

static void filters_wait_for_a_meeting(test *t)
{
    built b;
    size_t rendezvous_points[8], n = 0;
    if (build(t, projected, (purpose){.n_parts = 3}, &b)) {
        const dpti_program *p = &b.training;
        for (size_t s = 0; s < p->n_segments; s++)
            if (p->segments[s].exchange == DPTI_EXCHANGE_CONTRIBUTE && n < 8)
                rendezvous_points[n++] = s;
        if (CHECK_SIZE(n, 4 + 3)) {
            for (size_t i = 0; i < 4; i++)
                check_rendezvous(t, p, rendezvous_points[i], 1, NULL);
            check_rendezvous(t, p, rendezvous_points[4], 2, NULL); /* d.norm and c.norm */
            check_rendezvous(t, p, rendezvous_points[5], 1, "c");
            check_rendezvous(t, p, rendezvous_points[6], 1, "b");
        }
        CHECK_SIZE(count(p, DPT_OP_CONV2D_BACKWARD_WEIGHTS), 4);
    }
    release(&b);
}

/* Each layer's filters before its input. */
static void check_at_once(test *t, purpose with, size_t n_segments)
{
    built b;
    if (build(t, projected, with, &b)) {
        const dpti_program *p = &b.training;
        CHECK_SIZE(p->n_segments, n_segments);
        CHECK_SIZE(count(p, DPT_OP_CONV2D_BACKWARD_DATA), 3);
        for (size_t i = 0; i < p->n_instructions; i++) {
            if (p->instructions[i].desc.kind != DPT_OP_CONV2D_BACKWARD_DATA) continue;
            const dpti_instruction *before = &p->instructions[i - 1];
            CHECK(before->desc.kind == DPT_OP_CONV2D_BACKWARD_WEIGHTS);
            CHECK(strcmp(before->layer, p->instructions[i].layer) == 0);
        }
    }
    release(&b);
}

static void nothing_is_held_back(test *t)
{
    check_at_once(t, (purpose){.n_parts = 1}, 2);
    check_at_once(t, (purpose){.n_parts = 3, .at_once = true}, 2 + 2 * (4 + 3));
}

/* The sums of a batch-norm that others have added to before, as large as they are: c.norm's
   gradient is complete with what d.norm passes on. */
static dpt_value added_twice(dpt_model *m, dpt_value x)
{
    x = dpt_batch_norm(m, convolution(m, x, "a", 4, DPT_ACT_NONE), "a.norm", NULL);
    dpt_value y = dpt_batch_norm(m, convolution(m, x, "c", 4, DPT_ACT_NONE), "c.norm", NULL);
    x = dpt_batch_norm(m, convolution(m, x, "d", 4, DPT_ACT_NONE), "d.norm", NULL);
    x = dpt_add(m, y, x);
    return head(m, dpt_add(m, x, convolution(m, y, "e", 4, DPT_ACT_TANH)));
}

static void twins_meet_once(test *t)
{
    built b;
    size_t n = 0, n_parts = 0;
    check_network(t, added_twice);
    if (build(t, added_twice, (purpose){.n_parts = 2}, &b))
        for (size_t s = 0; s < b.training.n_segments; s++) {
            const dpti_segment *segment = &b.training.segments[s];
            n += segment->exchange == DPTI_EXCHANGE_CONTRIBUTE;
            if (segment->exchange == DPTI_EXCHANGE_CONTRIBUTE) n_parts += segment->n_parts;
        }
    CHECK_SIZE(n, 3 + 2);
    CHECK_SIZE(n_parts, 3 + 3);
    release(&b);
}

static void neighbours_are_fused(test *t)
{
    built b;
    if (build(t, chain, (purpose){.n_parts = 1}, &b)) {
        CHECK_SIZE(count(&b.training, DPT_OP_ACTIVATION_FORWARD), 0);
        CHECK_SIZE(count(&b.training, DPT_OP_ACTIVATION_BACKWARD), 0);
        CHECK_SIZE(count(&b.training, DPT_OP_CONV2D_BACKWARD_DATA), 1); /* not for the first */
        CHECK_SIZE(b.training.n_segments, 2);
        CHECK(b.training.segments[0].exchange == DPTI_EXCHANGE_GRADIENTS);
        CHECK(!b.training.segments[0].commits && b.training.segments[1].commits);
        CHECK_SIZE(b.inference.n_segments, 1);
    }
    release(&b);
}

/* One segment, whose instructions are those of two and looks before what changes anything that
   lasts, all of which halts. */
static void whole_steps(test *t)
{
    built cut, b;
    if (build(t, residual, (purpose){.n_parts = 1}, &cut) &&
        build(t, residual, (purpose){.n_parts = 1, .single_launch = true}, &b)) {
        const dpti_program *p = &b.training;
        const size_t before = cut.training.segments[0].last;
        const size_t n_state_buffers = cut.training.n_instructions - before;
        REQUIRE(p->n_segments == 1 && p->n_instructions == before + 2 + n_state_buffers);
        CHECK(p->segments[0].commits && p->segments[0].exchange == DPTI_EXCHANGE_NONE);
        CHECK_SIZE(p->segments[0].last, p->n_instructions);
        CHECK_SIZE(count(p, DPT_OP_CHECK_FINITE), 2);
        CHECK(count(&cut.training, DPT_OP_CHECK_FINITE) == 0);
        for (size_t i = 0; i < p->n_instructions; i++) {
            const dpti_instruction *instruction = &p->instructions[i];
            const bool looks = instruction->desc.kind == DPT_OP_CHECK_FINITE;
            CHECK(looks == (i == before || i == before + 1));
            CHECK(instruction->halts == (i >= before + 2));
            if (looks) CHECK(p->tensors[instruction->out[0]].home == DPTI_HOME_HALT);
        }
        /* Losses are downloaded when all is done. */
        CHECK(p->tensors[p->result].last >= p->n_instructions);
    }
    release(&b);
    release(&cut);
}

/* The arena of a program of this model in which operators take different workspaces. */
static size_t arena_of(test *t, const dpt_model *model, const dpti_program_options *options,
                       size_t n_samples)
{
    dpti_program p = {0};
    dpti_plan plan = {0};
    dpt_error error = {0};
    size_t *workspace = NULL;
    if (CHECK_OK(dpti_compile(model, options, &p, &error)))
        workspace = calloc(p.n_instructions, sizeof *workspace);
    for (size_t i = 0; workspace && i < p.n_instructions; i++) {
        const dpti_instruction *instruction = &p.instructions[i];
        const size_t kind = (size_t)instruction->desc.kind;
        workspace[i] = (kind * 7 + strlen(instruction->layer)) % 5 * 300 * n_samples;
    }
    CHECK(workspace && dpti_plan_memory(&(dpti_plan_request){&p, n_samples, workspace}, &plan,
                                        &error) == DPT_OK);
    const size_t bytes = plan.arena_bytes;
    free(workspace);
    dpti_plan_free(&plan);
    dpti_program_free(&p);
    return bytes;
}

/* A device that is left alone has room for whole steps where those in segments lie. */
static void whole_steps_fit(test *t)
{
    static const dpt_model_shape shape = {32, 32, 3, 10};
    static dpt_dataset images = {.name = "none",
                                 .count = 10,
                                 .n_records = 10,
                                 .height = 32,
                                 .width = 32,
                                 .channels = 3,
                                 .classes = 10,
                                 .dtype = DPT_U8,
                                 .stat_channels = 1};
    for (const char *const *name = dpt_model_names(); *name; name++) {
        dpt_context context = {0};
        dpt_model *model = NULL;
        REQUIRE_OK(dpt_model_by_name(&context, *name, &shape, &model));
        for (size_t i = 0; i < 2 * 3 * 2; i++) {
            const size_t n_samples = i % 2 ? 256 : 12;
            dpti_program_options options = {.data = &images,
                                            .purpose = DPTI_PURPOSE_TRAIN,
                                            .norms_mask = i / 6 > 0,
                                            .n_parts = i / 2 % 3 + 1,
                                            .holds_filters = true,
                                            .least_bucket = 16384,
                                            .optimizer = {.momentum = 0.9f}};
            const size_t segments = arena_of(t, model, &options, n_samples);
            options.single_launch = options.exchange_at_end = true;
            options.holds_filters = false;
            options.n_parts = 1;
            const size_t whole = arena_of(t, model, &options, n_samples);
            if (!CHECK(0 < whole && whole <= segments))
                FAIL("%s: %zu bytes do not fit into %zu", *name, whole, segments);
        }
        dpt_model_destroy(model);
    }
}

static void parameters_are_packed(test *t)
{
    built b;
    if (build(t, chain, (purpose){.n_parts = 1}, &b)) {
        CHECK_SIZE(dpt_model_parameter_count(b.model),
                   (4 * 2 * 9 + 4) + (5 * 4 * 9 + 5) + (3 * 180 + 3));
        CHECK(b.model->flat_weights % 64 == 0 && b.model->flat_size > b.model->flat_weights);
        for (size_t i = 0; i < b.model->n_parameters; i++) {
            const dpti_parameter *p = &b.model->parameters[i];
            CHECK(p->offset % 64 == 0);
            CHECK((p->role == DPTI_ROLE_BIAS) == (p->offset >= b.model->flat_weights));
        }
    }
    release(&b);
}

static void layouts_round_trip(test *t)
{
    built b;
    float inside[540], outside[540], back[540];
    if (build(t, chain, (purpose){.n_parts = 1}, &b)) {
        const dpti_parameter *p = dpti_model_parameter(b.model, "head.weight");
        REQUIRE(p && p->size == 540);
        for (int i = 0; i < 540; i++)
            inside[i] = (float)i;
        dpti_parameter_export(p, inside, outside);
        /* Column (c, h, w) outside is (h, w, c) inside: 5 channels of 6x6. */
        CHECK_NEAR(outside[(2 * 6 + 3) * 6 + 4], (3 * 6 + 4) * 5 + 2, 0);
        dpti_parameter_import(p, outside, back);
        CHECK(memcmp(inside, back, sizeof inside) == 0);
    }
    release(&b);
}

static void mistakes_name_the_layer(test *t)
{
    dpt_context context = {0};
    dpt_model *m = NULL;
    REQUIRE_OK(dpt_model_create(&context, "net", &m));
    dpt_value x = dpt_input(m, 12, 12, 2);
    x = dpt_conv2d(m, x, "big",
                   &(dpt_conv2d_options){
                       .size = sizeof(dpt_conv2d_options), .out_channels = 1, .kernel = {13, 13}});
    x = head(m, x);
    CHECK_STATUS(dpt_model_finish(m, x), DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(&context), "big");
    dpt_model_destroy(m);
    REQUIRE_OK(dpt_model_create(&context, "net", &m));
    x = dpt_input(m, 12, 12, 2);
    (void)convolution(m, x, "aside", 4, DPT_ACT_NONE);
    CHECK_STATUS(dpt_model_finish(m, head(m, x)), DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(&context), "aside");
    dpt_model_destroy(m);
    REQUIRE_OK(dpt_model_create(&context, "net", &m));
    x = dpt_input(m, 12, 12, 2);
    x = convolution(m, convolution(m, x, "same", 4, DPT_ACT_NONE), "same", 4, DPT_ACT_NONE);
    CHECK_STATUS(dpt_model_finish(m, head(m, x)), DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(&context), "same");
    dpt_model_destroy(m);
    REQUIRE_OK(dpt_model_create(&context, "net", &m));
    x = dpt_conv2d(m, dpt_input(m, 12, 12, 2), "bare", NULL);
    x = dpt_linear(m, dpt_pool2d(m, x, NULL), "behind", NULL);
    CHECK_STATUS(dpt_model_finish(m, x), DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(&context), "layer bare needs options");
    dpt_model_destroy(m);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"a chain of layers", chains},
        {"recomputation takes less memory", recomputation_takes_less},
        {"no_bias_decay is for matrices alone", decay_of_matrices},
        {"residual connections", residuals},
        {"normalisations and what is exchanged for them", norms},
        {"filters wait for a meeting", filters_wait_for_a_meeting},
        {"nothing is held back", nothing_is_held_back},
        {"twins meet once", twins_meet_once},
        {"neighbours are fused", neighbours_are_fused},
        {"whole steps", whole_steps},
        {"whole steps fit", whole_steps_fit},
        {"parameters are packed", parameters_are_packed},
        {"layouts round trip", layouts_round_trip},
        {"mistakes name the layer", mistakes_name_the_layer},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
