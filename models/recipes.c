/* How networks are trained well, by their names.  The numbers are data: docs/recipes.md has them as
   a table, with what they reached. */
#include "text.h"

#include <stddef.h>
#include <string.h>

typedef struct recipe {
    const char *name; /* of a network, or of a form up to its ':' */
    dpt_trainer_options trainer;
    dpt_schedule schedule;
} recipe;

/* SGD with Nesterov momentum.  The rate goes up and down in one cycle, and is for batches of the
   recipe's size. */
#define CYCLE(batch, rate, decay, ...)                                                             \
    .trainer = {.batch_size = (batch),                                                             \
                .lr = (rate),                                                                      \
                .lr_base_batch = (batch),                                                          \
                .momentum = 0.9f,                                                                  \
                .nesterov = true,                                                                  \
                .weight_decay = (decay),                                                           \
                __VA_ARGS__},                                                                      \
    .schedule = {.kind = DPT_SCHEDULE_ONECYCLE}

/* AdamW with such a rate.  A small network without norms learns more steadily by it if images are
   not normalised. */
#define ADAMW(batch, rate, decay, ...)                                                             \
    .trainer = {.batch_size = (batch),                                                             \
                .optimizer = DPT_OPTIMIZER_ADAMW,                                                  \
                .lr = (rate),                                                                      \
                .weight_decay = (decay),                                                           \
                __VA_ARGS__},                                                                      \
    .schedule = {.kind = DPT_SCHEDULE_ONECYCLE}

/* What nanoGPT's train.py has beside batch and rate; a tenth of the rate is the lowest. */
#define NANOGPT(batch, rate, last_beta, steps)                                                     \
    .trainer = {.batch_size = (batch),                                                             \
                .optimizer = DPT_OPTIMIZER_ADAMW,                                                  \
                .lr = (float)(rate),                                                               \
                .beta1 = 0.9f,                                                                     \
                .beta2 = (last_beta),                                                              \
                .weight_decay = 0.1f,                                                              \
                .no_bias_decay = true,                                                             \
                .clip_norm = 1.0f},                                                                \
    .schedule = {.kind = DPT_SCHEDULE_COSINE_NANOGPT,                                              \
                 .warmup_steps = (steps),                                                          \
                 .min_lr = (float)((rate) / 10)}

#define HE .init = {.kind = DPT_INIT_HE}
/* For images of 28 to 64 pixels.  The padding is half of what is usual for many epochs. */
#define CROPPED HE, .augment = {.crop_padding = 2, .flip = true}

static const recipe recipes[] = {
    {.name = "linear", ADAMW(64, 0.003f, 0.0f, .init = {.kind = DPT_INIT_DEFAULT})},
    {.name = "mlp", ADAMW(64, 0.001f, 0.05f, HE)},
    {.name = "lenet", ADAMW(64, 0.005f, 0.05f, HE)},
    {.name = "resnet18-d2l", CYCLE(128, 0.1f, 5e-4f, CROPPED)},
    {.name = "resnet18", CYCLE(128, 0.1f, 5e-4f, CROPPED)},
    {.name = "resnet34", CYCLE(128, 0.1f, 5e-4f, CROPPED)},
    {.name = "resnet50", CYCLE(128, 0.1f, 5e-4f, CROPPED)},
    {.name = "resnet18-imagenet", CYCLE(128, 0.05f, 1e-4f, HE)},
    {.name = "resnet34-imagenet", CYCLE(128, 0.05f, 1e-4f, HE)},
    {.name = "resnet50-imagenet", CYCLE(128, 0.05f, 1e-4f, HE)},
    {.name = "vgg11", CYCLE(128, 0.02f, 5e-4f, CROPPED)},
    {.name = "gpt2", NANOGPT(32, 6e-4, 0.95f, 2000)},
    {.name = "gpt2-medium", NANOGPT(32, 3e-4, 0.95f, 2000)},
    {.name = "gpt2-large", NANOGPT(32, 2.5e-4, 0.95f, 2000)},
    {.name = "gpt2-xl", NANOGPT(32, 2e-4, 0.95f, 2000)},
    {.name = "gpt", NANOGPT(32, 1e-3, 0.99f, 100)},
    {.name = "llama", NANOGPT(32, 1e-3, 0.99f, 100)},
    {.name = "llama-tied", NANOGPT(32, 1e-3, 0.99f, 100)},
    {.name = "lstm", NANOGPT(32, 2e-3, 0.99f, 100)},
    {.name = "config.json", NANOGPT(32, 3e-4, 0.95f, 100)},
};

static const recipe *find(const char *name)
{
    const size_t n = strcspn(name, ":");
    if (!dpt_model_is_known(name)) {
        if (!dptm_is_config(name)) return NULL;
        return &recipes[sizeof recipes / sizeof *recipes - 1];
    }
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++)
        if (strlen(recipes[i].name) == n && strncmp(recipes[i].name, name, n) == 0)
            return &recipes[i];
    return NULL;
}

bool dpt_training_recipe(const char *name, dpt_trainer_options *trainer, dpt_schedule *schedule)
{
    const recipe *r = name ? find(name) : NULL;
    if (!r || trainer->size < offsetof(dpt_trainer_options, seed)) return false;
    const dpt_trainer_options *from = &r->trainer;
    trainer->batch_size = from->batch_size;
    trainer->optimizer = from->optimizer;
    trainer->lr = from->lr;
    trainer->lr_base_batch = from->lr_base_batch;
    trainer->momentum = from->momentum;
    trainer->weight_decay = from->weight_decay;
    trainer->nesterov = from->nesterov;
    trainer->no_bias_decay = from->no_bias_decay;
    trainer->beta1 = from->beta1;
    trainer->beta2 = from->beta2;
    trainer->epsilon = from->epsilon;
    trainer->clip_norm = from->clip_norm;
    trainer->label_smoothing = from->label_smoothing;
    trainer->augment = from->augment;
    trainer->init = from->init;
    *schedule = r->schedule;
    return true;
}
