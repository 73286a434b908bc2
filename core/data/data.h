/* Data sets: labelled images in host memory or read on demand, and the formats that they come
   from.  Uses no device. */
#ifndef DPTI_DATA_H
#define DPTI_DATA_H

#include "data/reader.h"
#include "dpt_error.h"
#include "dptrain.h"

#include <stdatomic.h>

/* Samples are numbered with 32 bits on devices, where the sign bit is not to be trusted. */
enum { DPTI_MAX_RECORDS = INT32_MAX };

/* What is read from files has at most so many. */
enum { DPTI_MAX_CLASSES = 65536 };

/* Of samples that were replaced: [first, first + count). */
typedef struct dpti_written {
    size_t first, count;
} dpti_written;

enum { DPTI_WRITES = 16 }; /* that are remembered */

/* Samples are what is trained on, records what lies in memory.  A data set has its own records, or
   it is a part and lists those of another one. */
struct dpt_dataset {
    dpt_context *context;
    char *name;
    char *source;
    char *file;       /* of the images, where they have one: the whole's, as they are */
    const char *part; /* "training" or "test", where that is known */
    size_t count, height, width, channels, classes;
    const dpt_dataset *whole; /* whose images, labels and targets these are; NULL: its own */
    uint32_t *samples;        /* (count) the record of each sample, ascending; NULL: the same */
    size_t n_records;
    dpt_dtype dtype;      /* DPT_U8 or DPT_F32 */
    void *images;         /* (n_records, height, width, channels), aligned to 64 bytes; or NULL, and
                             they come from */
    dpti_reader *reader;  /* this one, which is the whole's */
    int32_t *labels;      /* (n_records), 0 to classes - 1; aligned to 64 bytes; or NULL */
    float *targets;       /* (n_records, classes), finite; aligned to 64 bytes; or NULL.  Without
                             either the data are for predictions */
    size_t stat_channels; /* 1 to 4: element e of a sample has mean[e % stat_channels] */
    float mean[4];        /* the network sees (value - mean) * scale */
    float scale[4];
    /* What these come from, as it was given: in units of the range 0 to 1 for DPT_U8. */
    float channel_mean[4], channel_deviation[4];
    /* `classes` strings, or NULL: with static lifetime, or in a block that is the whole's. */
    const char *const *class_names;
    const char **own_names; /* that block, freed with the whole; or NULL */
    atomic_bool left;       /* to a thread that hangs: not freed any more */
    uint32_t content;       /* with a reader: see below */
    bool crops;             /* likewise: its images may be random windows (dpti_image_use) */
    /* Of a whole: */
    bool writable;                    /* (dpt_dataset_write), */
    dpt_dtype label_dtype;            /* with labels given as these */
    size_t n_writes;                  /* so far, */
    dpti_written writes[DPTI_WRITES]; /* of which write i is in [i % DPTI_WRITES] */
    size_t n_reading;                 /* steps in flight that read it */
};

static inline const dpt_dataset *dpti_dataset_whole(const dpt_dataset *data)
{
    return data->whole ? data->whole : data;
}

/* So many steps more, or fewer, are in flight on these data. */
void dpti_dataset_note_reading(const dpt_dataset *data, size_t more, size_t fewer);

/* A thread that hangs may still read the images: from now on destroying the data set, or the part,
   frees nothing. */
void dpti_dataset_leave(const dpt_dataset *data);

static inline size_t dpti_dataset_record(const dpt_dataset *data, size_t sample)
{
    return data->samples ? data->samples[sample] : sample;
}

/* Bytes of an image. */
static inline size_t dpti_dataset_image_bytes(const dpt_dataset *data)
{
    return data->height * data->width * data->channels * dpt_dtype_bytes(data->dtype);
}

/* Whether two data sets have the same records. */
static inline bool dpti_dataset_share(const dpt_dataset *a, const dpt_dataset *b)
{
    return dpti_dataset_whole(a) == dpti_dataset_whole(b);
}

/* As dpt_dataset_open, but that no picture of a folder is read, now or into memory: to be looked at
   by the reader, and not to be trained on, since its content is not known. */
DPT_CHECK_RESULT dpt_status dpti_dataset_open_unread(dpt_context *context, const char *name,
                                                     const char *directory, dpt_part part,
                                                     dpt_dataset **out, dpt_error *error);

/* A CRC-32 of all labels and targets and of some 64 images, evenly spread. */
uint32_t dpti_dataset_content(const dpt_dataset *data);
/* With a reader it is found out once, when the data set, or a part of it, is made: that reads these
   images, and fails as reading does. */
DPT_CHECK_RESULT dpt_status dpti_dataset_find_content(dpt_dataset *data, dpt_error *error);

/* What samples are compared with; either may be NULL. */
typedef struct dpti_answers {
    size_t count, classes;
    const void *labels; /* (count) of label_dtype: DPT_I32, or else bytes */
    dpt_dtype label_dtype;
    const float *targets; /* (count, classes) */
} dpti_answers;

/* Copies the labels. */
void dpti_answers_take_labels(const dpti_answers *answers, int32_t *out);

/* DPT_E_INVALID for a label that is no class, or a target that is not finite. */
DPT_CHECK_RESULT dpt_status dpti_answers_check(const dpti_answers *answers, dpt_error *error);

enum { DPTI_MAX_STAT_CHANNELS = 4 };

/* Sets mean, scale and stat_channels from means and deviations as dpt_dataset_memory has them.
   DPT_E_INVALID if they are not finite, negative, or too small to divide by, or if they are not
   zero where there are too many channels. */
DPT_CHECK_RESULT dpt_status dpti_set_statistics(dpt_dataset *data, const float mean[4],
                                                const float deviation[4], dpt_error *error);

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

/* Labels of an IDX file of rank 1: unsigned bytes, or numbers of 16 or 32 bits (types 08, 0B, 0C),
   none of them below 0 or above the most classes. */
typedef struct dpti_labels {
    size_t count;
    int32_t *values; /* aligned to 64 bytes; owned, free() */
} dpti_labels;

/* As dpti_idx_read and dpti_idx_parse, and DPT_E_FORMAT for what is no label. */
DPT_CHECK_RESULT dpt_status dpti_labels_read(const char *path, dpti_labels *out, dpt_error *error);
DPT_CHECK_RESULT dpt_status dpti_labels_parse(const char *name, const uint8_t *bytes,
                                              size_t n_bytes, dpti_labels *out, dpt_error *error);

/* Records of CIFAR-10's binary version: a label, then the channels of an image as planes.
   https://www.cs.toronto.edu/~kriz/cifar.html */
enum {
    DPTI_CIFAR10_SIDE = 32,
    DPTI_CIFAR10_CHANNELS = 3,
    DPTI_CIFAR10_CLASSES = 10,
    DPTI_CIFAR10_IMAGE_BYTES = DPTI_CIFAR10_SIDE * DPTI_CIFAR10_SIDE * DPTI_CIFAR10_CHANNELS,
    DPTI_CIFAR10_RECORD_BYTES = 1 + DPTI_CIFAR10_IMAGE_BYTES,
};

typedef struct dpti_cifar10 {
    size_t count, capacity;
    uint8_t *images; /* (count, side, side, channels); aligned to 64 bytes; owned, free() */
    int32_t *labels; /* (count), likewise */
} dpti_cifar10;

/* Appends the records of a file, gzipped or not; `n_files` of its size are expected in all, this
   one included.  DPT_E_IO; DPT_E_FORMAT names the file and what is wrong: no whole number of
   records, a label of another data set, a corrupt gzip stream.  After a failure *to is only to be
   freed. */
DPT_CHECK_RESULT dpt_status dpti_cifar10_read(const char *path, size_t n_files, dpti_cifar10 *to,
                                              dpt_error *error);
/* The same from bytes in memory; `name` stands in messages. */
DPT_CHECK_RESULT dpt_status dpti_cifar10_parse(const char *name, const uint8_t *bytes,
                                               size_t n_bytes, dpti_cifar10 *to, dpt_error *error);
/* Accepts a zeroed one. */
void dpti_cifar10_free(dpti_cifar10 *batches);

typedef struct dpti_synthetic_shape {
    size_t height, width, channels, classes, count;
} dpti_synthetic_shape;

/* DPT_E_INVALID says what is wrong with the specification. */
DPT_CHECK_RESULT dpt_status dpti_synthetic_parse(const char *spec, dpti_synthetic_shape *out,
                                                 dpt_error *error);

/* "synthetic:HxWxC:CLASSES:COUNT": images that a small network can learn, made by Philox from the
   sample's index: a class pattern plus noise.  The test part differs from the training part. */
DPT_CHECK_RESULT dpt_status dpti_synthetic_create(const char *spec, dpt_part part,
                                                  dpt_dataset **out, dpt_error *error);

/* What "folder:HxW[xC][:stream]" asks for. */
typedef struct dpti_folder_spec {
    dpt_picture_shape shape; /* C is 1 or, if it is not there, 3 */
    bool streamed;           /* pictures are read as they are needed */
} dpti_folder_spec;

/* DPT_E_INVALID tells how to write it. */
DPT_CHECK_RESULT dpt_status dpti_folder_parse(const char *spec, dpti_folder_spec *out,
                                              dpt_error *error);

/* A part of such a data set: PNG and JPEG pictures in DIR/train/CLASS and DIR/test/CLASS (or
   DIR/val/CLASS), each cut in its middle to the images' aspect and scaled.  DIR is found as by
   dpti_find_files.  Samples are sorted by the bytes of their class's name and of their own; what is
   hidden by a dot is passed over, and so are files beside the classes' folders.  Links are
   followed. DPT_E_INVALID, DPT_E_NOT_FOUND, DPT_E_IO; DPT_E_FORMAT: a folder in a class's folder, a
   class of the test that training has not or that has no pictures, a file that is no picture or
   damaged, too few or too many classes, or one whose name cannot be printed; DPT_E_NO_MEMORY;
   DPT_E_UNSUPPORTED: no library for the format.  Where it is streamed, or where images need more
   than half of the machine's memory, only a few are read now; `unread`: none
   (dpti_dataset_open_unread). */
DPT_CHECK_RESULT dpt_status dpti_folder_create(const char *spec, const char *directory,
                                               dpt_part part, bool unread, dpt_dataset **out,
                                               dpt_error *error);

#endif
