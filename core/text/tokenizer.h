/* Byte-level BPE: text becomes ids, and ids become text.  Reads GPT-2's vocab.json and merges.txt,
   and Hugging Face's tokenizer.json. */
#ifndef DPTI_TOKENIZER_H
#define DPTI_TOKENIZER_H

#include "base/bytes.h"
#include "dpt_error.h"
#include "dptrain.h"

/* Ids in a growing array. */
typedef struct dpti_ids {
    size_t n, room;
    int32_t *items; /* owned, free() */
} dpti_ids;

/* Appends an id.  Errors: DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_ids_add(dpti_ids *ids, int32_t id, dpt_error *error);

/* Reads a tokenizer: the path of a tokenizer.json, or a folder with tokenizer.json or with
   vocab.json and merges.txt.  Errors: DPT_E_NOT_FOUND; DPT_E_IO; DPT_E_NO_MEMORY; DPT_E_FORMAT,
   whose message names the file and the fault: damaged JSON, a tokenizer of another kind, a merge
   that does not fit the vocabulary. */
DPT_CHECK_RESULT dpt_status dpti_tokenizer_read(const char *path, dpt_tokenizer **out,
                                                dpt_error *error);
/* The same for a tokenizer.json in memory. */
DPT_CHECK_RESULT dpt_status dpti_tokenizer_parse(const dpti_file_bytes *file, dpt_tokenizer **out,
                                                 dpt_error *error);
/* The files of GPT-2 in memory. */
typedef struct dpti_gpt2_files {
    dpti_file_bytes vocabulary, merges;
} dpti_gpt2_files;

DPT_CHECK_RESULT dpt_status dpti_tokenizer_parse_gpt2(const dpti_gpt2_files *files,
                                                      dpt_tokenizer **out, dpt_error *error);
/* Accepts NULL. */
void dpti_tokenizer_free(dpt_tokenizer *tokenizer);

/* Returns one more than the largest id. */
size_t dpti_tokenizer_vocabulary(const dpt_tokenizer *tokenizer);
/* Returns the id of a token with this text: an added one, or one whose bytes these are; -1: there
   is none. */
int32_t dpti_tokenizer_find(const dpt_tokenizer *tokenizer, dpti_bytes text);
/* Returns the id that ends a text: of "<|endoftext|>" or "<|end_of_text|>"; -1: there is none. */
int32_t dpti_tokenizer_end(const dpt_tokenizer *tokenizer);

/* Appends the ids of a text.  The text need not be UTF-8: a byte that is not valid is a character
   of its own, neither letter nor number nor space.  One thread at a time uses a tokenizer, because
   it remembers words.  Errors: DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_tokenizer_encode(dpt_tokenizer *tokenizer, dpti_bytes text,
                                                  dpti_ids *out, dpt_error *error);
/* Returns the bytes of a token; data NULL: no token has this id. */
dpti_bytes dpti_tokenizer_token(const dpt_tokenizer *tokenizer, int32_t id);

#endif
