/* Encoding and decoding (tokenizer.h).  A text is cut at special tokens, the parts are cut into
   words, and the bytes of each word are merged. */
#include "text/tokenizer.h"

#include "text/state.h"

#include <stdlib.h>
#include <string.h>

static dpt_status fail_memory(dpt_error *error)
{
    return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the ids of a text");
}

static bool reserve(dpti_ids *ids, size_t more)
{
    if (more <= ids->room - ids->n) return true;
    size_t room = ids->room ? 2 * ids->room : 1024;
    while (room - ids->n < more)
        room *= 2;
    int32_t *grown = realloc(ids->items, room * sizeof *grown);
    if (!grown) return false;
    ids->items = grown;
    ids->room = room;
    return true;
}

dpt_status dpti_ids_add(dpti_ids *ids, int32_t id, dpt_error *error)
{
    if (!reserve(ids, 1)) return fail_memory(error);
    ids->items[ids->n++] = id;
    return DPT_OK;
}

/* ---- A tokenizer ----------------------------------------------------------------------------- */

dpt_tokenizer *dpti_tokenizer_create(size_t n)
{
    dpt_tokenizer *t = calloc(1, sizeof *t);
    if (!t) return NULL;
    t->end = -1;
    if (dpti_vocabulary_create(n, &t->vocabulary)) return t;
    dpti_tokenizer_free(t);
    return NULL;
}

void dpti_tokenizer_free(dpt_tokenizer *tokenizer)
{
    if (!tokenizer) return;
    dpti_vocabulary_free(&tokenizer->vocabulary);
    dpti_merges_free(&tokenizer->merges);
    dpti_word_free(&tokenizer->word);
    free(tokenizer->specials);
    free(tokenizer->kept);
    free(tokenizer);
}

static const dpti_token *token_of(const dpt_tokenizer *t, const dpti_special *special)
{
    return &t->vocabulary.tokens[special->id];
}

/* Sorts the special tokens: the longest first.  There are few, so that any algorithm does. */
static void sort_specials(dpt_tokenizer *t)
{
    for (size_t i = 1; i < t->n_specials; i++) {
        const dpti_special one = t->specials[i];
        size_t k = i;
        for (; k > 0 && token_of(t, &t->specials[k - 1])->n_bytes < token_of(t, &one)->n_bytes; k--)
            t->specials[k] = t->specials[k - 1];
        t->specials[k] = one;
    }
}

static void note_start(dpt_tokenizer *t, unsigned first, unsigned second)
{
    const unsigned pair = first << 8 | second;
    t->starts[pair / 8] |= (uint8_t)(1u << pair % 8);
}

unsigned dpti_tokenizer_complete(dpt_tokenizer *tokenizer)
{
    static const char *const ends[] = {"<|endoftext|>", "<|end_of_text|>"};
    dpt_tokenizer *t = tokenizer;
    sort_specials(t);
    for (size_t i = 0; i < t->n_specials; i++) {
        const dpti_token *s = token_of(t, &t->specials[i]);
        for (unsigned second = 0; second < 256; second++)
            if (s->n_bytes == 1 || s->bytes[1] == second) note_start(t, s->bytes[0], second);
    }
    for (size_t i = 0; i < sizeof ends / sizeof *ends && t->end < 0; i++)
        t->end = dpti_tokenizer_find(t, (dpti_bytes){ends[i], strlen(ends[i])});
    for (unsigned byte = 0; byte < 256; byte++) {
        const uint8_t text = (uint8_t)byte;
        t->byte_ids[byte] = dpti_vocabulary_find(&t->vocabulary, (dpti_bytes){&text, 1});
        if (t->byte_ids[byte] < 0) return byte;
    }
    return 256;
}

size_t dpti_tokenizer_vocabulary(const dpt_tokenizer *tokenizer)
{
    return tokenizer->vocabulary.n;
}

int32_t dpti_tokenizer_find(const dpt_tokenizer *tokenizer, dpti_bytes text)
{
    for (size_t i = 0; i < tokenizer->n_specials; i++) {
        const dpti_token *s = token_of(tokenizer, &tokenizer->specials[i]);
        if (s->n_bytes == text.n_bytes && memcmp(s->bytes, text.data, text.n_bytes) == 0)
            return tokenizer->specials[i].id;
    }
    return dpti_vocabulary_find(&tokenizer->vocabulary, text);
}

int32_t dpti_tokenizer_end(const dpt_tokenizer *tokenizer)
{
    return tokenizer->end;
}

dpti_bytes dpti_tokenizer_token(const dpt_tokenizer *tokenizer, int32_t id)
{
    if (id < 0 || (size_t)id >= tokenizer->vocabulary.n) return (dpti_bytes){NULL, 0};
    const dpti_token *t = &tokenizer->vocabulary.tokens[id];
    return (dpti_bytes){t->bytes, t->n_bytes};
}

/* ---- Words ----------------------------------------------------------------------------------- */

/* A text that is encoded. */
typedef struct encoding {
    dpt_tokenizer *t;
    dpti_ids *out;
} encoding;

/* Encodes a word of any length. */
static bool encode_new(const encoding *e, const uint8_t *word, size_t n)
{
    dpt_tokenizer *t = e->t;
    dpti_ids *out = e->out;
    if (!reserve(out, n) || !dpti_word_reserve(&t->word, n)) return false;
    if (t->ignore_merges) {
        const int32_t id = dpti_vocabulary_find(&t->vocabulary, (dpti_bytes){word, n});
        if (id >= 0) {
            out->items[out->n++] = id;
            return true;
        }
    }
    int32_t *ids = out->items + out->n;
    for (size_t i = 0; i < n; i++)
        ids[i] = t->byte_ids[word[i]];
    out->n += dpti_merge_word(&t->merges, &t->word, ids, n);
    return true;
}

static bool encode_word(const encoding *e, const uint8_t *word, size_t n)
{
    dpti_ids *out = e->out;
    if (n > DPTI_KEPT_BYTES) return encode_new(e, word, n);
    dpti_kept_word *kept = &e->t->kept[dpti_hash(word, n) % DPTI_KEPT_WORDS];
    if (kept->n_bytes == n && memcmp(kept->bytes, word, n) == 0) {
        if (!reserve(out, DPTI_KEPT_IDS)) return false;
        memcpy(out->items + out->n, kept->ids, sizeof kept->ids);
        out->n += kept->n_ids;
        return true;
    }
    const size_t before = out->n;
    if (!encode_new(e, word, n)) return false;
    const size_t n_ids = out->n - before;
    if (n_ids > DPTI_KEPT_IDS) return true;
    kept->n_bytes = (uint8_t)n;
    kept->n_ids = (uint8_t)n_ids;
    memcpy(kept->bytes, word, n);
    memcpy(kept->ids, out->items + before, n_ids * sizeof *kept->ids);
    return true;
}

/* Encodes a text in which no special token is looked for any more. */
static bool encode_words(const encoding *e, const uint8_t *text, size_t n)
{
    enum { MOST = 1 << 30 }; /* bytes of a word */
    const dpti_cut cut = {e->t->pattern, text, n};
    for (size_t at = 0; at < n;) {
        const size_t whole = dpti_word_bytes(&cut, at), bytes = whole < MOST ? whole : MOST;
        if (!encode_word(e, text + at, bytes)) return false;
        at += bytes;
    }
    return true;
}

static bool encode_part(const encoding *e, const uint8_t *text, size_t n)
{
    if (n == 0) return true;
    if (!e->t->add_prefix_space || text[0] == ' ') return encode_words(e, text, n);
    uint8_t *spaced = malloc(n + 1);
    if (!spaced) return false;
    spaced[0] = ' ';
    memcpy(spaced + 1, text, n);
    const bool done = encode_words(e, spaced, n + 1);
    free(spaced);
    return done;
}

/* ---- Special tokens -------------------------------------------------------------------------- */

/* A special token that was found: the bytes [begin, end) of the text. */
typedef struct found {
    const dpti_special *special; /* NULL: none */
    size_t begin, end;
} found;

static const dpti_special *special_at(const dpt_tokenizer *t, dpti_bytes rest, bool normalized)
{
    const uint8_t *text = rest.data;
    const unsigned second = rest.n_bytes > 1 ? text[1] : 0;
    const unsigned pair = (unsigned)text[0] << 8 | second;
    if (rest.n_bytes > 1 && !(t->starts[pair / 8] >> pair % 8 & 1)) return NULL;
    for (size_t i = 0; i < t->n_specials; i++) {
        const dpti_special *s = &t->specials[i];
        const dpti_token *token = token_of(t, s);
        if (s->normalized == normalized && token->n_bytes <= rest.n_bytes &&
            memcmp(token->bytes, text, token->n_bytes) == 0)
            return s;
    }
    return NULL;
}

/* The beginning of the spaces in front of a place. */
static size_t spaces_before(const uint8_t *text, size_t at)
{
    while (at > 0) {
        size_t begin = at - 1;
        while (begin > 0 && at - begin < 4 && (text[begin] & 0xc0) == 0x80)
            begin--;
        const dpti_char c = dpti_char_at(text, at, begin);
        if (c.class != DPTI_SPACE || begin + c.n_bytes != at) break;
        at = begin;
    }
    return at;
}

static size_t spaces_behind(const uint8_t *text, size_t n, size_t at)
{
    for (dpti_char c; (c = dpti_char_at(text, n, at)).n_bytes && c.class == DPTI_SPACE;)
        at += c.n_bytes;
    return at;
}

/* Finds the first special token of a kind from a place on. */
static found find_special(const dpt_tokenizer *t, dpti_bytes whole, size_t from, bool normalized)
{
    const uint8_t *text = whole.data;
    for (size_t at = from; at < whole.n_bytes; at++) {
        const dpti_special *s =
            special_at(t, (dpti_bytes){text + at, whole.n_bytes - at}, normalized);
        if (!s) continue;
        found f = {s, at, at + token_of(t, s)->n_bytes};
        if (s->left) f.begin = spaces_before(text, at);
        if (f.begin < from) f.begin = from;
        if (s->right) f.end = spaces_behind(text, whole.n_bytes, f.end);
        return f;
    }
    return (found){NULL, whole.n_bytes, whole.n_bytes};
}

/* Cuts a text at the special tokens of one kind, and the parts at those of the other kind. */
static bool encode_between(const encoding *e, dpti_bytes whole, bool normalized)
{
    const uint8_t *text = whole.data;
    for (size_t at = 0; at < whole.n_bytes;) {
        const found f = find_special(e->t, whole, at, normalized);
        const dpti_bytes part = {text + at, f.begin - at};
        const bool done =
            normalized ? encode_part(e, part.data, part.n_bytes) : encode_between(e, part, true);
        if (!done || !reserve(e->out, 1)) return false;
        if (f.special) e->out->items[e->out->n++] = f.special->id;
        at = f.end;
    }
    return true;
}

dpt_status dpti_tokenizer_encode(dpt_tokenizer *tokenizer, dpti_bytes text, dpti_ids *out,
                                 dpt_error *error)
{
    const encoding e = {tokenizer, out};
    if (!tokenizer->kept) tokenizer->kept = calloc(DPTI_KEPT_WORDS, sizeof *tokenizer->kept);
    if (!tokenizer->kept) return fail_memory(error);
    const bool done = tokenizer->n_specials > 0 ? encode_between(&e, text, false)
                                                : encode_part(&e, text.data, text.n_bytes);
    return done ? DPT_OK : fail_memory(error);
}
