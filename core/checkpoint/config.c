/* The description of a network beside its weights (config.h), and what a description of adapters
   says (dptrain/lora.h). */
#include "checkpoint/config.h"

#include "dptrain/lora.h"

#include "base/print.h"
#include "base/text.h"
#include "context/context.h"
#include "context/sized.h"
#include "graph/lora.h"
#include "io/file.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Writing --------------------------------------------------------------------------------- */

static dpt_status write_text(const char *path, const char *text, dpt_error *error)
{
    dpti_new_file file;
    DPT_TRY(dpti_new_file_create(path, &file, error));
    const dpt_status status = dpti_new_file_write(&file, text, strlen(text), error);
    if (status == DPT_OK) return dpti_new_file_commit(&file, error);
    dpti_new_file_discard(&file);
    return status;
}

/* Writes a text to the file of that name beside the weights. */
static dpt_status write_beside(const char *weights, const char *name, const char *text,
                               dpt_error *error)
{
    const char *slash = strrchr(weights, '/');
    char *path = dpti_format("%.*s%s", slash ? (int)(slash - weights) + 1 : 0, weights, name);
    if (!path) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for %s", name);
    const dpt_status status = write_text(path, text, error);
    free(path);
    return status;
}

/* The names as they were given, of those that match, or the whole names of all adapted layers if a
   pattern was given, which PEFT does not know. */
static json_t *list_layers(const dpt_model *model)
{
    const dpti_lora *lora = model->lora;
    json_t *list = json_array();
    const char *names = lora->layers;
    size_t length, i = 0;
    if (!strpbrk(names, "*?[")) {
        for (const char *name; (name = dpti_lora_next_name(&names, &length)); i++)
            if (lora->matched[i]) (void)json_array_append_new(list, json_stringn(name, length));
        return list;
    }
    static const char suffix[] = ".lora_A";
    for (i = 0; i < model->n_nodes; i++) {
        const char *name = model->nodes[i].name;
        const size_t n = strlen(name), behind = sizeof suffix - 1;
        if (n > behind && strcmp(name + n - behind, suffix) == 0)
            (void)json_array_append_new(list, json_stringn(name, n - behind));
    }
    return list;
}

/* A whole number without a point, as PEFT writes it. */
static json_t *number(double value)
{
    return floor(value) == value ? json_integer((json_int_t)value) : json_real(value);
}

/* Returns the text, which the caller frees; NULL: no memory. */
static char *describe_adapters(const dpt_model *model)
{
    const dpti_lora *lora = model->lora;
    json_t *o = json_pack(
        "{s:{}, s:s?, s:s, s:b, s:b, s:b, s:o, s:f, s:n, s:s, s:i, s:{}, s:o, s:s, s:b, s:b}",
        "alpha_pattern", "base_model_name_or_path", lora->base, "bias", "none", "fan_in_fan_out",
        lora->in_first, "inference_mode", 1, "init_lora_weights", 1, "lora_alpha",
        number(lora->alpha), "lora_dropout", 0.0, "modules_to_save", "peft_type", "LORA", "r",
        (int)lora->rank, "rank_pattern", "target_modules", list_layers(model), "task_type",
        "CAUSAL_LM", "use_dora", 0, "use_rslora", 0);
    char *text = o ? json_dumps(o, JSON_INDENT(2)) : NULL;
    json_decref(o);
    return text;
}

dpt_status dpti_config_write_base(const dpt_model *model, const char *weights, dpt_error *error)
{
    if (!model->config) return DPT_OK;
    return write_beside(weights, "config.json", model->config, error);
}

dpt_status dpti_config_write(const dpt_model *model, const char *weights, dpt_error *error)
{
    if (!model->lora) return dpti_config_write_base(model, weights, error);
    char *text = describe_adapters(model);
    if (!text) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for adapter_config.json");
    const dpt_status status = write_beside(weights, "adapter_config.json", text, error);
    free(text);
    return status;
}

/* ---- Reading --------------------------------------------------------------------------------- */

enum { MOST_BYTES = 1 << 20 };

/* A file that is read. */
typedef struct reading {
    dpt_context *context;
    const char *path;
    json_t *json;
} reading;

static dpt_status damaged(const reading *r, const char *key, const char *wanted)
{
    return dpt_fail(r->context, DPT_E_FORMAT, "%s: its %s is no %s", r->path, key, wanted);
}

/* Whether a value is that of an option which is not used: missing, null, false, 0, empty. */
static bool is_unused(const json_t *value)
{
    if (!value || json_is_null(value) || json_is_false(value)) return true;
    if (json_is_number(value)) return json_number_value(value) == 0;
    return json_is_string(value)   ? json_string_length(value) == 0
           : json_is_array(value)  ? json_array_size(value) == 0
           : json_is_object(value) ? json_object_size(value) == 0
                                   : false;
}

/* Refuses ways to begin that change the base when PEFT loads the adapters. */
static dpt_status check_start(const reading *r)
{
    static const char *const harmless[] = {"gaussian", "orthogonal", "eva"};
    const json_t *how = json_object_get(r->json, "init_lora_weights");
    if (!how || json_is_boolean(how) || json_is_null(how)) return DPT_OK;
    const char *name = json_string_value(how);
    for (size_t i = 0; name && i < sizeof harmless / sizeof *harmless; i++)
        if (strcmp(name, harmless[i]) == 0) return DPT_OK;
    return dpt_fail(
        r->context, DPT_E_UNSUPPORTED,
        "%s: its init_lora_weights is %.60s, which may change the base: save the "
        "adapters as LoRA of the base in PEFT (path_initial_model_for_weight_conversion)",
        r->path, name ? name : "no name");
}

/* Refuses what is not computed here. */
static dpt_status check_kind(const reading *r)
{
    static const char *const unused[] = {"use_dora",
                                         "use_rslora",
                                         "use_qalora",
                                         "use_bdlora",
                                         "lora_bias",
                                         "rank_pattern",
                                         "alpha_pattern",
                                         "modules_to_save",
                                         "layers_to_transform",
                                         "layers_pattern",
                                         "exclude_modules",
                                         "layer_replication",
                                         "target_parameters",
                                         "trainable_token_indices",
                                         "megatron_config",
                                         "alora_invocation_tokens",
                                         "arrow_config",
                                         "corda_config",
                                         "eva_config",
                                         "loftq_config",
                                         "velora_config"};
    const char *type = json_string_value(json_object_get(r->json, "peft_type"));
    const char *bias = json_string_value(json_object_get(r->json, "bias"));
    if (!type || strcmp(type, "LORA") != 0)
        return dpt_fail(r->context, DPT_E_UNSUPPORTED,
                        "%s: its peft_type is %.60s, and only LORA is read", r->path,
                        type ? type : "missing");
    if (bias && strcmp(bias, "none") != 0)
        return dpt_fail(r->context, DPT_E_UNSUPPORTED,
                        "%s: its bias is %.60s, and only none is read: biases of the base are not "
                        "trained with adapters",
                        r->path, bias);
    DPT_TRY(check_start(r));
    for (size_t i = 0; i < sizeof unused / sizeof *unused; i++)
        if (!is_unused(json_object_get(r->json, unused[i])))
            return dpt_fail(r->context, DPT_E_UNSUPPORTED,
                            "%s: it uses %s, which is not computed here", r->path, unused[i]);
    return DPT_OK;
}

static dpt_status read_layers(const reading *r, char *out, size_t n_bytes)
{
    const json_t *list = json_object_get(r->json, "target_modules");
    size_t used = 0;
    if (json_is_string(list))
        return dpt_fail(r->context, DPT_E_UNSUPPORTED,
                        "%s: its target_modules is an expression, and only a list of names is read",
                        r->path);
    if (json_array_size(list) == 0) return damaged(r, "target_modules", "list of names");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        if (!name || !*name || strpbrk(name, ",*?["))
            return damaged(r, "target_modules", "list of names of modules");
        const size_t n = strlen(name) + (i > 0);
        if (used + n >= n_bytes)
            return dpt_fail(r->context, DPT_E_UNSUPPORTED, "%s: its target_modules are too many",
                            r->path);
        if (i > 0) out[used] = ',';
        memcpy(out + used + (i > 0), name, strlen(name) + 1);
        used += n;
    }
    return DPT_OK;
}

static dpt_status read_config(const reading *r, dpt_lora_info *out)
{
    const json_t *rank = json_object_get(r->json, "r"),
                 *alpha = json_object_get(r->json, "lora_alpha");
    const json_t *base = json_object_get(r->json, "base_model_name_or_path"),
                 *dropout = json_object_get(r->json, "lora_dropout");
    if (!json_is_object(r->json)) return damaged(r, "content", "object");
    DPT_TRY(check_kind(r));
    if (!json_is_integer(rank) || json_integer_value(rank) < 1) return damaged(r, "r", "rank");
    if (!json_is_number(alpha) || !(json_number_value(alpha) > 0))
        return damaged(r, "lora_alpha", "positive number");
    if (dropout && !(json_is_number(dropout) && json_number_value(dropout) >= 0 &&
                     json_number_value(dropout) <= 1))
        return damaged(r, "lora_dropout", "number from 0 to 1");
    if (base && !json_is_null(base) &&
        !(json_is_string(base) && json_string_length(base) < sizeof out->base))
        return damaged(r, "base_model_name_or_path", "name of less than 1024 bytes");
    *out = (dpt_lora_info){.size = sizeof *out,
                           .rank = (size_t)json_integer_value(rank),
                           .alpha = json_number_value(alpha),
                           .dropout = json_number_value(dropout)};
    if (json_is_string(base)) snprintf(out->base, sizeof out->base, "%s", json_string_value(base));
    return read_layers(r, out->layers, sizeof out->layers);
}

static dpt_status open_and_read(reading *r, dpt_lora_info *out)
{
    dpt_error error = {.status = DPT_OK};
    dpti_content content = {0};
    json_error_t why;
    if (dpti_file_read_most(r->path, MOST_BYTES, &content, &error) != DPT_OK)
        return dpti_context_fail(r->context, NULL, &error);
    r->json =
        json_loadb((const char *)content.bytes, content.n_bytes, JSON_REJECT_DUPLICATES, &why);
    free(content.bytes);
    if (!r->json)
        return dpt_fail(r->context, DPT_E_FORMAT, "%s: it is no JSON (%s)", r->path, why.text);
    const dpt_status status = read_config(r, out);
    json_decref(r->json);
    return status;
}

dpt_status dpt_lora_describe(dpt_context *context, const char *folder, dpt_lora_info *out)
{
    dpt_lora_info info;
    if (!context) return DPT_E_INVALID;
    DPT_TRY(dpti_check_sized(context, "dpt_lora_info", out));
    if (!folder) return dpt_fail(context, DPT_E_INVALID, "the folder of the adapters is NULL");
    char *path = dpti_format("%s/adapter_config.json", folder);
    if (!path) return dpt_fail(context, DPT_E_NO_MEMORY, "no memory to read %s", folder);
    reading r = {.context = context, .path = path};
    const dpt_status status = open_and_read(&r, &info);
    free(path);
    if (status == DPT_OK) (void)dpti_give_sized(&info, sizeof info, out);
    return status;
}
