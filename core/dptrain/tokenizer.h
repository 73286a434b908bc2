/* Tokenizers: text becomes ids, and ids become text.
   Part of the public API: programs include dptrain.h. */
#ifndef DPTRAIN_TOKENIZER_H
#define DPTRAIN_TOKENIZER_H

#include "dptrain/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A tokenizer of byte-level BPE, such as those of GPT-2 and Llama 3. */
typedef struct dpt_tokenizer dpt_tokenizer;

/* Reads a tokenizer.  `path` is a tokenizer.json of Hugging Face, or a folder with tokenizer.json
   or with GPT-2's vocab.json and merges.txt.  docs/data.md says which are read.  The caller owns
   `out` and destroys it with dpt_tokenizer_destroy.  Errors: DPT_E_NOT_FOUND; DPT_E_IO;
   DPT_E_FORMAT if a file is damaged or is a tokenizer of another kind; DPT_E_NO_MEMORY. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_tokenizer_open(dpt_context *context, const char *path,
                                                       dpt_tokenizer **out);
/* Destroys a tokenizer.  Accepts NULL.  Cannot fail. */
DPT_API void dpt_tokenizer_destroy(dpt_tokenizer *tokenizer);

/* Returns one more than the largest id.  Cannot fail. */
DPT_API size_t dpt_tokenizer_vocabulary(const dpt_tokenizer *tokenizer);
/* Returns the id of the token with this text, such as "<|endoftext|>", or -1 if there is none.
   Cannot fail. */
DPT_API int32_t dpt_tokenizer_find(const dpt_tokenizer *tokenizer, const char *text);

/* Makes ids of n_bytes bytes of text, which need not be valid UTF-8.  Texts of special tokens
   become their ids; no token is put in front or behind.  *ids is allocated; the caller frees it
   with free(). One thread at a time may use a tokenizer.  Errors: DPT_E_NO_MEMORY. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_tokenizer_encode(dpt_context *context,
                                                         dpt_tokenizer *tokenizer, const char *text,
                                                         size_t n_bytes, int32_t **ids,
                                                         size_t *n_ids);
/* Makes text of ids.  *text is allocated and ends with a zero byte, which *n_bytes does not count;
   the caller frees it with free().  The text of some ids may end within a character of UTF-8.
   Errors: DPT_E_INVALID for an id that no token has (the message names the place);
   DPT_E_NO_MEMORY. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_tokenizer_decode(dpt_context *context,
                                                         const dpt_tokenizer *tokenizer,
                                                         const int32_t *ids, size_t n_ids,
                                                         char **text, size_t *n_bytes);

#ifdef __cplusplus
}
#endif

#endif
