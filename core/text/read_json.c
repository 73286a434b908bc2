/* Reads tokenizer.json of Hugging Face's package tokenizers: what kind of tokenizer it is, and its
   parts. */
#include "text/read.h"

#include <stdlib.h>
#include <string.h>

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static bool is_on(const json_t *object, const char *key)
{
    return json_is_true(json_object_get(object, key));
}

/* A part of the file of a kind that is not known. */
static dpt_status fail_kind(const dpti_reading *r, const char *part, const char *kind,
                            dpt_error *error)
{
    return DPT_FAIL(error, DPT_E_FORMAT,
                    "%s: its %s is %s; tokenizers of byte-level BPE, as those of GPT-2 and "
                    "Llama 3, can be read",
                    r->file, part, kind ? dpti_show(kind, strlen(kind)).text : "of no known kind");
}

static bool is_empty(const json_t *value)
{
    const char *text = json_string_value(value);
    return !value || json_is_null(value) || (text && !*text);
}

/* ---- The model ------------------------------------------------------------------------------- */

/* Checks that the model is BPE without what byte-level BPE does not have. */
static dpt_status check_model(const dpti_reading *r, const json_t *model, dpt_error *error)
{
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    const char *type = text_of(model, "type");
    const json_t *dropout = json_object_get(model, "dropout");
    if (type && strcmp(type, "BPE") != 0) return fail_kind(r, "model", type, error);
    if (!json_is_array(json_object_get(model, "merges"))) /* old files do not tell the type */
        return DPT_FAIL(error, DPT_E_FORMAT, "%s: the model has no merges; is it a tokenizer?",
                        r->file);
    for (size_t i = 0; i < sizeof affixes / sizeof *affixes; i++)
        if (!is_empty(json_object_get(model, affixes[i])))
            return fail_kind(r, "model", "BPE with prefixes or suffixes of words", error);
    if (is_on(model, "byte_fallback"))
        return fail_kind(r, "model", "BPE with byte_fallback", error);
    if (json_number_value(dropout) != 0)
        return fail_kind(r, "model", "BPE with dropout, which encodes at random", error);
    return DPT_OK;
}

/* A merge is "LEFT RIGHT", or a list of both. */
static bool merge_of(const json_t *value, dpti_merge_text *out)
{
    if (json_is_string(value))
        return dpti_cut_merge(json_string_value(value), json_string_length(value), out);
    const json_t *left = json_array_get(value, 0), *right = json_array_get(value, 1);
    out->left = json_string_value(left);
    out->right = json_string_value(right);
    out->n_left = json_string_length(left);
    out->n_right = json_string_length(right);
    return json_array_size(value) == 2 && out->left && out->right;
}

static dpt_status read_merges(dpti_reading *r, const json_t *merges, dpt_error *error)
{
    size_t i;
    json_t *value;
    if (!dpti_merges_create(json_array_size(merges), &r->t->merges))
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the merges of %s", r->file);
    json_array_foreach(merges, i, value)
    {
        dpti_merge_text merge = {.number = i};
        if (!merge_of(value, &merge))
            return DPT_FAIL(error, DPT_E_FORMAT, "%s: merge %zu is not two tokens", r->file, i);
        DPT_TRY(dpti_read_merge(r, &merge, error));
    }
    return DPT_OK;
}

/* ---- The pre-tokenizer ----------------------------------------------------------------------- */

static dpt_status read_split(dpti_reading *r, const json_t *split, dpt_error *error)
{
    const char *behavior = text_of(split, "behavior");
    const char *regex = text_of(json_object_get(split, "pattern"), "Regex");
    const dpti_pattern pattern = regex ? dpti_pattern_of(regex) : DPTI_N_PATTERNS;
    if (pattern == DPTI_N_PATTERNS || !behavior || strcmp(behavior, "Isolated") != 0 ||
        is_on(split, "invert"))
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s: its pre-tokenizer splits a text by an unknown pattern; those of "
                        "GPT-2, Llama 3 and Qwen 2 are known",
                        r->file);
    if (r->t->pattern != DPTI_PATTERN_NONE)
        return fail_kind(r, "pre-tokenizer", "a sequence of several patterns", error);
    r->t->pattern = pattern;
    return DPT_OK;
}

/* The pre-tokenizer whose words are spelt in the alphabet of bytes. */
static dpt_status read_byte_level(dpti_reading *r, const json_t *part, dpt_error *error)
{
    const json_t *regex = json_object_get(part, "use_regex");
    const bool splits = !regex || json_is_true(regex);
    const bool prefixes = is_on(part, "add_prefix_space");
    if (r->t->pattern != DPTI_PATTERN_NONE && (splits || prefixes))
        return fail_kind(r, "pre-tokenizer", "a sequence of several patterns", error);
    if (splits) r->t->pattern = DPTI_PATTERN_GPT2;
    r->t->add_prefix_space = prefixes;
    return DPT_OK;
}

/* Reads one part of the pre-tokenizer.  *ends: it is ByteLevel, which must be the last part. */
static dpt_status read_part(dpti_reading *r, const json_t *part, bool *ends, dpt_error *error)
{
    const char *type = text_of(part, "type");
    *ends = type && strcmp(type, "ByteLevel") == 0;
    if (*ends) return read_byte_level(r, part, error);
    if (type && strcmp(type, "Split") == 0) return read_split(r, part, error);
    return fail_kind(r, "pre-tokenizer", type, error);
}

static dpt_status read_pre_tokenizer(dpti_reading *r, const json_t *value, dpt_error *error)
{
    const char *type = text_of(value, "type");
    const json_t *parts = json_object_get(value, "pretokenizers");
    const size_t n = json_array_size(parts);
    bool ends = false;
    if (!type) return fail_kind(r, "pre-tokenizer", NULL, error);
    if (strcmp(type, "Sequence") != 0) {
        DPT_TRY(read_part(r, value, &ends, error));
        return ends ? DPT_OK : fail_kind(r, "pre-tokenizer", type, error);
    }
    for (size_t i = 0; i < n; i++) {
        DPT_TRY(read_part(r, json_array_get(parts, i), &ends, error));
        if (ends != (i + 1 == n))
            return fail_kind(r, "pre-tokenizer", "a sequence that ByteLevel does not end", error);
    }
    return n > 0 ? DPT_OK : fail_kind(r, "pre-tokenizer", "an empty sequence", error);
}

/* ---- Special tokens -------------------------------------------------------------------------- */

static dpt_status read_added(dpti_reading *r, dpt_error *error)
{
    size_t i;
    json_t *value;
    const size_t n = json_array_size(r->added);
    r->t->specials = calloc(n ? n : 1, sizeof *r->t->specials);
    if (!r->t->specials)
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the tokens of %s", r->file);
    json_array_foreach(r->added, i, value)
    {
        const json_t *content = json_object_get(value, "content");
        const dpti_bytes text = {json_string_value(content), json_string_length(content)};
        const dpti_special special = {.id =
                                          (int32_t)json_integer_value(json_object_get(value, "id")),
                                      .normalized = is_on(value, "normalized"),
                                      .left = is_on(value, "lstrip"),
                                      .right = is_on(value, "rstrip")};
        if (is_on(value, "single_word"))
            return DPT_FAIL(error, DPT_E_FORMAT,
                            "%s: added token %zu must be a word of its own (single_word), which "
                            "dptrain cannot do",
                            r->file, i);
        DPT_TRY(dpti_read_special(r, text, &special, error));
    }
    return DPT_OK;
}

/* ---- The whole ------------------------------------------------------------------------------- */

dpt_status dpti_read_tokenizer_json(dpti_reading *r, const json_t *json, dpt_error *error)
{
    const json_t *model = json_object_get(json, "model");
    const json_t *normalizer = json_object_get(json, "normalizer");
    if (!json_is_object(model))
        return DPT_FAIL(error, DPT_E_FORMAT, "%s: no model; is it a tokenizer?", r->file);
    DPT_TRY(check_model(r, model, error));
    if (normalizer && !json_is_null(normalizer))
        return fail_kind(r, "normalizer", text_of(normalizer, "type"), error);
    r->added = json_object_get(json, "added_tokens");
    DPT_TRY(dpti_read_vocabulary(r, json_object_get(model, "vocab"), error));
    DPT_TRY(read_pre_tokenizer(r, json_object_get(json, "pre_tokenizer"), error));
    DPT_TRY(read_merges(r, json_object_get(model, "merges"), error));
    r->t->ignore_merges = is_on(model, "ignore_merges");
    return read_added(r, error);
}
