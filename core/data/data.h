/* Labelled images in host memory, and where they come from.  Knows no device. */
#ifndef DPTI_DATA_H
#define DPTI_DATA_H

#include "backend.h"
#include "dptrain.h"

struct dpt_dataset {
    char *name;
    char *source;
    size_t count, height, width, channels, classes;
    dpt_dtype dtype;      /* DPT_U8 or DPT_F32 */
    void *images;         /* (count, height, width, channels), aligned to 64 bytes */
    uint8_t *labels;      /* (count), each below classes; aligned to 64 bytes */
    size_t stat_channels; /* 1 to 4: element e of a sample has mean[e % stat_channels] */
    float mean[4];        /* the network sees (value - mean) * scale */
    float scale[4];
    const char *const *class_names; /* `classes` strings with static lifetime, or NULL */
};

/* An IDX file in memory.  https://yann.lecun.com/exdb/mnist/ describes the format: magic
   00 00 TYPE RANK, RANK big-endian 32-bit extents, elements in row-major order. */
typedef struct dpti_idx {
    size_t rank; /* 1 to 4 */
    size_t shape[4];
    uint8_t *data; /* unsigned bytes, product of shape; aligned to 64 bytes; owned, free() */
} dpti_idx;

/* Reads a file of unsigned bytes (type 08), gzipped or not (told by its content, not its name).
   DPT_E_NOT_FOUND, DPT_E_IO, DPT_E_NO_MEMORY; DPT_E_FORMAT names the file and what is wrong: magic,
   truncation, trailing bytes, corrupt gzip data. */
DPT_CHECK_RESULT dpt_status dpti_idx_read(const char *path, dpti_idx *out, dpt_error *error);
/* The same from bytes in memory; `name` stands in messages. */
DPT_CHECK_RESULT dpt_status dpti_idx_parse(const char *name, const uint8_t *bytes, size_t n_bytes,
                                           dpti_idx *out, dpt_error *error);

/* "synthetic:HxWxC:CLASSES:COUNT": images that a small network can learn, made by Philox from the
   sample's index: a class pattern plus noise.  The test part differs from the training part. */
DPT_CHECK_RESULT dpt_status dpti_synthetic_create(const char *spec, dpt_part part,
                                                  dpt_dataset **out, dpt_error *error);

#endif
