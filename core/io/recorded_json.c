/* Recorded algorithms as JSON. */
#include "io/recorded_json.h"

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

static dpt_status decode_one(const json_t *words, dpti_recorded_choices *to)
{
    const char *texts[3];
    if (json_array_size(words) != 3) return DPT_E_FORMAT;
    for (size_t i = 0; i < 3; i++) {
        texts[i] = json_string_value(json_array_get(words, i));
        if (!texts[i]) return DPT_E_FORMAT;
    }
    return dpti_recorded_choices_add(to, texts[0], texts[1], texts[2]) ? DPT_OK : DPT_E_NO_MEMORY;
}

dpt_status dpti_recorded_decode(const json_t *list, dpti_recorded_choices *out)
{
    const size_t n = json_array_size(list);
    if (!dpti_recorded_choices_reserve(n, out)) return DPT_E_NO_MEMORY;
    for (size_t i = 0; i < n; i++)
        DPT_TRY(decode_one(json_array_get(list, i), out));
    return DPT_OK;
}
