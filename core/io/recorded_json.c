/* Algorithms as JSON. */
#include "io/recorded_json.h"

#include "base/base.h"

#include <stdlib.h>

json_t *dpti_recorded_encode(const dpti_recorded_choices *choices)
{
    json_t *list = json_array();
    bool failed = !list;
    for (size_t i = 0; i < choices->n && !failed; i++) {
        const dpti_recorded_choice *c = &choices->items[i];
        failed =
            json_array_append_new(list, json_pack("[sss]", c->layer, c->kind, c->algorithm)) != 0;
    }
    if (!failed) return list;
    json_decref(list);
    return NULL;
}

static dpt_status decode_one(const json_t *words, dpti_recorded_choice *out)
{
    char **const texts[] = {&out->layer, &out->kind, &out->algorithm};
    if (json_array_size(words) != 3) return DPT_E_FORMAT;
    for (size_t i = 0; i < 3; i++) {
        const char *text = json_string_value(json_array_get(words, i));
        if (!text) return DPT_E_FORMAT;
        *texts[i] = dpti_strdup(text);
        if (!*texts[i]) return DPT_E_NO_MEMORY;
    }
    return DPT_OK;
}

dpt_status dpti_recorded_decode(const json_t *list, dpti_recorded_choices *out)
{
    const size_t n = json_array_size(list);
    *out = (dpti_recorded_choices){.n = 0};
    if (n == 0) return DPT_OK;
    out->items = calloc(n, sizeof *out->items);
    if (!out->items) return DPT_E_NO_MEMORY;
    for (size_t i = 0; i < n; i++) {
        out->n++;
        DPT_TRY(decode_one(json_array_get(list, i), &out->items[i]));
    }
    return DPT_OK;
}
