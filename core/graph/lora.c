/* Adapters of low rank at linear layers over sequences (dptrain/lora.h). */
#include "graph/lora.h"

#include "dptrain/lora.h"

#include "base/print.h"
#include "base/text.h"
#include "graph/given.h"
#include "graph/sequence.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANK = 4096, DEFAULT_ALPHA = 8, NAME_BYTES = DPTI_MAX_LAYER_NAME + 1 };

static const char default_layers[] = "c_attn,q_proj,v_proj";

/* ---- Options --------------------------------------------------------------------------------- */

static dpt_status check_names(dpt_model *model, const char *list)
{
    size_t length, n = 0;
    const size_t end = strlen(list);
    if (end == 0 || list[end - 1] == ',')
        return dpt_fail(model->context, DPT_E_INVALID,
                        "adapters: '%.200s' ends without the name of a layer", list);
    for (const char *name; (name = dpti_lora_next_name(&list, &length)); n++)
        if (length == 0 || length >= NAME_BYTES || n == DPTI_LORA_NAMES)
            return dpt_fail(model->context, DPT_E_INVALID,
                            "adapters: '%.200s' is no list of at most %d names of layers", name,
                            DPTI_LORA_NAMES);
    return DPT_OK;
}

static dpt_status check_options(dpt_model *model, const dpt_lora_options *o)
{
    if (o->rank < 1 || o->rank > MOST_RANK)
        return dpt_fail(model->context, DPT_E_INVALID,
                        "adapters of rank %zu: a rank is from 1 to %d, such as 8", o->rank,
                        MOST_RANK);
    if (!(o->alpha > 0 && o->alpha <= 1e6))
        return dpt_fail(model->context, DPT_E_INVALID,
                        "adapters: an alpha of %g is not in (0, 1e6]", o->alpha);
    if (model->lora || model->n_parameters > 0)
        return dpt_fail(model->context, DPT_E_STATE,
                        "model %s: adapters are chosen once, before its layers are added",
                        model->name);
    return o->layers ? check_names(model, o->layers) : DPT_OK;
}

dpt_status dpt_model_set_lora(dpt_model *model, const dpt_lora_options *options)
{
    dpt_lora_options o;
    if (!model) return DPT_E_INVALID;
    if (!options)
        return dpt_fail(model->context, DPT_E_INVALID, "adapters: the options are missing");
    DPT_TRY(
        dpti_take_sized(model->context, &(dpti_sized){"dpt_lora_options", options, sizeof o}, &o));
    if (o.alpha == 0) o.alpha = DEFAULT_ALPHA;
    DPT_TRY(check_options(model, &o));
    dpti_lora *lora = calloc(1, sizeof *lora);
    if (lora) {
        *lora = (dpti_lora){.rank = o.rank,
                            .alpha = o.alpha,
                            .layers = dpti_strdup(o.layers ? o.layers : default_layers),
                            .base = o.base ? dpti_strdup(o.base) : NULL,
                            .is_default = !o.layers};
        if (lora->layers && (lora->base || !o.base)) {
            model->lora = lora;
            return DPT_OK;
        }
    }
    dpti_lora_free(lora);
    return dpt_fail(model->context, DPT_E_NO_MEMORY, "no memory for model %s", model->name);
}

size_t dpt_model_adapted_count(const dpt_model *model)
{
    return model->lora ? model->lora->n_adapted : 0;
}

/* ---- Names ----------------------------------------------------------------------------------- */

/* Whether a name of the list, of n characters, is that of a layer or its end behind a dot. */
static bool matches(const char *name, size_t n, const char *layer)
{
    char pattern[NAME_BYTES];
    const size_t length = strlen(layer);
    memcpy(pattern, name, n);
    pattern[n] = '\0';
    if (strpbrk(pattern, "*?[")) return fnmatch(pattern, layer, 0) == 0;
    if (length < n || strcmp(layer + length - n, pattern) != 0) return false;
    return length == n || layer[length - n - 1] == '.';
}

bool dpti_lora_wants(const dpt_model *model, const char *layer)
{
    dpti_lora *lora = model->lora;
    const char *list = lora ? lora->layers : NULL;
    size_t length, i = 0;
    bool wanted = false;
    for (const char *name; (name = dpti_lora_next_name(&list, &length)); i++) {
        if (!matches(name, length, layer)) continue;
        lora->matched[i] = true;
        wanted = true;
    }
    return wanted;
}

/* ---- Layers ---------------------------------------------------------------------------------- */

/* One of the two linear layers, (length, in) to (length, out). */
static dpt_value add_half(dpt_model *model, dpt_value x, const char *name, size_t out)
{
    if (!dpti_usable(model, x, name) || !dpti_name_is_new(model, name)) return (dpt_value){0};
    const size_t in = dpti_extents_of(model, x).extent[1];
    const bool first = name[strlen(name) - 1] == 'A';
    const dpti_parameter p = {.shape = {out, in},
                              .rank = 2,
                              .fan_in = in,
                              .fan_out = out,
                              .start = first ? DPTI_START_UNIFORM : DPTI_START_ZERO,
                              .layout = DPTI_LAYOUT_LINEAR,
                              .h = 1,
                              .w = 1,
                              .c = in,
                              .is_adapter = true};
    const dpti_given given = {
        .name = name, .weight = dpti_build_parameter(model, name, "weight", p), .bias = SIZE_MAX};
    return given.weight == SIZE_MAX ? (dpt_value){0} : dpti_given_linear(model, x, &given, out);
}

dpt_value dpti_lora_add(dpt_model *model, dpt_value x, dpt_value y, const char *layer)
{
    dpti_lora *lora = model->lora;
    char name[NAME_BYTES + 8], scale[48];
    if (!y.id) return y;
    dpti_print(name, sizeof name, "%s.lora_A", layer);
    dpt_value z = add_half(model, x, name, lora->rank);
    if (lora->alpha != (double)lora->rank && z.id) {
        dpti_print(scale, sizeof scale, "a * %.17g", lora->alpha / (double)lora->rank);
        z = dpti_formula(model, scale, &z, 1);
    }
    dpti_print(name, sizeof name, "%s.lora_B", layer);
    z = add_half(model, z, name, dpti_extents_of(model, y).extent[1]);
    lora->n_adapted++;
    /* The gradient of the sum becomes that of y without a copy, because y comes last. */
    return dpt_add(model, dpti_sequence_as_image(model, z), dpti_sequence_as_image(model, y));
}

void dpti_lora_finish(dpt_model *model)
{
    const dpti_lora *lora = model->lora;
    const char *list = lora ? lora->layers : NULL;
    size_t length, i = 0;
    if (!lora || model->status != DPT_OK) return;
    for (const char *name; (name = dpti_lora_next_name(&list, &length)); i++)
        if (!lora->matched[i] && (!lora->is_default || lora->n_adapted == 0)) {
            (void)DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                                  "adapters: model %s has no linear layer over sequences that "
                                  "'%.*s' matches; dptrain plan lists its layers",
                                  model->name, lora->is_default ? (int)strlen(name) : (int)length,
                                  name);
            return;
        }
    for (size_t p = 0; p < model->n_parameters; p++)
        if (!model->parameters[p].is_adapter) model->parameters[p].frozen = true;
}
