/* Tests dpt_training_recipe: every network that is known by name has a recipe that a trainer would
   take; what it does not speak of stays; other names have none. */
#include "dptrain_models.h"
#include "harness.h"

#include <stdio.h>
#include <string.h>

static void check_numbers(test *t, const dpt_trainer_options *o, const dpt_schedule *s)
{
    const bool adamw = o->optimizer == DPT_OPTIMIZER_ADAMW;
    CHECK(o->batch_size >= 16 && o->batch_size <= 256);
    CHECK(o->lr > 0 && o->lr <= (adamw ? 0.01f : 0.2f));
    CHECK(adamw ? o->momentum == 0 && !o->nesterov : o->beta1 == 0 && o->beta2 == 0);
    CHECK(o->momentum >= 0 && o->momentum < 1 && (!o->nesterov || o->momentum > 0));
    CHECK(o->beta1 >= 0 && o->beta1 < 1 && o->beta2 >= 0 && o->beta2 < 1);
    CHECK(o->weight_decay >= 0 && o->weight_decay < 1);
    /* A rate of SGD goes with a batch; one of AdamW does not grow in proportion. */
    CHECK(o->lr_base_batch == (adamw ? 0 : o->batch_size));
    CHECK(s->kind != DPT_SCHEDULE_CONSTANT);
    CHECK(s->min_lr >= 0 && s->min_lr < o->lr);
}

/* The name that a form of help stands for. */
static const char *example(const char *form)
{
    static const char *const names[] = {"gpt:1:2:16:8", "llama:1:2:1:16:8", "llama-tied:1:2:1:16:8",
                                        "lstm:1:16:8"};
    const size_t n = strcspn(form, ":");
    for (size_t i = 0; form[n] && i < sizeof names / sizeof *names; i++)
        if (strncmp(names[i], form, n + 1) == 0) return names[i];
    return form;
}

static void every_network_has_one(test *t)
{
    size_t n = 0;
    const char *const *lists[] = {dpt_model_names(), dpt_text_model_names()};
    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++)
        for (const char *const *name = lists[l]; *name; name++, n++) {
            dpt_trainer_options options = {.size = sizeof options};
            dpt_schedule schedule = {.kind = DPT_SCHEDULE_CONSTANT};
            CHECK(dpt_training_recipe(example(*name), &options, &schedule));
            check_numbers(t, &options, &schedule);
            CHECK((l == 1) == (options.clip_norm > 0));
            CHECK(l == 0 || (!options.augment.crop_padding && !options.augment.flip));
        }
    CHECK(n > 10);
}

static void what_it_does_not_speak_of_stays(test *t)
{
    dpt_trainer_options options = {
        .size = sizeof options, .seed = 7, .deterministic = true, .momentum = 0.3f};
    dpt_schedule schedule = {.kind = DPT_SCHEDULE_STEP, .every = 3, .factor = 0.5f};
    CHECK(dpt_training_recipe("lenet", &options, &schedule));
    CHECK(options.seed == 7 && options.deterministic && options.size == sizeof options);
    CHECK(options.momentum != 0.3f && schedule.every == 0 && schedule.factor == 0);
}

static void other_names_have_none(test *t)
{
    static const char *const names[] = {"", "lenett", "net.onnx", "gpt3", "/nowhere", NULL};
    const dpt_trainer_options before = {.size = sizeof before, .lr = 0.25f};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        dpt_trainer_options options = before;
        dpt_schedule schedule = {.kind = DPT_SCHEDULE_STEP};
        CHECK(!dpt_training_recipe(names[i], &options, &schedule));
        CHECK(options.lr == before.lr && options.batch_size == 0 &&
              schedule.kind == DPT_SCHEDULE_STEP);
    }
    dpt_trainer_options unset = {.size = 0};
    dpt_schedule schedule = {.kind = DPT_SCHEDULE_STEP};
    CHECK(!dpt_training_recipe("lenet", &unset, &schedule));
    CHECK(unset.lr == 0 && schedule.kind == DPT_SCHEDULE_STEP);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"every_network_has_one", every_network_has_one},
        {"what_it_does_not_speak_of_stays", what_it_does_not_speak_of_stays},
        {"other_names_have_none", other_names_have_none},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
