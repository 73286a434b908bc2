/* Tokenizers: the ids of the package tokenizers (tests/text/make.py), text that comes back from its
   ids, and what is refused. */
#include "harness.h"
#include "text/merges.h"
#include "text/tokenizer.h"
#include "text/words.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 17 };

/* A file of tests/text in memory that the caller frees. */
static dpti_file_bytes load(test *t, const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "text/%s", name);
    FILE *file = test_open(path);
    uint8_t *bytes = malloc(MOST);
    const size_t n = file && bytes ? fread(bytes, 1, MOST, file) : 0;
    if (!CHECK(n > 0 && n < MOST)) FAIL("cannot read %s", path);
    if (file) fclose(file);
    return (dpti_file_bytes){name, bytes, n};
}

static void unload(const dpti_file_bytes *file)
{
    free((uint8_t *)file->bytes);
}

static dpt_tokenizer *open_json(test *t, const char *name)
{
    const dpti_file_bytes file = load(t, name);
    dpt_error error = {.status = DPT_OK};
    dpt_tokenizer *made = NULL;
    if (!CHECK_OK(dpti_tokenizer_parse(&file, &made, &error))) FAIL("%s", error.message);
    unload(&file);
    return made;
}

static dpt_tokenizer *open_gpt2(test *t)
{
    const dpti_gpt2_files files = {load(t, "gpt2/vocab.json"), load(t, "gpt2/merges.txt")};
    dpt_error error = {.status = DPT_OK};
    dpt_tokenizer *made = NULL;
    if (!CHECK_OK(dpti_tokenizer_parse_gpt2(&files, &made, &error))) FAIL("%s", error.message);
    unload(&files.vocabulary);
    unload(&files.merges);
    return made;
}

static dpti_ids encode(test *t, dpt_tokenizer *tokenizer, const void *text, size_t n)
{
    dpti_ids ids = {.n = 0};
    dpt_error error = {.status = DPT_OK};
    CHECK_OK(dpti_tokenizer_encode(tokenizer, (dpti_bytes){text, n}, &ids, &error));
    return ids;
}

/* Whether the ids stand for this text. */
static bool stand_for(const dpt_tokenizer *tokenizer, const dpti_ids *ids, const void *text,
                      size_t n)
{
    size_t at = 0;
    for (size_t i = 0; i < ids->n; i++) {
        const dpti_bytes token = dpti_tokenizer_token(tokenizer, ids->items[i]);
        if (!token.data || token.n_bytes > n - at ||
            memcmp((const uint8_t *)text + at, token.data, token.n_bytes) != 0)
            return false;
        at += token.n_bytes;
    }
    return at == n;
}

/* ---- Ids ------------------------------------------------------------------------------------- */

/* Compares the sample's ids with those of a file.  Encodes twice: the second time words are
   remembered. */
static void compare(test *t, dpt_tokenizer *tokenizer, const char *name)
{
    const dpti_file_bytes sample = load(t, "sample.txt"), file = load(t, name);
    for (int pass = 0; tokenizer && pass < 2; pass++) {
        dpti_ids ids = encode(t, tokenizer, sample.bytes, sample.n_bytes);
        const char *at = (const char *)file.bytes;
        size_t n = 0;
        for (; (size_t)(at - (const char *)file.bytes) < file.n_bytes; n++) {
            char *end;
            const long wanted = strtol(at, &end, 10);
            if (n >= ids.n || ids.items[n] != wanted) break;
            at = end + 1;
        }
        if (!CHECK_SIZE(n, ids.n) || !CHECK(*(at - 1) == '\n' && n > 600))
            FAIL("%s: the id at place %zu differs", name, n);
        free(ids.items);
    }
    unload(&sample);
    unload(&file);
    dpti_tokenizer_free(tokenizer);
}

static void has_the_ids_of_gpt2(test *t)
{
    compare(t, open_gpt2(t), "gpt2.ids");
}

static void has_the_ids_with_a_prefix(test *t)
{
    compare(t, open_json(t, "prefix.json"), "prefix.ids");
}

static void has_the_ids_of_llama3(test *t)
{
    compare(t, open_json(t, "llama3.json"), "llama3.ids");
}

static void has_the_ids_of_qwen2(test *t)
{
    compare(t, open_json(t, "qwen2.json"), "qwen2.ids");
}

static void gives_text_back(test *t)
{
    dpt_tokenizer *const both[] = {open_gpt2(t), open_json(t, "qwen2.json")};
    for (size_t k = 0; k < 2 && both[k]; k++) {
        uint8_t text[2048];
        uint32_t state = 12345;
        for (size_t i = 0; i < sizeof text; i++) { /* any bytes, mostly not UTF-8 */
            state = state * 1664525 + 1013904223;
            text[i] = (uint8_t)(state >> 24);
        }
        for (size_t n = 0; n <= sizeof text; n += n < 16 ? 1 : 127) {
            dpti_ids ids = encode(t, both[k], text, n);
            CHECK(stand_for(both[k], &ids, text, n));
            free(ids.items);
        }
        dpti_tokenizer_free(both[k]);
    }
}

/* A word of many bytes is merged as its copies are, in the time of a heap. */
static void merges_long_words(test *t)
{
    enum { N = 1 << 20 };
    dpt_tokenizer *tokenizer = open_gpt2(t);
    char *text = malloc(N);
    REQUIRE(tokenizer && text);
    memset(text, 'e', N);
    dpti_ids ids = encode(t, tokenizer, text, N);
    CHECK(stand_for(tokenizer, &ids, text, N));
    dpti_ids some = encode(t, tokenizer, text, 40); /* short enough for the other algorithm */
    for (size_t i = 0; i < some.n; i++)
        CHECK(ids.items[i] == some.items[i]);
    free(some.items);
    free(ids.items);
    free(text);
    dpti_tokenizer_free(tokenizer);
}

enum { N_MERGES = 40, N_LETTERS = 4, LONGEST = 300 };

/* Merges as the definition says: the first merge of the list that applies anywhere, in the leftmost
   place. */
static size_t merge_plainly(const dpti_merge *list, int32_t *ids, size_t n)
{
    for (size_t k = 0; k < N_MERGES; k++)
        for (size_t i = 0; i + 1 < n; i++)
            if (ids[i] == list[k].left && ids[i + 1] == list[k].right) {
                ids[i] = list[k].id;
                memmove(ids + i + 1, ids + i + 2, (n - i - 2) * sizeof *ids);
                return merge_plainly(list, ids, n - 1);
            }
    return n;
}

static uint32_t draw(uint32_t *state, uint32_t below)
{
    *state = *state * 1664525 + 1013904223;
    return (*state >> 16) % below;
}

static void merges_as_defined(test *t)
{
    uint32_t state = 7;
    dpti_merge list[N_MERGES];
    dpti_merges table;
    dpti_word word = {.room = 0};
    REQUIRE(dpti_merges_create(N_MERGES, &table) && dpti_word_reserve(&word, LONGEST));
    for (int32_t k = 0; k < N_MERGES; k++) {
        bool taken = true;
        while (taken) {
            list[k] = (dpti_merge){.left = (int32_t)draw(&state, N_LETTERS + (uint32_t)k),
                                   .right = (int32_t)draw(&state, N_LETTERS + (uint32_t)k),
                                   .id = N_LETTERS + k,
                                   .rank = (uint32_t)k};
            taken = false;
            for (int32_t i = 0; i < k; i++)
                taken = taken || (list[i].left == list[k].left && list[i].right == list[k].right);
        }
        dpti_merges_add(&table, &list[k]);
    }
    for (size_t n = 1; n <= LONGEST; n++) {
        int32_t ids[LONGEST], plain[LONGEST];
        for (size_t i = 0; i < n; i++)
            ids[i] = plain[i] = (int32_t)draw(&state, N_LETTERS);
        const size_t n_plain = merge_plainly(list, plain, n);
        const size_t n_ids = dpti_merge_word(&table, &word, ids, n);
        CHECK(n_ids == n_plain && memcmp(ids, plain, n_ids * sizeof *ids) == 0);
    }
    dpti_word_free(&word);
    dpti_merges_free(&table);
}

static void finds_tokens(test *t)
{
    dpt_tokenizer *tokenizer = open_json(t, "llama3.json");
    REQUIRE(tokenizer != NULL);
    const int32_t end = dpti_tokenizer_end(tokenizer);
    CHECK(end >= 0 && dpti_tokenizer_find(tokenizer, (dpti_bytes){"<|endoftext|>", 13}) == end);
    CHECK(dpti_tokenizer_find(tokenizer, (dpti_bytes){"a", 1}) >= 0);
    CHECK(dpti_tokenizer_find(tokenizer, (dpti_bytes){"no such token", 13}) == -1);
    CHECK(!dpti_tokenizer_token(tokenizer, -1).data);
    CHECK(!dpti_tokenizer_token(tokenizer, (int32_t)dpti_tokenizer_vocabulary(tokenizer)).data);
    CHECK_SIZE(dpti_tokenizer_vocabulary(tokenizer), 603);
    dpti_tokenizer_free(tokenizer);
}

static void is_public(test *t)
{
    dpt_context *context = NULL;
    dpt_tokenizer *tokenizer = NULL;
    const dpt_context_options how = {.size = sizeof how, .devices = "cpu"};
    REQUIRE_OK(dpt_context_create_with(&how, &context));
    CHECK_STATUS(dpt_tokenizer_open(context, "no/such/file", &tokenizer), DPT_E_NOT_FOUND);
    tokenizer = open_gpt2(t);
    static const char text[] = "two devices\xff divide a batch<|endoftext|>";
    int32_t *ids = NULL;
    char *back = NULL;
    size_t n_ids = 0, n_bytes = 0;
    REQUIRE_OK(dpt_tokenizer_encode(context, tokenizer, text, strlen(text), &ids, &n_ids));
    CHECK(n_ids > 3 && n_ids < strlen(text) &&
          ids[n_ids - 1] == dpt_tokenizer_find(tokenizer, "<|endoftext|>"));
    REQUIRE_OK(dpt_tokenizer_decode(context, tokenizer, ids, n_ids, &back, &n_bytes));
    CHECK_TEXT(back, text);
    CHECK_SIZE(n_bytes, strlen(text));
    ids[1] = (int32_t)dpt_tokenizer_vocabulary(tokenizer);
    CHECK_STATUS(dpt_tokenizer_decode(context, tokenizer, ids, n_ids, &back, &n_bytes),
                 DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(context), "at place 1");
    free(back);
    free(ids);
    dpt_tokenizer_destroy(tokenizer);
    dpt_tokenizer_destroy(NULL);
    dpt_context_destroy(context);
}

/* ---- Words ----------------------------------------------------------------------------------- */

/* Cuts a text into words, with "|" between them. */
static const char *cut(dpti_pattern pattern, const char *text, char out[128])
{
    const dpti_cut c = {pattern, (const uint8_t *)text, strlen(text)};
    size_t n = 0;
    for (size_t at = 0; at < c.n_bytes;) {
        const size_t bytes = dpti_word_bytes(&c, at);
        n += (size_t)snprintf(out + n, 128 - n, "%s%.*s", at > 0 ? "|" : "", (int)bytes, text + at);
        at += bytes;
    }
    return out;
}

static void cuts_words(test *t)
{
    char out[128];
    CHECK_TEXT(cut(DPTI_PATTERN_GPT2, "It's  a1 b?!\n\n c ", out), "It|'s| | a|1| b|?!|\n\n| c| ");
    CHECK_TEXT(cut(DPTI_PATTERN_LLAMA3, "It'S  a1234 b?!\n\n c ", out),
               "It|'S| | a|123|4| b|?!\n\n| c| ");
    CHECK_TEXT(cut(DPTI_PATTERN_QWEN2, "(x) 12\n \n y", out), "(x|)| |1|2|\n \n| y");
    CHECK_TEXT(cut(DPTI_PATTERN_GPT2, "a\xff\xc3 b", out), "a|\xff\xc3| b");
    CHECK_TEXT(cut(DPTI_PATTERN_NONE, "a b", out), "a b");
    CHECK_TEXT(cut(DPTI_PATTERN_LLAMA3,
                   "a'\xc5\xbf"
                   "b",
                   out),
               "a|'\xc5\xbf|b"); /* a long s */
    CHECK_TEXT(cut(DPTI_PATTERN_GPT2,
                   "a \xc2\xa0"
                   "b",
                   out),
               "a| |\xc2\xa0|b");
}

/* ---- What is refused ------------------------------------------------------------------------- */

static void refuse(test *t, const char *json, const char *why)
{
    const dpti_file_bytes file = {"some/file", (const uint8_t *)json, strlen(json)};
    dpt_error error = {.status = DPT_OK};
    dpt_tokenizer *made = NULL;
    if (!CHECK_STATUS(dpti_tokenizer_parse(&file, &made, &error), DPT_E_FORMAT)) return;
    CHECK(!made && strncmp(error.message, "some/file", 9) == 0);
    CHECK_CONTAINS(error.message, why);
}

static void refuses_json(test *t)
{
    refuse(t, "{\"model\":", "damaged in line 1");
    refuse(t, "[]", "no object");
    refuse(t, "{}", "no model");
    refuse(t, "{\"model\":{\"type\":\"Unigram\",\"vocab\":[]}}", "its model is Unigram");
    refuse(t, "{\"model\":{\"type\":\"WordPiece\",\"vocab\":{}}}", "its model is WordPiece");
    refuse(t, "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0}}}", "no merges");
    refuse(t, "{\"model\":{\"vocab\":{},\"merges\":[]}}", "no vocabulary");
    refuse(t, "{\"model\":{\"vocab\":{\"a\":0},\"merges\":[],\"byte_fallback\":true}}",
           "byte_fallback");
    refuse(t, "{\"model\":{\"vocab\":{\"a\":0},\"merges\":[],\"dropout\":0.1}}", "dropout");
    refuse(t, "{\"normalizer\":{\"type\":\"NFC\"},\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}",
           "its normalizer is NFC");
    refuse(t, "{\"model\":{\"vocab\":{\"a\":-1},\"merges\":[]}}", "the id of token \"a\"");
    refuse(t, "{\"model\":{\"vocab\":{\"a\":1,\"b\":1},\"merges\":[]}}", "that of another token");
    refuse(t, "{\"model\":{\"vocab\":{\"\xe2\x96\x81the\":1},\"merges\":[]}}", "byte-level BPE");
    refuse(t, "{\"model\":{\"vocab\":{\"a\":1},\"merges\":[]}}",
           "its pre-tokenizer is of no known");
    refuse(t,
           "{\"pre_tokenizer\":{\"type\":\"Metaspace\"},\"model\":{\"vocab\":{\"a\":1},"
           "\"merges\":[]}}",
           "its pre-tokenizer is Metaspace");
    refuse(t,
           "{\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"model\":{\"vocab\":{\"a\":1},"
           "\"merges\":[]}}",
           "no token for byte 0x00");
    refuse(t,
           "{\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"model\":{\"vocab\":{\"a\":1,\"b\":2},"
           "\"merges\":[\"a b\"]}}",
           "merge 0, of \"a\" and \"b\", does not fit the vocabulary: both together");
    refuse(t,
           "{\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"model\":{\"vocab\":{\"a\":1},"
           "\"merges\":[[\"a\",\"c\"]]}}",
           "the second is no token");
    refuse(t,
           "{\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"model\":{\"vocab\":{\"a\":1},"
           "\"merges\":[]},\"added_tokens\":[{\"id\":1,\"content\":\"x\"}]}",
           "id 1 of added token \"x\" is that of another token");
    refuse(t,
           "{\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"model\":{\"vocab\":{\"a\":1},"
           "\"merges\":[]},\"added_tokens\":[{\"id\":2,\"content\":\"a\"}]}",
           "has id 2, and id 1");
}

static void refuses_merges(test *t)
{
    const dpti_file_bytes vocabulary = load(t, "gpt2/vocab.json");
    static const struct {
        const char *merges, *why;
    } wrong[] = {
        {"#version: 0.2\na b c\n", "merges.txt: line 2 is no merge"},
        {"#version: 0.2\ne r\nabc\n", "merges.txt: line 3 is no merge"},
        {"#version: 0.2\nq zqx\n", "merges.txt: merge 0, of \"q\" and \"zqx\", does not fit"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const dpti_gpt2_files files = {
            vocabulary, {"merges.txt", (const uint8_t *)wrong[i].merges, strlen(wrong[i].merges)}};
        dpt_error error = {.status = DPT_OK};
        dpt_tokenizer *made = NULL;
        CHECK_STATUS(dpti_tokenizer_parse_gpt2(&files, &made, &error), DPT_E_FORMAT);
        CHECK_CONTAINS(error.message, wrong[i].why);
    }
    unload(&vocabulary);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"has_the_ids_of_gpt2", has_the_ids_of_gpt2},
        {"has_the_ids_with_a_prefix", has_the_ids_with_a_prefix},
        {"has_the_ids_of_llama3", has_the_ids_of_llama3},
        {"has_the_ids_of_qwen2", has_the_ids_of_qwen2},
        {"gives_text_back", gives_text_back},
        {"merges_long_words", merges_long_words},
        {"merges_as_defined", merges_as_defined},
        {"finds_tokens", finds_tokens},
        {"is_public", is_public},
        {"cuts_words", cuts_words},
        {"refuses_json", refuses_json},
        {"refuses_merges", refuses_merges},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
