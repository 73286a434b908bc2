/* What the readers of tokenizer files share.  Private to core/text. */
#ifndef DPTI_TOKENIZER_READ_H
#define DPTI_TOKENIZER_READ_H

#include "base/bytes.h"
#include "dpt_error.h"
#include "text/state.h"

#include <jansson.h>

/* A tokenizer that is being read. */
typedef struct dpti_reading {
    const char *file; /* for messages */
    dpt_tokenizer *t;
    uint8_t *bytes; /* room for the bytes of any text of the files */
    /* The special tokens, whose texts need not be in the alphabet; NULL: none. */
    const json_t *added;
} dpti_reading;

enum { DPTI_SHOWN = 64 };

/* A text of a file as a message shows it. */
typedef struct dpti_shown {
    char text[DPTI_SHOWN];
} dpti_shown;

/* Returns the first characters of a text, as far as they can be printed. */
dpti_shown dpti_show(const char *text, size_t n_bytes);

/* Parses JSON whose value is an object.  Errors: DPT_E_FORMAT, DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_read_json(const dpti_file_bytes *file, json_t **out,
                                           dpt_error *error);
/* Takes a vocabulary: an object with an id for each token.  Makes r->t for these ids and for those
   of r->added.  Errors: DPT_E_FORMAT, DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_read_vocabulary(dpti_reading *r, const json_t *tokens,
                                                 dpt_error *error);

/* A merge as the file has it. */
typedef struct dpti_merge_text {
    const char *left, *right; /* in the alphabet */
    size_t n_left, n_right;
    size_t number; /* from 0 */
} dpti_merge_text;

/* Adds a merge.  Errors: DPT_E_FORMAT if one of its texts, or both together, are no token. */
DPT_CHECK_RESULT dpt_status dpti_read_merge(dpti_reading *r, const dpti_merge_text *merge,
                                            dpt_error *error);
/* Cuts "LEFT RIGHT" at the space.  Returns false if there is not one. */
bool dpti_cut_merge(const char *text, size_t n_bytes, dpti_merge_text *out);
/* Adds a special token, whose text is in the vocabulary or not.  The flags of `like` are taken.
   Errors: DPT_E_FORMAT if the id or the text belongs to another token; DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_read_special(dpti_reading *r, dpti_bytes text,
                                              const dpti_special *like, dpt_error *error);
/* Completes the tokenizer.  Errors: DPT_E_FORMAT if a byte has no token. */
DPT_CHECK_RESULT dpt_status dpti_read_complete(dpti_reading *r, dpt_error *error);
/* Reads a tokenizer.json, which is parsed, into r->t.  Errors: DPT_E_FORMAT, DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_read_tokenizer_json(dpti_reading *r, const json_t *json,
                                                     dpt_error *error);

#endif
