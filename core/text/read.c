/* Reads the files of a tokenizer: vocabulary, merges, special tokens (read.h). */
#include "text/read.h"

#include "base/print.h"
#include "base/text.h"
#include "io/file.h"
#include "text/alphabet.h"
#include "text/tokenizer.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_BYTES = 1 << 28 }; /* of a file */

static dpt_status fail_memory(const dpti_reading *r, dpt_error *error)
{
    return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the tokenizer %s", r->file);
}

dpti_shown dpti_show(const char *text, size_t n_bytes)
{
    dpti_shown shown = {{0}};
    memcpy(shown.text, text, n_bytes < DPTI_SHOWN ? n_bytes : DPTI_SHOWN - 1);
    shown.text[dpti_plain_bytes(shown.text)] = '\0';
    return shown;
}

dpt_status dpti_read_json(const dpti_file_bytes *file, json_t **out, dpt_error *error)
{
    json_error_t why;
    json_t *json =
        json_loadb((const char *)file->bytes, file->n_bytes, JSON_REJECT_DUPLICATES, &why);
    if (json && json_is_object(json)) {
        *out = json;
        return DPT_OK;
    }
    json_decref(json);
    if (json)
        return DPT_FAIL(error, DPT_E_FORMAT, "%s: no object of JSON; is it a tokenizer?",
                        file->name);
    if (json_error_code(&why) == json_error_out_of_memory)
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to read %s", file->name);
    return DPT_FAIL(error, DPT_E_FORMAT,
                    "%s: the JSON is damaged in line %d, column %d; fetch the file again",
                    file->name, why.line, why.column);
}

/* ---- The vocabulary -------------------------------------------------------------------------- */

/* Whether a text is that of a special token. */
static bool is_added(const json_t *added, const char *text)
{
    size_t i;
    json_t *token;
    json_array_foreach(added, i, token)
    {
        const char *content = json_string_value(json_object_get(token, "content"));
        if (content && strcmp(content, text) == 0) return true;
    }
    return false;
}

/* The largest id of the vocabulary and of the special tokens; -1: there is none.  DPT_E_FORMAT
   names an id that is none. */
static dpt_status find_most(const dpti_reading *r, const json_t *tokens, json_int_t *most,
                            dpt_error *error)
{
    const char *text;
    json_t *value;
    size_t i;
    *most = -1;
    json_object_foreach((json_t *)tokens, text, value)
    {
        const json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
        if (id < 0 || id >= DPT_MAX_VOCABULARY)
            return DPT_FAIL(error, DPT_E_FORMAT,
                            "%s: the id of token \"%s\" is no number from 0 to %d", r->file,
                            dpti_show(text, strlen(text)).text, DPT_MAX_VOCABULARY - 1);
        if (id > *most) *most = id;
    }
    json_array_foreach(r->added, i, value)
    {
        const json_t *number = json_object_get(value, "id");
        const json_int_t id = json_is_integer(number) ? json_integer_value(number) : -1;
        if (id < 0 || id >= DPT_MAX_VOCABULARY)
            return DPT_FAIL(error, DPT_E_FORMAT, "%s: added token %zu has no id from 0 to %d",
                            r->file, i, DPT_MAX_VOCABULARY - 1);
        if (id > *most) *most = id;
    }
    return DPT_OK;
}

/* Adds a token.  A text that is not of the alphabet is that of a special token, which
   dpti_read_special adds. */
static dpt_status add_token(dpti_reading *r, const char *text, int32_t id, dpt_error *error)
{
    const size_t n = dpti_alphabet_read(text, strlen(text), r->bytes);
    if (n == SIZE_MAX && is_added(r->added, text)) return DPT_OK;
    if (n == SIZE_MAX)
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s: token \"%s\" is not of byte-level BPE, which is the only kind of "
                        "tokenizer that can be read",
                        r->file, dpti_show(text, strlen(text)).text);
    switch (dpti_vocabulary_add(&r->t->vocabulary, id, (dpti_bytes){r->bytes, n}, false)) {
    case DPTI_ADDED: return DPT_OK;
    case DPTI_ADD_NO_MEMORY: return fail_memory(r, error);
    case DPTI_ADD_TAKEN: break;
    }
    return DPT_FAIL(error, DPT_E_FORMAT, "%s: id %d of token \"%s\" is that of another token",
                    r->file, (int)id, dpti_show(text, strlen(text)).text);
}

dpt_status dpti_read_vocabulary(dpti_reading *r, const json_t *tokens, dpt_error *error)
{
    const char *text;
    json_t *value;
    json_int_t most;
    if (!json_is_object(tokens) || json_object_size(tokens) == 0)
        return DPT_FAIL(error, DPT_E_FORMAT, "%s: no vocabulary; is it a tokenizer?", r->file);
    DPT_TRY(find_most(r, tokens, &most, error));
    r->t = dpti_tokenizer_create((size_t)most + 1);
    if (!r->t) return fail_memory(r, error);
    json_object_foreach((json_t *)tokens, text, value)
        DPT_TRY(add_token(r, text, (int32_t)json_integer_value(value), error));
    return DPT_OK;
}

/* ---- Merges ---------------------------------------------------------------------------------- */

bool dpti_cut_merge(const char *text, size_t n_bytes, dpti_merge_text *out)
{
    const char *space = memchr(text, ' ', n_bytes);
    if (!space) return false;
    out->left = text;
    out->n_left = (size_t)(space - text);
    out->right = space + 1;
    out->n_right = n_bytes - out->n_left - 1;
    return out->n_left > 0 && out->n_right > 0 && !memchr(space + 1, ' ', out->n_right);
}

static dpt_status fail_merge(const dpti_reading *r, const dpti_merge_text *m, const char *which,
                             dpt_error *error)
{
    return DPT_FAIL(error, DPT_E_FORMAT,
                    "%s: merge %zu, of \"%s\" and \"%s\", does not fit the vocabulary: %s no "
                    "token; use the files of one tokenizer",
                    r->file, m->number, dpti_show(m->left, m->n_left).text,
                    dpti_show(m->right, m->n_right).text, which);
}

dpt_status dpti_read_merge(dpti_reading *r, const dpti_merge_text *merge, dpt_error *error)
{
    const dpti_vocabulary *v = &r->t->vocabulary;
    const size_t n_left = dpti_alphabet_read(merge->left, merge->n_left, r->bytes);
    if (n_left == SIZE_MAX) return fail_merge(r, merge, "the first is", error);
    const size_t n_right = dpti_alphabet_read(merge->right, merge->n_right, r->bytes + n_left);
    if (n_right == SIZE_MAX) return fail_merge(r, merge, "the second is", error);
    const dpti_merge found = {
        .left = dpti_vocabulary_find(v, (dpti_bytes){r->bytes, n_left}),
        .right = dpti_vocabulary_find(v, (dpti_bytes){r->bytes + n_left, n_right}),
        .id = dpti_vocabulary_find(v, (dpti_bytes){r->bytes, n_left + n_right}),
        .rank = (uint32_t)merge->number,
    };
    if (found.left < 0) return fail_merge(r, merge, "the first is", error);
    if (found.right < 0) return fail_merge(r, merge, "the second is", error);
    if (found.id < 0) return fail_merge(r, merge, "both together are", error);
    dpti_merges_add(&r->t->merges, &found);
    return DPT_OK;
}

/* ---- Special tokens -------------------------------------------------------------------------- */

dpt_status dpti_read_special(dpti_reading *r, dpti_bytes text, const dpti_special *like,
                             dpt_error *error)
{
    dpt_tokenizer *t = r->t;
    if (text.n_bytes == 0)
        return DPT_FAIL(error, DPT_E_FORMAT, "%s: added token %zu has no text", r->file,
                        t->n_specials);
    const int32_t there = dpti_vocabulary_find(&t->vocabulary, text);
    if (there >= 0 && there != like->id)
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s: added token \"%s\" has id %d, and id %d in the vocabulary", r->file,
                        dpti_show(text.data, text.n_bytes).text, (int)like->id, (int)there);
    if (there < 0) switch (dpti_vocabulary_add(&t->vocabulary, like->id, text, true)) {
        case DPTI_ADDED: break;
        case DPTI_ADD_NO_MEMORY: return fail_memory(r, error);
        case DPTI_ADD_TAKEN:
            return DPT_FAIL(error, DPT_E_FORMAT,
                            "%s: id %d of added token \"%s\" is that of another token", r->file,
                            (int)like->id, dpti_show(text.data, text.n_bytes).text);
        }
    t->specials[t->n_specials++] = *like;
    return DPT_OK;
}

dpt_status dpti_read_complete(dpti_reading *r, dpt_error *error)
{
    const unsigned missing = dpti_tokenizer_complete(r->t);
    if (missing == 256) return DPT_OK;
    return DPT_FAIL(error, DPT_E_FORMAT,
                    "%s: no token for byte 0x%02x; a tokenizer of byte-level BPE has one for each "
                    "byte",
                    r->file, missing);
}

/* ---- Files ----------------------------------------------------------------------------------- */

/* Ends a reading.  After a failure nothing is left. */
static dpt_status finish(dpti_reading *r, dpt_status status, dpt_tokenizer **out, dpt_error *error)
{
    if (status == DPT_OK) status = dpti_read_complete(r, error);
    free(r->bytes);
    if (status == DPT_OK)
        *out = r->t;
    else
        dpti_tokenizer_free(r->t);
    return status;
}

dpt_status dpti_tokenizer_parse(const dpti_file_bytes *file, dpt_tokenizer **out, dpt_error *error)
{
    dpti_reading r = {.file = file->name};
    json_t *json = NULL;
    DPT_TRY(dpti_read_json(file, &json, error));
    r.bytes = malloc(file->n_bytes + 1);
    dpt_status status =
        r.bytes ? dpti_read_tokenizer_json(&r, json, error) : fail_memory(&r, error);
    json_decref(json);
    return finish(&r, status, out, error);
}

/* Calls for each line of merges.txt that is a merge.  The first line may be "#version: ...". */
static dpt_status read_merges(dpti_reading *r, const dpti_file_bytes *file, dpt_error *error)
{
    static const char version[] = "#version";
    const char *text = (const char *)file->bytes;
    size_t number = 0, line = 0;
    if (!dpti_merges_create(file->n_bytes / 4 + 1, &r->t->merges)) return fail_memory(r, error);
    r->file = file->name;
    for (size_t at = 0, n; at < file->n_bytes; at += n + 1) {
        const char *end = memchr(text + at, '\n', file->n_bytes - at);
        n = end ? (size_t)(end - (text + at)) : file->n_bytes - at;
        const size_t bytes = n > 0 && text[at + n - 1] == '\r' ? n - 1 : n;
        dpti_merge_text merge = {.number = number};
        const size_t most = sizeof version - 1;
        line++;
        if (bytes == 0 || (bytes >= most && memcmp(text + at, version, most) == 0)) continue;
        if (!dpti_cut_merge(text + at, bytes, &merge))
            return DPT_FAIL(error, DPT_E_FORMAT,
                            "%s: line %zu is no merge, which is two tokens with a space between",
                            r->file, line);
        DPT_TRY(dpti_read_merge(r, &merge, error));
        number++;
    }
    return DPT_OK;
}

/* GPT-2 has one special token, which its vocabulary holds. */
static dpt_status read_end(dpti_reading *r, dpt_error *error)
{
    static const char end[] = "<|endoftext|>";
    const dpti_bytes text = {end, sizeof end - 1};
    const dpti_special special = {.id = dpti_vocabulary_find(&r->t->vocabulary, text)};
    if (special.id < 0) return DPT_OK;
    r->t->specials = malloc(sizeof special);
    return r->t->specials ? dpti_read_special(r, text, &special, error) : fail_memory(r, error);
}

dpt_status dpti_tokenizer_parse_gpt2(const dpti_gpt2_files *files, dpt_tokenizer **out,
                                     dpt_error *error)
{
    const size_t first = files->vocabulary.n_bytes, second = files->merges.n_bytes;
    dpti_reading r = {.file = files->vocabulary.name};
    json_t *json = NULL;
    DPT_TRY(dpti_read_json(&files->vocabulary, &json, error));
    r.bytes = malloc((first > second ? first : second) + 1);
    dpt_status status = r.bytes ? dpti_read_vocabulary(&r, json, error) : fail_memory(&r, error);
    json_decref(json);
    if (status == DPT_OK) r.t->pattern = DPTI_PATTERN_GPT2;
    if (status == DPT_OK) status = read_merges(&r, &files->merges, error);
    if (status == DPT_OK) status = read_end(&r, error);
    r.file = files->vocabulary.name;
    return finish(&r, status, out, error);
}

static dpt_status read_single(const char *path, dpt_tokenizer **out, dpt_error *error)
{
    dpti_content content = {0};
    DPT_TRY(dpti_file_read_most(path, MOST_BYTES, &content, error));
    const dpt_status status =
        dpti_tokenizer_parse(&(dpti_file_bytes){path, content.bytes, content.n_bytes}, out, error);
    free(content.bytes);
    return status;
}

/* Files in a folder. */
typedef struct paths {
    char *single, *vocabulary, *merges; /* owned */
} paths;

static dpt_status read_pair(const paths *p, dpt_tokenizer **out, dpt_error *error)
{
    dpti_content vocabulary = {0}, merges = {0};
    dpt_status status = dpti_file_read_most(p->vocabulary, MOST_BYTES, &vocabulary, error);
    if (status == DPT_OK) status = dpti_file_read_most(p->merges, MOST_BYTES, &merges, error);
    const dpti_gpt2_files files = {{p->vocabulary, vocabulary.bytes, vocabulary.n_bytes},
                                   {p->merges, merges.bytes, merges.n_bytes}};
    if (status == DPT_OK) status = dpti_tokenizer_parse_gpt2(&files, out, error);
    free(vocabulary.bytes);
    free(merges.bytes);
    return status;
}

static dpt_status read_folder(const char *folder, dpt_tokenizer **out, dpt_error *error)
{
    const paths p = {dpti_format("%s/tokenizer.json", folder), dpti_format("%s/vocab.json", folder),
                     dpti_format("%s/merges.txt", folder)};
    dpt_status status;
    if (!p.single || !p.vocabulary || !p.merges)
        status = DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to read a tokenizer");
    else if (access(p.single, F_OK) == 0)
        status = read_single(p.single, out, error);
    else if (access(p.vocabulary, F_OK) == 0)
        status = read_pair(&p, out, error);
    else
        status = DPT_FAIL(error, DPT_E_NOT_FOUND,
                          "%s has no tokenizer.json, and no vocab.json with merges.txt", folder);
    free(p.single);
    free(p.vocabulary);
    free(p.merges);
    return status;
}

dpt_status dpti_tokenizer_read(const char *path, dpt_tokenizer **out, dpt_error *error)
{
    struct stat info;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) return read_folder(path, out, error);
    return read_single(path, out, error);
}
