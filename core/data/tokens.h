/* Tokens: a sequence of ids in files, one file behind the other.  Files are read piece by piece, so
   that they may be larger than memory.  Uses no data set. */
#ifndef DPTI_TOKENS_H
#define DPTI_TOKENS_H

#include "base/bytes.h"
#include "dpt_error.h"

/* How a file stores its ids if its content does not say it. */
typedef enum dpti_token_form {
    DPTI_TOKENS_BYTES, /* every byte is an id, whatever the file contains */
    DPTI_TOKENS_U16,   /* little-endian, unless the file is a NumPy array or one of llm.c */
    DPTI_TOKENS_U32,
} dpti_token_form;

/* Where the ids of a file are, and of which type. */
typedef struct dpti_token_layout {
    size_t bytes; /* of an id: 1, 2, 4 or 8 */
    bool swapped; /* the first byte is the most significant one */
    bool is_signed;
    size_t offset; /* of the first id in the file */
    size_t n;      /* ids, at least 1 */
} dpti_token_layout;

enum { DPTI_TOKEN_HEAD = 1 << 16 }; /* first bytes of a file that tell its layout */

/* What is known of a file before its layout. */
typedef struct dpti_token_file {
    dpti_file_bytes head; /* the first DPTI_TOKEN_HEAD bytes, or all */
    size_t file_bytes;    /* of the whole file */
    dpti_token_form form;
} dpti_token_file;

/* Finds the layout of a file.  Errors: DPT_E_FORMAT, whose message names the file and the fault: an
   empty file, a NumPy array that is not 1-d or not of integers, a file of llm.c with another
   version or another length, a length that is no multiple of the width. */
DPT_CHECK_RESULT dpt_status dpti_token_layout_find(const dpti_token_file *file,
                                                   dpti_token_layout *out, dpt_error *error);
/* Converts n ids.  Returns the place of the first one that is negative or above INT32_MAX, or n. */
size_t dpti_token_convert(const dpti_token_layout *layout, const uint8_t *from, size_t n,
                          int32_t *out);

typedef struct dpti_token_run dpti_token_run;

/* A sequence of ids. */
typedef struct dpti_tokens {
    dpti_token_run *runs; /* (n_runs), one for each file */
    size_t n_runs, room;
    size_t n;          /* ids */
    size_t vocabulary; /* ids are below it; 0: not known yet, and not checked */
} dpti_tokens;

/* A file to add. */
typedef struct dpti_token_source {
    const char *path;
    dpti_token_form form;
    bool keep_open; /* the file stays open; else it is opened each time that it is read */
} dpti_token_source;

/* Adds the ids of a file.  Errors: DPT_E_NOT_FOUND, DPT_E_IO, DPT_E_NO_MEMORY, those of
   dpti_token_layout_find. */
DPT_CHECK_RESULT dpt_status dpti_tokens_add_file(dpti_tokens *tokens,
                                                 const dpti_token_source *source, dpt_error *error);

/* Ids in memory. */
typedef struct dpti_token_memory {
    void *ids;       /* of `bytes` bytes each, in the machine's order; owned, free() */
    size_t n, bytes; /* 2 or 4 */
} dpti_token_memory;

/* Adds ids in memory, which the sequence takes over, also after a failure.  `path` is for messages.
   Errors: DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_tokens_add_memory(dpti_tokens *tokens, const char *path,
                                                   const dpti_token_memory *memory,
                                                   dpt_error *error);

/* A piece of a sequence: ids first to first + n - 1. */
typedef struct dpti_token_piece {
    size_t first, n;
} dpti_token_piece;

/* Reads a piece, which must be in the sequence.  Several threads may read at once.  Errors:
   DPT_E_FORMAT for an id that is not below the vocabulary, or below 2^31 if the vocabulary is not
   known (the message names the file and the place), and for a file that has become shorter;
   DPT_E_IO; DPT_E_NOT_FOUND; DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_tokens_read(const dpti_tokens *tokens, dpti_token_piece piece,
                                             int32_t *out, dpt_error *error);
/* Reads all ids and returns the largest.  Errors: as dpti_tokens_read. */
DPT_CHECK_RESULT dpt_status dpti_tokens_largest(const dpti_tokens *tokens, int32_t *out,
                                                dpt_error *error);
/* Accepts a zeroed struct. */
void dpti_tokens_free(dpti_tokens *tokens);

#endif
