/* Networks by name.  Names, help and builders come from one table. */
#include "text.h"

#include <stdio.h>
#include <string.h>

/* The name, the builder's name without dptm_, and one line of help. */
#define MODELS(X)                                                                                  \
    X("linear", linear, "softmax regression: one linear layer")                                    \
    X("mlp", mlp, "perceptron: two hidden layers of 1024, ReLU")                                   \
    X("lenet", lenet, "LeNet: two convolutions, average pooling, two linear layers, ReLU")         \
    X("resnet18-d2l", resnet18_d2l,                                                                \
      "ResNet-18 of the textbook: biases in the convolutions, plain shortcuts")                    \
    X("resnet18", resnet18, "ResNet-18 with torchvision's blocks and a 3x3 stem without max-pool") \
    X("resnet34", resnet34, "ResNet-34, otherwise as resnet18")                                    \
    X("resnet50", resnet50, "ResNet-50, with bottleneck blocks, otherwise as resnet18")            \
    X("resnet18-imagenet", resnet18_imagenet,                                                      \
      "ResNet-18 as in torchvision: 7x7 stem of stride 2 and max-pool, for images of 64x64 or "    \
      "more")                                                                                      \
    X("resnet34-imagenet", resnet34_imagenet, "ResNet-34, otherwise as resnet18-imagenet")         \
    X("resnet50-imagenet", resnet50_imagenet, "ResNet-50, otherwise as resnet18-imagenet")         \
    X("vgg11", vgg11, "VGG-11 with dropout; images of 32x32 or more")

typedef struct model_entry {
    const char *name;
    const char *help;
    dptm_builder *build;
} model_entry;

#define MODEL_ENTRY(id, builder, words) {.name = (id), .help = (words), .build = dptm_##builder},
#define MODEL_NAME(id, builder, words)  id,

static const model_entry entries[] = {MODELS(MODEL_ENTRY)};
static const char *const names[] = {MODELS(MODEL_NAME) NULL};

enum { N_ENTRIES = sizeof entries / sizeof entries[0] };

const char *const *dpt_model_names(void)
{
    return names;
}

static const model_entry *find(const char *name)
{
    for (size_t i = 0; i < N_ENTRIES; i++)
        if (strcmp(entries[i].name, name) == 0) return &entries[i];
    return NULL;
}

bool dpt_model_is_known(const char *name)
{
    return find(name) || dptm_is_text(name);
}

const char *dpt_model_help(const char *name)
{
    const model_entry *entry = find(name);
    return entry ? entry->help : dptm_text_help(name);
}

static void append_names(const char *const *list, char *known, size_t n_bytes, size_t *used)
{
    for (; *list && *used < n_bytes; list++) {
        const int length =
            snprintf(known + *used, n_bytes - *used, "%s%s", *used ? ", " : "", *list);
        if (length < 0) break;
        *used += (size_t)length;
    }
}

static dpt_status unknown_name(dpt_context *context, const char *name)
{
    char known[1024] = "";
    size_t used = 0;
    append_names(names, known, sizeof known, &used);
    append_names(dpt_text_model_names(), known, sizeof known, &used);
    const char *nearest = dpt_nearest(name, names);
    if (nearest)
        return dpt_fail(context, DPT_E_INVALID, "unknown model '%s'; did you mean '%s'? Known: %s",
                        name, nearest, known);
    return dpt_fail(context, DPT_E_INVALID, "unknown model '%s'; known: %s", name, known);
}

static bool is_onnx_path(const char *name)
{
    const size_t n = strlen(name);
    return n > 5 && strcmp(name + n - 5, ".onnx") == 0;
}

dpt_status dpt_model_by_name(dpt_context *context, const char *name, const dpt_model_shape *shape,
                             dpt_model **out)
{
    const dpt_model_by_name_options options = {
        .size = sizeof options, .shape = shape ? *shape : (dpt_model_shape){.height = 0}};
    return dpt_model_by_name_with(context, name, &options, out);
}

dpt_status dpt_model_by_name_with(dpt_context *context, const char *name,
                                  const dpt_model_by_name_options *options, dpt_model **out)
{
    const dpt_model_shape *shape = &options->shape;
    if (options->size != sizeof *options)
        return dpt_fail(context, DPT_E_INVALID, "dpt_model_by_name_options.size is not set");
    if (name && options->lora && (is_onnx_path(name) || find(name)))
        return dpt_fail(context, DPT_E_INVALID,
                        "model %s has no linear layers over sequences, which adapters are for",
                        name);
    if (name && is_onnx_path(name)) return dpt_model_from_onnx(context, name, out);
    if (name && dptm_is_text(name)) return dptm_text_by_name(context, name, options, out);
    if (name && !find(name) && dptm_is_config(name))
        return dptm_config_by_name(context, name, options, out);
    const model_entry *entry = find(name);
    if (!entry) return unknown_name(context, name);
    dpt_model *model;
    DPT_TRY(dpt_model_create(context, name, &model));
    const dpt_value x = dpt_input(model, shape->height, shape->width, shape->channels);
    const dpt_status status = dpt_model_finish(model, entry->build(model, x, shape->classes));
    if (status != DPT_OK) {
        dpt_model_destroy(model);
        return status;
    }
    *out = model;
    return DPT_OK;
}
