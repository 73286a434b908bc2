/* Data sets: labelled images in host memory or read on demand, and the formats that they come
   from.  Uses no device. */
#ifndef DPTI_DATA_H
#define DPTI_DATA_H

#include "base/bytes.h"
#include "data/array.h"
#include "data/find.h"
#include "data/reader.h"
#include "dpt_error.h"
#include "dptrain.h"

#include <stdatomic.h>

/* Devices number samples with 32 bits, and the sign bit is not used. */
enum { DPTI_MAX_RECORDS = INT32_MAX };

/* Largest number of classes of data that are read from files. */
enum { DPTI_MAX_CLASSES = 65536 };

/* Largest number of labels of a sample. */
enum { DPTI_MAX_LABELS = 1 << 24 };

/* A range of samples that were replaced: [first, first + count). */
typedef struct dpti_written {
    size_t first, count;
} dpti_written;

enum { DPTI_WRITES = 16 }; /* number of writes that are remembered */

/* One of the arrays that a record consists of. */
typedef struct dpti_data_input {
    char *name;
    dpt_dtype dtype;                     /* DPT_U8, DPT_F32 or DPT_I32, as the file has it */
    size_t rank, shape[DPTI_ARRAY_RANK]; /* of a sample, the last axis the fastest */
    size_t n;                            /* elements */
    size_t offset;                       /* of the first element in the record */
    size_t vocabulary; /* integers of an arranged data set: one more than the largest; else 0 */
} dpti_data_input;

/* How the records that a program makes become those that a model reads. */
typedef struct dpti_conversion dpti_conversion;

/* A data set has samples, which are trained on, and records, which are in memory.  A data set has
   its own records, or it is a part and refers to the records of another data set. */
struct dpt_dataset {
    uint64_t serial; /* differs from that of every other data set of the process, also of destroyed
                        ones, whose address may be used again */
    dpt_context *context;
    char *name;
    char *source;
    char *file;       /* path of the images' file, if there is one; that of the whole data set */
    const char *part; /* "training" or "test" if that is known */
    size_t count, height, width, channels, classes;
    const dpt_dataset
        *whole; /* the data set that owns the images, labels and targets; NULL: this one */
    uint32_t
        *samples; /* (count) the record of each sample, ascending; NULL: sample i is record i */
    size_t n_records;
    dpt_dtype dtype;   /* DPT_U8, DPT_F32, or DPT_I32: ids */
    size_t vocabulary; /* ids are below it; 0: no ids */
    void *images; /* (n_records, height, width, channels), aligned to 64 bytes; NULL: images are
                     read by */
    dpti_reader *reader; /* this reader, which belongs to the whole data set */
    int32_t *labels;     /* (n_records, dpti_dataset_labels), 0 to classes - 1, or DPT_IGNORED_LABEL
                            with several labels a sample; aligned to 64 bytes; or NULL */
    size_t labels_per_sample; /* 0 or 1: one */
    float *targets; /* (n_records, classes), finite; aligned to 64 bytes; or NULL.  Data without
                       labels and targets are for predictions */
    size_t stat_channels; /* 1 to 4: element e of a sample uses mean[e % stat_channels] */
    float mean[4];        /* the network gets (value - mean) * scale */
    float scale[4];
    /* The mean and deviation from which these are computed, as they were given: for DPT_U8 in
       units of the range 0 to 1. */
    float channel_mean[4], channel_deviation[4];
    /* `classes` strings, or NULL.  They have static lifetime or are in own_names of the whole data
       set. */
    const char *const *class_names;
    size_t first_label;     /* the label of the files that is class 0 (first_label.h) */
    const char **own_names; /* allocated names, freed with the whole data set; or NULL */
    atomic_bool left;       /* a hung thread may still use the data: they are never freed */
    uint32_t content;       /* with a reader: the content hash (dpti_dataset_find_content) */
    bool crops;             /* with a reader: images may be random windows (dpti_image_use) */
    /* With a reader, of ids: what is read for a sample is the sample and then its labels, the id
       behind each id.  `labels` is NULL.  Neighbouring records are neighbours in a text, so the
       second part of a division is the end of the text (dpt_dataset_split). */
    bool reads_labels;
    double bytes_per_label; /* of text, the mean; 0: not known */
    /* The arrays of a record, in the order of their places; n_inputs 0: the data do not come from
       arrays.  A record has 1 byte for each element if all arrays are of DPT_U8, else 4 bytes; an
       array of DPT_U8 beside others is int32 there.  They belong to the whole data set. */
    dpti_data_input *inputs;
    size_t n_inputs;
    bool arranged; /* the records are what a model reads (dpti_dataset_arrange) */
    bool mixed;    /* a record has elements of DPT_F32 and of DPT_I32; dtype is DPT_F32 */
    bool declared; /* the program makes the records (dpt_dataset_memory.inputs): the records are
                      looked at when they are arranged, written or read */
    dpti_conversion *conversion; /* declared and arranged: from the program's records to those of
                                    the model; belongs to the whole data set; else NULL */
    /* For a whole data set: */
    bool writable;                    /* dpt_dataset_write is allowed */
    dpt_dtype label_dtype;            /* type in which labels are written */
    size_t n_writes;                  /* number of writes so far */
    dpti_written writes[DPTI_WRITES]; /* write i is in [i % DPTI_WRITES] */
    size_t n_reading;                 /* number of steps in flight that read the data */
};

static inline const dpt_dataset *dpti_dataset_whole(const dpt_dataset *data)
{
    return data->whole ? data->whole : data;
}

/* Returns a data set with a serial number, whose other fields are zero; NULL if there is no memory.
 */
dpt_dataset *dpti_dataset_allocate(void);

/* Counts steps in flight on these data: `more` begin and `fewer` end. */
void dpti_dataset_note_reading(const dpt_dataset *data, size_t more, size_t fewer);

/* A hung thread may still read the images: from now on destroying the data set, or a part of it,
   frees nothing. */
void dpti_dataset_leave(const dpt_dataset *data);

static inline size_t dpti_dataset_record(const dpt_dataset *data, size_t sample)
{
    return data->samples ? data->samples[sample] : sample;
}

/* Returns the number of labels of a sample. */
static inline size_t dpti_dataset_labels(const dpt_dataset *data)
{
    return data->labels_per_sample ? data->labels_per_sample : 1;
}

static inline bool dpti_dataset_has_labels(const dpt_dataset *data)
{
    return data->labels || data->reads_labels;
}

/* Returns the bytes of the labels of one sample. */
static inline size_t dpti_dataset_label_bytes(const dpt_dataset *data)
{
    return dpti_dataset_labels(data) * sizeof *data->labels;
}

/* Returns how many labels the samples with these record numbers have, ignored ones left out; the
   number of samples if there is one label a sample, or none. */
size_t dpti_dataset_count_labels(const dpt_dataset *data, const uint32_t *records, size_t n);
/* Returns the sum of the weights (classes) of these labels, ignored ones left out. */
double dpti_dataset_weigh_labels(const dpt_dataset *data, const uint32_t *records, size_t n,
                                 const float *weights);

/* Returns the bytes of one image. */
static inline size_t dpti_dataset_image_bytes(const dpt_dataset *data)
{
    return data->height * data->width * data->channels * dpt_dtype_bytes(data->dtype);
}

/* Returns the bytes that the reader makes for one sample. */
static inline size_t dpti_dataset_read_bytes(const dpt_dataset *data)
{
    return dpti_dataset_image_bytes(data) +
           (data->reads_labels ? dpti_dataset_label_bytes(data) : 0);
}

/* Checks the ids of `count` samples, the first of which has the number `first`.  Data that are no
   ids pass, and so do records of declared inputs, whose ids are checked when they are converted.
   Errors: DPT_E_INVALID for an id that is negative or not below the vocabulary. */
DPT_CHECK_RESULT dpt_status dpti_dataset_check_ids(const dpt_dataset *data, const void *images,
                                                   dpti_written samples, dpt_error *error);

/* Returns whether two data sets have the same records. */
static inline bool dpti_dataset_share(const dpt_dataset *a, const dpt_dataset *b)
{
    return dpti_dataset_whole(a) == dpti_dataset_whole(b);
}

/* Opens a data set as dpt_dataset_open does, but reads no picture of a folder.  The result can be
   inspected through its reader.  It must not be trained on, because its content hash is not
   known. */
DPT_CHECK_RESULT dpt_status dpti_dataset_open_unread(dpt_context *context,
                                                     const dpti_data_request *request,
                                                     dpt_dataset **out, dpt_error *error);

/* Returns a CRC-32 of all labels and targets and of about 64 images, evenly spread. */
uint32_t dpti_dataset_content(const dpt_dataset *data);
/* Computes the content hash of a data set with a reader, once when it, or a part of it, is
   created.  This reads the images.  Errors: those of reading. */
DPT_CHECK_RESULT dpt_status dpti_dataset_find_content(dpt_dataset *data, dpt_error *error);

/* The labels or targets of samples; either may be NULL. */
typedef struct dpti_answers {
    size_t count, classes;
    const void *labels; /* (count, per_sample) of label_dtype: DPT_I32 or DPT_U8 */
    size_t per_sample;  /* 0 or 1: one */
    dpt_dtype label_dtype;
    const float *targets; /* (count, classes) */
} dpti_answers;

/* Copies the labels. */
void dpti_answers_take_labels(const dpti_answers *answers, int32_t *out);

/* Errors: DPT_E_INVALID for a label that is not a class. */
DPT_CHECK_RESULT dpt_status dpti_answers_check_labels(const dpti_answers *answers,
                                                      dpt_error *error);
/* Errors: DPT_E_INVALID for a label that is not a class, or a target that is not finite. */
DPT_CHECK_RESULT dpt_status dpti_answers_check(const dpti_answers *answers, dpt_error *error);

enum { DPTI_MAX_STAT_CHANNELS = 4 };

/* Sets mean, scale and stat_channels from means and deviations in the form of dpt_dataset_memory.
   Errors: DPT_E_INVALID if a value is not finite, negative, or too small to divide by, or is not 0
   with more than 4 channels. */
DPT_CHECK_RESULT dpt_status dpti_set_statistics(dpt_dataset *data, const float mean[4],
                                                const float deviation[4], dpt_error *error);

/* ---- Data of arrays -------------------------------------------------------------------------- */

/* Where a data set of arrays comes from. */
typedef struct dpti_arrays_origin {
    const char *name, *source;
    size_t least_classes; /* of its labels */
    bool divided;         /* the arrays are a part of a file (dpti_arrays.part) */
} dpti_arrays_origin;

/* Returns one more than the largest label of an array that holds labels; 0: there is none. */
size_t dpti_arrays_classes(const dpti_arrays *arrays);
/* Makes a data set of arrays, which are freed, also after a failure.  The array "labels", or "y" if
   it has integers, becomes the labels; "targets", or "y" if it has real numbers, becomes the
   targets; the others become the records.  Labels of a divided file that are 0 and 1, several for
   each sample, become targets if no input has as many elements along an axis: they say of several
   classes whether a sample has them.  The samples of a single array with up to three axes a
   sample are images of (n), (height, width) or (height, width, channels).  Errors: DPT_E_FORMAT;
   the message begins with origin->source. DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_dataset_of_arrays(dpti_arrays *arrays,
                                                   const dpti_arrays_origin *origin,
                                                   dpt_dataset **out, dpt_error *error);
/* Lists arrays, none of them labels or targets, as the inputs of the records of *data: sets its
   inputs, which the caller frees with their names, its extents, dtype and mixed.  Reads its count.
   The names leave the arrays.  Errors: DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_describe_arrays(dpti_arrays *arrays,
                                                 const dpti_arrays_origin *origin,
                                                 dpt_dataset *data, dpt_error *error);

/* What a model reads of each record under a name. */
typedef struct dpti_wanted_input {
    const char *name;
    bool ids;        /* int32; else real numbers */
    size_t most_ids; /* ids are below it; 0: any integers are taken */
    size_t rank, extent[DPTI_ARRAY_RANK], stride[DPTI_ARRAY_RANK];
    size_t offset; /* the element at index (i, j, ...) is at offset + i * stride[0] + ... */
} dpti_wanted_input;

typedef struct dpti_wanted_record {
    const char *model; /* the model's name, for messages */
    const dpti_wanted_input *inputs;
    size_t n_inputs;
    size_t height, width, channels; /* their product is the number of elements */
    size_t outputs;                 /* classes, or numbers that a regression predicts */
} dpti_wanted_record;

/* Puts the records of a data set of arrays in the order in which a model reads them, and their
   elements in the types.  The data set must be a whole one.  Does nothing if the data are not
   arrays.  A failure leaves the data set as it was.  Errors: DPT_E_STATE if it has been arranged
   before; DPT_E_INVALID if an array is missing, or has another shape or other numbers than the
   model reads; DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_dataset_arrange(dpt_dataset *data,
                                                 const dpti_wanted_record *wanted,
                                                 dpt_error *error);

/* Records of samples, which are numbered in messages. */
typedef struct dpti_converted {
    const void *from; /* (samples.count) records as the program makes them */
    void *to;         /* (samples.count) records as the model reads them */
    dpti_written samples;
} dpti_converted;

/* Converts records.  Errors: DPT_E_INVALID for a number that the model cannot read; what->to is
   undefined then. */
DPT_CHECK_RESULT dpt_status dpti_convert(const dpti_conversion *conversion,
                                         const dpti_converted *what, dpt_error *error);
/* Returns the bytes of a record as the program makes it. */
size_t dpti_conversion_bytes(const dpti_conversion *conversion);
/* Accepts NULL. */
void dpti_conversion_destroy(dpti_conversion *conversion);

/* The inputs that a program declares. */
typedef struct dpti_declared {
    dpti_data_input *inputs; /* owned, as in dpt_dataset */
    size_t n_inputs;
    bool mixed;
} dpti_declared;

/* Reads the inputs of *memory, if there are any, and sets its height, width, channels and dtype to
   those of a record.  Errors: DPT_E_INVALID; DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_declare_inputs(dpt_dataset_memory *memory, dpti_declared *out,
                                                dpt_error *error);
/* Accepts a zeroed struct. */
void dpti_declared_free(dpti_declared *declared);

/* Opens "npz:FILE", "npy:IMAGES:LABELS" or "csv:FILE:LABEL".  The test part is in files of the same
   names with "test" or "val" in place of the last "train"; without such files it is the training
   part, or the test part of a divided file (dpti_npz_parse).  Errors: DPT_E_INVALID for a wrong
   specification; those of reading and of dpti_dataset_of_arrays. */
DPT_CHECK_RESULT dpt_status dpti_array_files_open(const dpti_data_request *request,
                                                  dpt_dataset **out, dpt_error *error);
/* Returns whether a name begins as that of a data set of array files. */
bool dpti_is_array_files(const char *name);

/* Opens "text:CONTEXT[:TOKENIZER]" or "tokens:CONTEXT[:u16|:u32][:VOCABULARY|:TOKENIZER]".  The
   directory of the request is a list of files (dpti_text_paths).  TOKENIZER is a path
   (dpti_tokenizer_read).  Without a vocabulary it is the largest id of the training part plus one.
   Errors: DPT_E_INVALID for a wrong specification, or if there are fewer ids than a window has;
   those of the files and of the tokenizer. */
DPT_CHECK_RESULT dpt_status dpti_text_open(const dpti_data_request *request, dpt_dataset **out,
                                           dpt_error *error);
/* Returns whether a name begins as that of such a data set. */
bool dpti_is_text(const char *name);

/* An IDX file in memory.  https://yann.lecun.com/exdb/mnist/ describes the format: magic
   00 00 TYPE RANK, RANK big-endian 32-bit extents, elements in row-major order. */
typedef struct dpti_idx {
    size_t rank; /* 1 to 4 */
    size_t shape[4];
    uint8_t *data; /* unsigned bytes, the product of `shape`; aligned to 64 bytes; owned, free() */
} dpti_idx;

/* Reads a file of unsigned bytes (type 08).  Its content, not its name, tells whether it is
   gzipped.  Errors: DPT_E_NOT_FOUND, DPT_E_IO, DPT_E_NO_MEMORY; DPT_E_FORMAT, whose message names
   the file and the fault: magic, truncation, trailing bytes, corrupt gzip data. */
DPT_CHECK_RESULT dpt_status dpti_idx_read(const char *path, dpti_idx *out, dpt_error *error);
/* Does the same for bytes in memory; `name` is used in messages. */
DPT_CHECK_RESULT dpt_status dpti_idx_parse(const dpti_file_bytes *file, dpti_idx *out,
                                           dpt_error *error);

/* The labels of an IDX file of rank 1: unsigned bytes, or integers of 16 or 32 bits (types 08, 0B,
   0C), from 0 to DPTI_MAX_CLASSES - 1. */
typedef struct dpti_labels {
    size_t count;
    int32_t *values; /* aligned to 64 bytes; owned, free() */
} dpti_labels;

/* As dpti_idx_read and dpti_idx_parse; DPT_E_FORMAT also for values that are not labels. */
DPT_CHECK_RESULT dpt_status dpti_labels_read(const char *path, dpti_labels *out, dpt_error *error);
DPT_CHECK_RESULT dpt_status dpti_labels_parse(const dpti_file_bytes *file, dpti_labels *out,
                                              dpt_error *error);

/* Records of the binary versions of CIFAR-10 and CIFAR-100: one label, or a coarse and a fine one,
   then the channels of an image as planes.  https://www.cs.toronto.edu/~kriz/cifar.html */
enum {
    DPTI_CIFAR_SIDE = 32,
    DPTI_CIFAR_CHANNELS = 3,
    DPTI_CIFAR_IMAGE_BYTES = DPTI_CIFAR_SIDE * DPTI_CIFAR_SIDE * DPTI_CIFAR_CHANNELS,
};

typedef enum dpti_cifar_labels {
    DPTI_CIFAR10,
    DPTI_CIFAR100_FINE,
    DPTI_CIFAR100_COARSE,
    DPTI_N_CIFAR_LABELS,
} dpti_cifar_labels;

/* Returns the number of classes of these labels, and the bytes of a record. */
size_t dpti_cifar_classes(dpti_cifar_labels of);
size_t dpti_cifar_record_bytes(dpti_cifar_labels of);

typedef struct dpti_cifar {
    dpti_cifar_labels of; /* set by the caller: which files these are, and which label is taken */
    size_t count, capacity;
    uint8_t *images; /* (count, side, side, channels); aligned to 64 bytes; owned, free() */
    int32_t *labels; /* (count), likewise */
} dpti_cifar;

/* Appends the records of a file, gzipped or not.  `n_files` files of this size are expected in
   total, this one included.  Errors: DPT_E_IO; DPT_E_FORMAT, whose message names the file and the
   fault: an incomplete record, a label of another data set, a corrupt gzip stream.  After a
   failure `to` may only be freed. */
DPT_CHECK_RESULT dpt_status dpti_cifar_read(const char *path, size_t n_files, dpti_cifar *to,
                                            dpt_error *error);
/* Does the same for bytes in memory; `name` is used in messages. */
DPT_CHECK_RESULT dpt_status dpti_cifar_parse(const dpti_file_bytes *file, dpti_cifar *to,
                                             dpt_error *error);
/* Accepts a zeroed struct. */
void dpti_cifar_free(dpti_cifar *batches);

typedef struct dpti_synthetic_shape {
    size_t height, width, channels, classes, count;
} dpti_synthetic_shape;

/* Errors: DPT_E_INVALID with the fault of the specification. */
DPT_CHECK_RESULT dpt_status dpti_synthetic_parse(const char *spec, dpti_synthetic_shape *out,
                                                 dpt_error *error);

/* Creates "synthetic:HxWxC:CLASSES:COUNT": images that a small network can learn, generated by
   Philox from the sample's index as a class pattern plus noise.  The test part differs from the
   training part. */
DPT_CHECK_RESULT dpt_status dpti_synthetic_create(const char *spec, dpt_part part,
                                                  dpt_dataset **out, dpt_error *error);

enum { DPTI_MAX_DEPTH = 8 }; /* of the folders of classes below "train" */

/* The parsed text "folder:HxW[xC][:depth=N][:no-orientation][:stream][:skip-unreadable]", or
   "pictures:HxW[xC][...]:TABLE" without a depth; the words may be in any order. */
typedef struct dpti_folder_spec {
    dpt_picture_shape shape; /* C is 1 or 3; default 3.  `unoriented` with :no-orientation */
    bool streamed;           /* pictures are read on demand */
    bool skips;              /* pictures that cannot be read are left out */
    size_t depth;            /* 1 (the default) to DPTI_MAX_DEPTH */
    bool is_table;           /* a table names the pictures */
    const char *table;       /* TABLE, which is a part of the parsed text; else NULL */
} dpti_folder_spec;

/* Errors: DPT_E_INVALID; the message shows the correct form. */
DPT_CHECK_RESULT dpt_status dpti_folder_parse(const char *spec, dpti_folder_spec *out,
                                              dpt_error *error);

/* Returns the name of such a data set, which the caller frees; NULL if there is no memory.  Equal
   data sets have equal names: three channels and depth 1 are not mentioned, and neither are the
   table and how pictures are read. */
char *dpti_folder_name(const dpti_folder_spec *spec);

/* Creates a part of a folder data set: pictures in DIR/train/CLASS and DIR/test/CLASS (or
   DIR/val/CLASS).  With a depth of 2, CLASS is FOLDER/FOLDER, and so on.  Each picture is cut at
   its centre to the images' aspect ratio and scaled.  DIR is found as by dpti_find_files.  Samples
   are sorted by the bytes of their class's name and of their own name.  Names that begin with a dot
   are skipped, and so are files beside the classes' folders.  A file is a picture if its name or
   its first bytes say so.  Others are passed over, and a notice counts them.  Links are followed.
   If the data are streamed, or if images need more than half of the machine's memory, only a few
   images are read now; with `unread` none is (dpti_dataset_open_unread).

   Errors: DPT_E_INVALID; DPT_E_NOT_FOUND; DPT_E_IO; DPT_E_NO_MEMORY; DPT_E_UNSUPPORTED if there is
   no library for the format; DPT_E_FORMAT for a folder in a class's folder, a test class that is
   not a training class, a class without pictures, a file that is not a picture or is damaged, too
   few or too many classes, or a class whose name cannot be printed.

   Or creates a part of "pictures:HxW[xC]:TABLE" (dpti_picture_list_read), whose samples are in the
   order of the table.  Errors: also those of the table. */
DPT_CHECK_RESULT dpt_status dpti_folder_create(const dpti_data_request *request, dpt_dataset **out,
                                               dpt_error *error);
/* Returns the path of a sample of the same data set, which the caller frees.  Errors: as of
   dpti_folder_create; DPT_E_INVALID if there is no such sample. */
DPT_CHECK_RESULT dpt_status dpti_folder_picture(const dpti_data_request *request, size_t sample,
                                                char **out, dpt_error *error);

#endif
