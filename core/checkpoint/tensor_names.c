/* The names of tensors in files of weights (tensor_names.h). */
#include "checkpoint/tensor_names.h"

#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 1024 };

/* What `transformers` puts in front of the names of a model with a head, and leaves out in files of
   the model without the head. */
static const char *const prefixes[] = {"transformer.", "model."};
enum { N_PREFIXES = sizeof prefixes / sizeof *prefixes };

const char *dpti_tensor_name(const dpti_tensor_names *names, const dpti_tensor *tensor)
{
    return tensor->name + names->prefix;
}

/* The tensor whose name behind the prefix is this. */
static const dpti_tensor *find(const dpti_tensor_names *names, const char *name)
{
    char full[NAME_BYTES];
    if (names->prefix == 0) return dpti_safetensors_find(names->file, name);
    const int n = snprintf(full, sizeof full, "%.*s%s", (int)names->prefix,
                           dpti_safetensors_get(names->file, 0)->name, name);
    return n > 0 && (size_t)n < sizeof full ? dpti_safetensors_find(names->file, full) : NULL;
}

const dpti_tensor *dpti_tensor_named(const dpti_tensor_names *names, const char *name)
{
    const dpti_tensor *tensor = find(names, name);
    for (size_t i = 0; !tensor && i < N_PREFIXES; i++) {
        const size_t n = strlen(prefixes[i]);
        if (strncmp(name, prefixes[i], n) == 0) tensor = find(names, name + n);
    }
    return tensor;
}

/* Whether the tensor is that of a parameter whose name has a prefix of `transformers`. */
static bool is_without_prefix(const dpti_tensor_names *names, const dpti_tensor *tensor)
{
    char name[NAME_BYTES];
    for (size_t i = 0; i < N_PREFIXES; i++) {
        const int n =
            snprintf(name, sizeof name, "%s%s", prefixes[i], dpti_tensor_name(names, tensor));
        if (n > 0 && (size_t)n < sizeof name && dpti_model_parameter(names->model, name) &&
            dpti_tensor_named(names, name) == tensor)
            return true;
    }
    return false;
}

/* Whether the tensor is a buffer that older versions of `transformers` have stored: the mask of an
   attention, or the speeds of rotary positions. */
static bool is_buffer(const char *name)
{
    static const char *const endings[] = {".attn.bias", ".attn.masked_bias",
                                          ".rotary_emb.inv_freq"};
    const size_t n = strlen(name);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const size_t behind = strlen(endings[i]);
        if (n > behind && strcmp(name + n - behind, endings[i]) == 0) return true;
    }
    return false;
}

const dpti_parameter *dpti_tensor_tied(const dpti_tensor_names *names, const dpti_tensor *tensor)
{
    static const char weight[] = ".weight";
    const dpt_model *model = names->model;
    const char *name = dpti_tensor_name(names, tensor);
    const size_t n = strlen(name), behind = sizeof weight - 1;
    if (n <= behind || strcmp(name + n - behind, weight) != 0) return NULL;
    for (size_t i = 0; i < model->n_nodes; i++)
        if (model->nodes[i].weight != SIZE_MAX && strlen(model->nodes[i].name) == n - behind &&
            strncmp(model->nodes[i].name, name, n - behind) == 0)
            return &model->parameters[model->nodes[i].weight];
    return NULL;
}

/* Whether the tensor is that of an adapter of the model. */
static bool is_adapter(const dpt_model *model, const char *tensor)
{
    const char *name = dpti_behind_adapter(tensor);
    const dpti_parameter *p = name ? dpti_model_parameter(model, name) : NULL;
    return p && p->is_adapter;
}

bool dpti_tensor_is_known(const dpti_tensor_names *names, const dpti_tensor *tensor)
{
    dpti_tensor own = *tensor;
    own.name = dpti_tensor_name(names, tensor);
    return dpti_model_parameter(names->model, own.name) || dpti_is_counter(names->model, &own) ||
           dpti_is_state(names->model, &own) || is_without_prefix(names, tensor) ||
           is_buffer(own.name) || is_adapter(names->model, own.name) ||
           dpti_tensor_tied(names, tensor);
}

/* ---- The prefix that all names have ---------------------------------------------------------- */

/* Whether the file has a parameter of the model. */
static bool has_parameter(const dpti_tensor_names *names)
{
    for (size_t i = 0; i < names->model->n_parameters; i++)
        if (dpti_tensor_named(names, names->model->parameters[i].name)) return true;
    return false;
}

/* Returns the length of the part, with its dot, that all names have behind the first `at`
   characters, which are the same in all; 0: there is none. */
static size_t shared_part(const dpti_safetensors *file, size_t at)
{
    const char *first = dpti_safetensors_get(file, 0)->name + at, *dot = strchr(first, '.');
    const size_t n = dot ? (size_t)(dot - first) + 1 : 0;
    for (size_t i = 0; n > 0 && i < dpti_safetensors_count(file); i++) {
        const char *name = dpti_safetensors_get(file, i)->name;
        if (strncmp(name + at, first, n) != 0 || name[at + n] == '\0') return 0;
    }
    return at + n < NAME_BYTES ? n : 0;
}

dpti_tensor_names dpti_tensor_names_of(const dpt_model *model, const dpti_safetensors *file)
{
    dpti_tensor_names names = {.model = model, .file = file};
    if (dpti_safetensors_count(file) == 0 || dpti_has_adapters(file)) return names;
    while (!has_parameter(&names)) {
        const size_t n = shared_part(file, names.prefix);
        if (n == 0) return (dpti_tensor_names){.model = model, .file = file};
        names.prefix += n;
    }
    return names;
}
