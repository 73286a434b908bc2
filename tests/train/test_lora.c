/* Adapters of low rank against PEFT: the same base, adapters and batches, 20 steps of AdamW.
   tests/golden/make_lora.py has made the adapters, the losses and the logits. */
#include "dptrain.h"
#include "dptrain_models.h"
#include "harness.h"
#include "train/mixes.h"
#include "train/session.h"
#include "train/text.h"
#include "unit/onnx_files.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { COUNT = 48, BATCH = 16, STEPS = 20, MOST = 1 << 14 };

typedef struct golden {
    const char *name, *model;
    size_t scalars; /* of the adapters: 4 layers of rank 4 */
} golden;

static const golden runs[] = {
    {"gpt", "gpt:4:4:32:24", 4 * 4 * (32 + 96)},
    {"llama", "llama:4:4:2:32:24:61:88", 4 * 4 * (32 + 32 + 32 + 16)},
};
enum { N_RUNS = sizeof runs / sizeof *runs };

static const mix cpu_mixes[] = {{"cpu:threads=2", NULL},
                                {"cpu:threads=1,cpu:threads=1,cpu:threads=1", "13:2:1"}};
enum { N_MIXES = sizeof cpu_mixes / sizeof *cpu_mixes };

/* ---- Sessions -------------------------------------------------------------------------------- */

typedef struct task {
    const golden *run;
    mix where;
    bool deterministic, plain; /* plain: without adapters */
    dpt_lora_options lora;     /* rank 0: 4 */
} task;

static dpt_status set_base(const session *s)
{
    static float values[MOST];
    dpt_status status = DPT_OK;
    for (size_t i = 0; status == DPT_OK && i < dpt_model_tensor_count(s->model); i++) {
        dpt_parameter_info p = {.size = sizeof p};
        dpt_model_tensor(s->model, i, &p);
        if (strstr(p.name, ".lora_")) continue;
        if (p.elements > MOST) return DPT_E_INTERNAL;
        make_text_weights(&p, values);
        status = dpt_trainer_set(s->trainer, DPT_PARAMETER, p.name, values, p.elements);
    }
    return status;
}

static dpt_status create_data(session *s)
{
    static int32_t ids[COUNT][LENGTH], labels[COUNT][LENGTH];
    for (size_t i = 0; i < COUNT; i++)
        make_text_sample(i, ids[i], labels[i]);
    const dpt_dataset_memory memory = {.size = sizeof memory,
                                       .count = COUNT,
                                       .height = 1,
                                       .width = 1,
                                       .channels = LENGTH,
                                       .outputs = VOCABULARY,
                                       .dtype = DPT_I32,
                                       .images = ids,
                                       .labels = labels,
                                       .label_dtype = DPT_I32,
                                       .vocabulary = VOCABULARY,
                                       .labels_per_sample = LENGTH};
    return dpt_dataset_from_memory(s->context, &memory, &s->data);
}

static dpt_status create_model(session *s, const task *of)
{
    dpt_lora_options lora = of->lora;
    lora.size = sizeof lora;
    if (lora.rank == 0) lora.rank = 4;
    const dpt_model_by_name_options how = {
        .size = sizeof how, .shape = {1, 1, LENGTH, VOCABULARY}, .lora = of->plain ? NULL : &lora};
    return dpt_model_by_name_with(s->context, of->run->model, &how, &s->model);
}

static dpt_status begin(session *s, const task *of)
{
    const dpt_trainer_options options = {.size = sizeof options,
                                         .batch_size = BATCH,
                                         .split = dpt_split_from(of->where.split),
                                         .optimizer = DPT_OPTIMIZER_ADAMW,
                                         .lr = 1e-2f,
                                         .weight_decay = 0.1f,
                                         .no_shuffle = true,
                                         .deterministic = of->deterministic};
    DPT_TRY(dpt_context_create(&s->context));
    DPT_TRY(create_data(s));
    DPT_TRY(dpt_device_set_open(s->context, of->where.devices ? of->where.devices : "cpu",
                                &s->devices));
    DPT_TRY(create_model(s, of));
    DPT_TRY(dpt_trainer_create(s->devices, s->model, s->data, &options, &s->trainer));
    return set_base(s);
}

static bool may_begin(test *t, session *s, const task *of)
{
    *s = (session){0};
    if (CHECK_OK(begin(s, of))) return true;
    FAIL("%s: %s", of->run->model, dpt_error_message(s->context));
    session_end(s);
    return false;
}

/* The path of a file of a run. */
static const char *path_of(const golden *run, const char *file, char path[ONNX_PATH_BYTES])
{
    char name[128];
    snprintf(name, sizeof name, "../golden/lora/%s/%s", run->name, file);
    return onnx_path(name, path);
}

static bool load_peft(test *t, session *s, const task *of)
{
    char path[ONNX_PATH_BYTES];
    const dpt_status status =
        dpt_trainer_load(s->trainer, path_of(of->run, "adapter_model.safetensors", path));
    if (!CHECK_OK(status)) FAIL("%s", dpt_error_message(s->context));
    return status == DPT_OK;
}

/* ---- PEFT ------------------------------------------------------------------------------------ */

static bool read_expected(test *t, const golden *run, text_golden *out)
{
    char path[128];
    snprintf(path, sizeof path, "golden/lora/%s/losses.txt", run->name);
    return read_text_golden(t, path, STEPS, out);
}

static void losses(test *t)
{
    const mix_list mixes = tested_mixes(cpu_mixes, N_MIXES);
    for (size_t i = 0; i < N_RUNS; i++)
        for (size_t k = 0; k < mixes.n; k++) {
            const task of = {.run = &runs[i], .where = mixes.items[k]};
            double found[STEPS];
            session s;
            text_golden e;
            if (!read_expected(t, of.run, &e) || !may_begin(t, &s, &of)) continue;
            if (load_peft(t, &s, &of) && session_train(t, &s, STEPS, found))
                for (size_t step = 0; step < STEPS; step++)
                    if (!CHECK_NEAR(found[step], e.losses[step], 1e-4))
                        FAIL("%s on %s, step %zu", of.run->model, of.where.devices, step);
            session_end(&s);
        }
}

static void same_bits(test *t)
{
    const mix_list mixes = tested_mixes(cpu_mixes, N_MIXES);
    for (size_t i = 0; i < N_RUNS; i++) {
        double first[STEPS], other[STEPS];
        for (size_t k = 0; k < mixes.n; k++) {
            const task of = {.run = &runs[i], .where = mixes.items[k], .deterministic = true};
            session s;
            if (!may_begin(t, &s, &of)) continue;
            if (load_peft(t, &s, &of) && session_train(t, &s, STEPS, k == 0 ? first : other) &&
                k > 0 && !CHECK(memcmp(first, other, sizeof first) == 0))
                FAIL("%s on %s split %s", of.run->model, of.where.devices, of.where.split);
            session_end(&s);
        }
    }
}

/* ---- Memory and traffic ---------------------------------------------------------------------- */

static size_t padded(size_t n)
{
    return (n + 63) / 64 * 64;
}

static void counted_bytes(test *t)
{
    for (size_t i = 0; i < N_RUNS; i++)
        for (size_t k = 0; k < N_MIXES; k++) {
            const task of = {.run = &runs[i], .where = cpu_mixes[k]};
            session s;
            dpt_device_plan plan = {.size = sizeof plan};
            size_t all = 0;
            if (!may_begin(t, &s, &of)) continue;
            for (size_t p = 0; p < dpt_model_tensor_count(s.model); p++) {
                dpt_parameter_info info = {.size = sizeof info};
                dpt_model_tensor(s.model, p, &info);
                all += padded(info.elements);
            }
            CHECK_OK(dpt_trainer_plan(s.trainer, 0, &plan));
            CHECK_SIZE(dpt_trainer_trained_count(s.trainer), of.run->scalars);
            CHECK_SIZE(plan.gradient_bytes, 4 * of.run->scalars);
            CHECK_SIZE(plan.optimizer_bytes, 2 * 4 * of.run->scalars);
            CHECK_SIZE(plan.parameter_bytes, 4 * (all + of.run->scalars));
            CHECK_SIZE(plan.exchange_bytes, k == 0 ? 0 : 4 * of.run->scalars);
            session_end(&s);
        }
}

/* ---- Files ----------------------------------------------------------------------------------- */

static size_t size_of(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 ? (size_t)about.st_size : 0;
}

/* Another base than set_base gives. */
static dpt_status change_base(const session *s)
{
    static const char norm[] = "transformer.ln_f.bias";
    static const float values[32] = {0.25f};
    return dpt_trainer_set(s->trainer, DPT_PARAMETER, norm, values, 32);
}

static void resuming(test *t)
{
    static const char state[] = "lora-state.safetensors";
    double whole[STEPS], half[STEPS];
    session s;
    const task of = {.run = &runs[0], .where = cpu_mixes[1]};
    if (!may_begin(t, &s, &of)) return;
    CHECK(session_train(t, &s, STEPS / 2, whole));
    CHECK_OK(dpt_trainer_save_state(s.trainer, state));
    CHECK(session_train(t, &s, STEPS / 2, whole));
    session_end(&s);
    /* Adapters, two moments, and what is known of the devices, but no base. */
    CHECK(size_of(state) > 3 * 4 * of.run->scalars);
    CHECK(size_of(state) < 3 * 4 * of.run->scalars + 40000);
    if (!may_begin(t, &s, &of)) return;
    CHECK_OK(dpt_trainer_load_state(s.trainer, state));
    CHECK(session_train(t, &s, STEPS / 2, half));
    CHECK(memcmp(whole, half, STEPS / 2 * sizeof *half) == 0);
    CHECK_OK(change_base(&s));
    CHECK_STATUS(dpt_trainer_load_state(s.trainer, state), DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(s.context), "adapters of other base weights");
    session_end(&s);
    remove(state);
}

/* Adapters that are saved and loaded give the same losses; the base stays. */
static void saving(test *t)
{
    static const char file[] = "lora-adapters.safetensors";
    double before, after;
    session s;
    const task of = {.run = &runs[0], .where = cpu_mixes[0]};
    dpt_evaluation e = {.size = sizeof e};
    if (!may_begin(t, &s, &of)) return;
    CHECK(session_train(t, &s, 3, NULL));
    CHECK_OK(dpt_trainer_evaluate(s.trainer, s.data, &e));
    before = e.loss;
    CHECK_OK(dpt_trainer_save(s.trainer, file));
    CHECK(size_of(file) < 4 * of.run->scalars + 8000);
    CHECK(session_train(t, &s, 3, NULL));
    CHECK_OK(dpt_trainer_load(s.trainer, file));
    CHECK_OK(dpt_trainer_evaluate(s.trainer, s.data, &e));
    after = e.loss;
    CHECK(before == after);
    CHECK_OK(change_base(&s));
    CHECK_STATUS(dpt_trainer_load(s.trainer, file), DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(s.context), "adapters of other base weights");
    session_end(&s);
    remove(file);
}

static void check_logits(test *t, const session *s, const char *weights, const text_golden *e)
{
    static float logits[LENGTH * VOCABULARY];
    char why[DPT_WHY_BYTES] = "";
    dpt_predictor *predictor = NULL;
    const dpt_predictor_options options = {
        .size = sizeof options, .weights = weights, .like = s->data, .logits = true};
    CHECK_OK(dpt_predictor_create(s->devices, s->model, &options, &predictor));
    if (!predictor) FAIL("%s", dpt_error_message(s->context));
    if (predictor && CHECK_OK(dpt_predictor_run_data(predictor, s->data, 0, 1, logits, why)))
        for (size_t i = 0; i < VOCABULARY; i++)
            CHECK_NEAR((double)logits[(LENGTH - 1) * VOCABULARY + i], e->logits[i], 1e-5);
    dpt_predictor_destroy(predictor);
}

/* The sum of a base and adapters of PEFT has the logits that PEFT computes. */
static void merging(test *t)
{
    static const char base[] = "lora-base.safetensors", merged[] = "lora-merged.safetensors";
    for (size_t i = 0; i < N_RUNS; i++) {
        char adapter[ONNX_PATH_BYTES];
        text_golden e;
        session s, plain;
        const task of = {.run = &runs[i]}, without = {.run = &runs[i], .plain = true};
        const dpt_lora_files files = {.size = sizeof files,
                                      .base = base,
                                      .adapter =
                                          path_of(of.run, "adapter_model.safetensors", adapter),
                                      .merged = merged};
        if (!read_expected(t, of.run, &e) || !may_begin(t, &plain, &without)) continue;
        CHECK_OK(dpt_trainer_save(plain.trainer, base));
        if (may_begin(t, &s, &of)) {
            if (!CHECK_OK(dpt_lora_merge(s.model, &files)))
                FAIL("%s", dpt_error_message(s.context));
            check_logits(t, &plain, merged, &e);
            session_end(&s);
        }
        session_end(&plain);
    }
    remove(base);
    remove(merged);
    remove("config.json");
}

/* ---- What is refused ------------------------------------------------------------------------- */

static void refused_options(test *t)
{
    static const struct {
        dpt_lora_options lora;
        const char *words;
    } cases[] = {
        {{.rank = 5000}, "adapters of rank 5000: a rank is from 1 to 4096"},
        {{.alpha = -1}, "an alpha of -1"},
        {{.layers = "c_attn,q_proj"}, "that 'q_proj' matches"},
        {{.layers = "attn"}, "that 'attn' matches"},
        {{.layers = "c_attn,"}, "ends without the name"},
        {{.layers = "lm_head"}, "that 'lm_head' matches"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        session s = {0};
        const task of = {.run = &runs[0], .lora = cases[i].lora};
        CHECK_STATUS(begin(&s, &of), DPT_E_INVALID);
        CHECK_CONTAINS(dpt_error_message(s.context), cases[i].words);
        session_end(&s);
    }
    session s = {0};
    REQUIRE_OK(dpt_context_create(&s.context));
    REQUIRE_OK(dpt_model_create(s.context, "none", &s.model));
    const dpt_lora_options none = {.size = sizeof none};
    CHECK_STATUS(dpt_model_set_lora(s.model, &none), DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(s.context), "adapters of rank 0");
    session_end(&s);
}

/* Adapters of another rank or network, and adapters in a model without them. */
static void refused_files(test *t)
{
    const struct {
        task of;
        const golden *from;
        const char *words;
    } cases[] = {
        {{.run = &runs[0], .lora.rank = 8}, &runs[0], "of 4x32, which is 8x32"},
        {{.run = &runs[1]}, &runs[0], "base_model.model.transformer.h.0.attn.c_attn.lora_A"},
        {{.run = &runs[0], .plain = true}, &runs[0], "has adapters and no weights of model gpt"},
        {{.run = &runs[0], .lora.layers = "c_attn,c_fc"}, &runs[0], "has no tensor"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[ONNX_PATH_BYTES];
        session s;
        if (!may_begin(t, &s, &cases[i].of)) continue;
        path_of(cases[i].from, "adapter_model.safetensors", path);
        CHECK_STATUS(dpt_trainer_load(s.trainer, path), DPT_E_INVALID);
        if (!CHECK(strstr(dpt_error_message(s.context), cases[i].words)))
            FAIL("the message is: %s", dpt_error_message(s.context));
        session_end(&s);
    }
}

/* A description with one text in place of another. */
static bool write_config(const char *from, const char *to)
{
    char path[ONNX_PATH_BYTES];
    static char text[8192];
    FILE *file = fopen(path_of(&runs[0], "adapter_config.json", path), "rb");
    const size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file) fclose(file);
    text[n] = '\0';
    char *at = strstr(text, from);
    FILE *out = at ? fopen("adapter_config.json", "wb") : NULL;
    if (!out) return false;
    *at = '\0';
    fprintf(out, "%s%s%s", text, to, at + strlen(from));
    return fclose(out) == 0;
}

static void descriptions(test *t)
{
    static const struct {
        const char *from, *to;
        dpt_status status;
        const char *words;
    } cases[] = {
        {"\"bias\": \"none\"", "\"bias\": \"all\"", DPT_E_UNSUPPORTED, "its bias is all"},
        {"\"use_dora\": false", "\"use_dora\": true", DPT_E_UNSUPPORTED, "it uses use_dora"},
        {"\"use_rslora\": false", "\"use_rslora\": true", DPT_E_UNSUPPORTED, "it uses use_rslora"},
        {"\"rank_pattern\": {}", "\"rank_pattern\": {\"a\": 2}", DPT_E_UNSUPPORTED,
         "it uses rank_pattern"},
        {"\"peft_type\": \"LORA\"", "\"peft_type\": \"IA3\"", DPT_E_UNSUPPORTED, "only LORA"},
        {"\"r\": 4", "\"r\": 0", DPT_E_FORMAT, "its r is no rank"},
        {"\"lora_alpha\": 8", "\"lora_alpha\": \"8\"", DPT_E_FORMAT, "lora_alpha is no"},
        {"\"target_modules\"", "\"targets\"", DPT_E_FORMAT, "target_modules is no list"},
        {"{", "[", DPT_E_FORMAT, "it is no JSON"},
    };
    char path[ONNX_PATH_BYTES];
    dpt_context *context = NULL;
    dpt_lora_info info = {.size = sizeof info};
    REQUIRE_OK(dpt_context_create(&context));
    CHECK_OK(dpt_lora_describe(context, path_of(&runs[0], ".", path), &info));
    CHECK_SIZE(info.rank, 4);
    CHECK(info.alpha == 8 && info.dropout == 0);
    CHECK_TEXT(info.layers, "c_attn");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!CHECK(write_config(cases[i].from, cases[i].to))) continue;
        CHECK_STATUS(dpt_lora_describe(context, ".", &info), cases[i].status);
        CHECK_CONTAINS(dpt_error_message(context), cases[i].words);
    }
    remove("adapter_config.json");
    CHECK_STATUS(dpt_lora_describe(context, ".", &info), DPT_E_NOT_FOUND);
    dpt_context_destroy(context);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"losses are PEFT's on any devices", losses},
        {"deterministic runs have the same bits on any devices", same_bits},
        {"the base takes no gradients", counted_bytes},
        {"a training is resumed with the same bits", resuming},
        {"adapters are saved without the base", saving},
        {"merged weights have PEFT's logits", merging},
        {"options that are refused", refused_options},
        {"files that are refused", refused_files},
        {"descriptions that are refused", descriptions},
    };
    const int missing = tested_backend_missing();
    if (missing) return missing;
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
