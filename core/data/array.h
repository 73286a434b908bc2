/* Arrays that files hold: what NumPy's .npy and .npz files and tables of numbers are read into.
   Uses no data set. */
#ifndef DPTI_DATA_ARRAY_H
#define DPTI_DATA_ARRAY_H

#include "base/bytes.h"
#include "dpt_error.h"
#include "dptrain/data.h"

enum {
    DPTI_MAX_ARRAYS = 64, /* of a file */
    DPTI_ARRAY_RANK = 8,  /* the largest rank */
    DPTI_ARRAY_NAME = 80, /* bytes of the longest name */
};

/* Numbers with a name.  The first axis counts the samples. */
typedef struct dpti_array {
    char *name;      /* owned */
    dpt_dtype dtype; /* DPT_U8, DPT_F32 or DPT_I32; the file's type may have been another one */
    size_t rank;     /* 1 to DPTI_ARRAY_RANK */
    size_t shape[DPTI_ARRAY_RANK]; /* each at least 1 */
    size_t n;                      /* elements */
    void *data; /* (n), the last axis runs fastest; aligned to 64 bytes; owned, free() */
} dpti_array;

typedef struct dpti_arrays {
    const char *part; /* of a file with several parts, the one whose arrays these are: "train",
                         "test" or "val"; NULL: the file is not divided */
    size_t n;
    dpti_array items[DPTI_MAX_ARRAYS];
} dpti_arrays;

/* Frees the name and the data.  Accepts a zeroed struct. */
void dpti_array_free(dpti_array *array);
/* Frees all arrays.  Accepts a zeroed struct. */
void dpti_arrays_free(dpti_arrays *arrays);
/* Returns whether an array of this name holds labels or targets: "labels", "y" or "targets". */
bool dpti_array_is_answer(const char *name);

/* Parses a NumPy file of format 1.0, 2.0 or 3.0.  Integers become int32, bool becomes the integers
   0 and 1, real numbers become float32, and uint8 stays.  `name` of the array stays NULL.  Both
   byte orders and both orders of axes are read.  Errors: DPT_E_FORMAT, whose message names the file
   and the fault; DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_npy_parse(const dpti_file_bytes *file, dpti_array *out,
                                           dpt_error *error);

/* What the header of a NumPy file says. */
typedef struct dpti_npy_head {
    char kind;            /* of the elements: 'b' bool, 'u' unsigned, 'i' signed, 'f' real */
    size_t element_bytes; /* 1, 2, 4 or 8 */
    bool swapped;         /* the first byte of an element is the most significant one */
    size_t rank, shape[DPTI_ARRAY_RANK], n; /* n elements */
    size_t n_bytes;                         /* of the header */
} dpti_npy_head;

/* Returns whether bytes begin as a NumPy file does. */
bool dpti_is_npy(const uint8_t *bytes, size_t n_bytes);
/* Reads the header from the first bytes of a NumPy file.  Errors: DPT_E_FORMAT, as dpti_npy_parse;
   also if the header is longer than the bytes. */
DPT_CHECK_RESULT dpt_status dpti_npy_read_head(const dpti_file_bytes *file, dpti_npy_head *out,
                                               dpt_error *error);

/* What is taken of a zip file. */
typedef struct dpti_npz_use {
    dpt_part part;     /* of a divided file */
    bool answers_only; /* labels and targets, and no other arrays */
} dpti_npz_use;

/* Parses a zip file of .npy files.  An array has the name of its file without ".npy".  Files of
   other names are skipped.  If all names begin with "train_", "test_" or "val_", as in MedMNIST, or
   end with "_train", "_test" or "_val", the file is divided: the arrays of the wanted part are
   taken, without these words.  Without test arrays those of "val" are the test part, and without
   these those of "train".  Errors: as dpti_npy_parse; DPT_E_FORMAT also for a divided file without
   arrays of "train", unless only answers are wanted. */
DPT_CHECK_RESULT dpt_status dpti_npz_parse(const dpti_file_bytes *file, const dpti_npz_use *use,
                                           dpti_arrays *out, dpt_error *error);

/* Parses a table of numbers with a header line, whose fields are separated by commas or tabs (RFC
   4180).  Column `labels` becomes the array "y": DPT_I32 if all its fields are integers without a
   decimal point, else DPT_F32.  If no column has this name, it is a list of columns with commas
   between them, which become the array "targets" (rows, columns of the list) of DPT_F32, in the
   order of the list.  All other columns become the array "x" (rows, columns) of DPT_F32.  Errors:
   DPT_E_FORMAT, whose message names the file, the line and the column; DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_table_parse(const dpti_file_bytes *file, const char *labels,
                                             dpti_arrays *out, dpt_error *error);

#endif
