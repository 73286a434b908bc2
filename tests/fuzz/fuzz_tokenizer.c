/* Feeds arbitrary bytes to tokenizers: as tokenizer.json; as GPT-2's files with a zero byte between
   them; as merges of a vocabulary of all bytes and some pairs; and as a text that tokenizers of
   such vocabularies encode.  The ids of a text must stand for it. */
#include "base/text.h"
#include "fuzz.h"
#include "text/tokenizer.h"

#include <stdio.h>

enum { VOCABULARY_BYTES = 1 << 15 };

static void check_refusal(dpt_status status, const dpt_error *error)
{
    require(status == DPT_E_FORMAT || status == DPT_E_NO_MEMORY);
    require(strncmp(error->message, "input", 5) == 0 ||
            strncmp(error->message, "no memory", 9) == 0);
    require(error->message[dpti_plain_bytes(error->message)] == 0);
}

/* ---- A vocabulary ---------------------------------------------------------------------------- */

static bool is_itself(unsigned byte)
{
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

/* Writes the character of a byte as JSON. */
static size_t spell(unsigned byte, char *out)
{
    unsigned code = byte;
    if (!is_itself(byte)) {
        code = 0x100;
        for (unsigned b = 0; b < byte; b++)
            code += !is_itself(b);
    }
    return (size_t)snprintf(out, 8, "\\u%04x", code);
}

static const char *const pairs[] = {"th",       "he",         "the", "in",
                                    "\\u0120t", "\\u0120the", "ab",  "abab"};

enum { N_PAIRS = sizeof pairs / sizeof *pairs };

/* The bytes, and then pairs. */
static size_t write_vocabulary(char *out)
{
    size_t n = 0;
    out[n++] = '{';
    for (unsigned byte = 0; byte < 256; byte++) {
        out[n++] = '"';
        n += spell(byte, out + n);
        n += (size_t)snprintf(out + n, 16, "\":%u,", byte);
    }
    for (unsigned i = 0; i < N_PAIRS; i++)
        n += (size_t)snprintf(out + n, 64, "\"%s\":%u,", pairs[i], 256 + i);
    n += (size_t)snprintf(out + n, 64, "\"<|endoftext|>\":300}");
    return n;
}

static const char merges[] = "[\"t h\",\"th e\",\"i n\",\"\\u0120 t\",\"\\u0120t he\",\"a b\","
                             "\"ab ab\"]";

static const char llama3[] =
    "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":"
    "\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1,3}| "
    "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"},"
    "\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"ByteLevel\",\"use_regex\":false}]}";

/* ---- Tokenizers ------------------------------------------------------------------------------ */

/* The ids of a text stand for it, and are the same when they are made again. */
static void encode(dpt_tokenizer *tokenizer, const uint8_t *text, size_t n, bool exact)
{
    dpt_error error = {.status = DPT_OK};
    dpti_ids ids = {.n = 0};
    size_t at = 0;
    require(dpti_tokenizer_encode(tokenizer, (dpti_bytes){text, n}, &ids, &error) == DPT_OK);
    const size_t first = ids.n;
    require(dpti_tokenizer_encode(tokenizer, (dpti_bytes){text, n}, &ids, &error) == DPT_OK);
    require(ids.n == 2 * first);
    for (size_t i = 0; i < first; i++) {
        const dpti_bytes token = dpti_tokenizer_token(tokenizer, ids.items[i]);
        require(token.data && ids.items[first + i] == ids.items[i]);
        if (exact)
            require(token.n_bytes <= n - at && memcmp(text + at, token.data, token.n_bytes) == 0);
        at += token.n_bytes;
    }
    require(!exact || at == n);
    free(ids.items);
}

static void try_tokenizer(dpt_status status, const dpt_error *error, dpt_tokenizer *tokenizer,
                          dpti_bytes text)
{
    require((status == DPT_OK) == (tokenizer != NULL));
    if (status != DPT_OK) {
        check_refusal(status, error);
        return;
    }
    encode(tokenizer, text.data, text.n_bytes, false);
    dpti_tokenizer_free(tokenizer);
}

static void parse_json(const uint8_t *data, size_t size)
{
    const dpti_file_bytes file = {"input", data, size};
    dpt_error error = {.status = DPT_OK};
    dpt_tokenizer *made = NULL;
    const dpt_status status = dpti_tokenizer_parse(&file, &made, &error);
    try_tokenizer(status, &error, made, (dpti_bytes){data, size});
}

static void parse_pair(dpti_file_bytes vocabulary, dpti_file_bytes list)
{
    const dpti_gpt2_files files = {vocabulary, list};
    dpt_error error = {.status = DPT_OK};
    dpt_tokenizer *made = NULL;
    const dpt_status status = dpti_tokenizer_parse_gpt2(&files, &made, &error);
    try_tokenizer(status, &error, made, (dpti_bytes){list.bytes, list.n_bytes});
}

/* Parts of a tokenizer.json with the vocabulary above. */
static dpt_tokenizer *make(const char *pre_tokenizer, const char *added)
{
    char *json = malloc(2 * VOCABULARY_BYTES);
    dpt_error error = {.status = DPT_OK};
    dpt_tokenizer *made = NULL;
    require(json != NULL);
    size_t n = (size_t)snprintf(json, VOCABULARY_BYTES,
                                "{\"pre_tokenizer\":%s,\"added_tokens\":%s,"
                                "\"model\":{\"type\":\"BPE\",\"vocab\":",
                                pre_tokenizer, added);
    n += write_vocabulary(json + n);
    n += (size_t)snprintf(json + n, 4096, ",\"merges\":%s}}", merges);
    const dpti_file_bytes file = {"input", (const uint8_t *)json, n};
    require(dpti_tokenizer_parse(&file, &made, &error) == DPT_OK);
    free(json);
    return made;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static dpt_tokenizer *known[2];
    static char vocabulary[VOCABULARY_BYTES];
    static size_t n_vocabulary;
    if (!known[0]) {
        n_vocabulary = write_vocabulary(vocabulary);
        known[0] = make("{\"type\":\"ByteLevel\",\"add_prefix_space\":false}",
                        "[{\"id\":300,\"content\":\"<|endoftext|>\"},"
                        "{\"id\":301,\"content\":\"<|e\",\"normalized\":true}]");
        known[1] = make(llama3, "[]");
    }
    parse_json(data, size);
    const uint8_t *zero = size > 0 ? memchr(data, 0, size) : NULL;
    const size_t first = zero ? (size_t)(zero - data) : size;
    parse_pair((dpti_file_bytes){"input", data, first},
               (dpti_file_bytes){"input", data + first, size - first});
    parse_pair((dpti_file_bytes){"input", (const uint8_t *)vocabulary, n_vocabulary},
               (dpti_file_bytes){"input", data, size});
    encode(known[0], data, size, true);
    encode(known[1], data, size, true);
    return 0;
}
