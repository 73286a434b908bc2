/* Data sets: opening, making, dividing, normalising and describing data.
   Part of the public API: programs include dptrain.h. */
#ifndef DPTRAIN_DATA_H
#define DPTRAIN_DATA_H

#include "dptrain/context.h"
#include "dptrain/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Labelled images, read-only after creation. */
typedef struct dpt_dataset dpt_dataset;

typedef enum dpt_part { DPT_TRAIN = 0, DPT_TEST = 1 } dpt_part;

/* Opens a data set by name; `part` selects the training or the test part.  Names: "fashion-mnist",
   "mnist", "kmnist", "emnist:SPLIT", "cifar10", "cifar100", "cifar100:coarse";
   "synthetic:HxWxC:CLASSES:COUNT"; "idx" for a pair of IDX files in `directory`
   (train-images-idx3-ubyte, t10k-..., each also with .gz); "folder:HxW" (colour) or "folder:HxWx1"
   (grey) for pictures in `directory`/train/CLASS and `directory`/test/CLASS.  Pictures are cut and
   scaled to H x W as by dpt_picture_read.  The folders in train name the classes of both parts.
   Samples are sorted by the bytes of their file names.  A file that is no picture by its name and
   by its content is passed over, and a notice counts such files (dpt_context_notices).

   With ":depth=N" behind the size, the folders that are N folders below train are the classes
   ("animals/cat" for 2).  "pictures:HxW[xC]:FILE.csv:PATH:LABEL" and "pictures:HxW[xC]:LIST" are
   pictures that a table or a list of lines names, with their labels (docs/data.md).

   "npz:FILE", "npy:IMAGES:LABELS" and "csv:FILE:LABEL" are arrays in files (docs/data.md), relative
   to `directory` if that is given.  An npz file may hold both parts, by the names of its arrays.
   dpt_dataset_arrange prepares them for a model.

   "text:CONTEXT[:TOKENIZER]" and "tokens:CONTEXT[:u16|:u32][:VOCABULARY|:TOKENIZER]" are windows of
   ids, whose labels are the ids behind each of them (docs/data.md).  `directory` is then the path
   of a file or a folder, or several with commas between them, and TOKENIZER a path as of
   dpt_tokenizer_open.  The windows are read on demand.

   The images of "folder:HxW:stream" are read on demand (dpt_dataset_from_reader).  So are those of
   any pictures whose images would take more than half of the machine's memory.  With
   ":no-orientation" behind the size, pictures are not turned as by dpt_picture_shape.unoriented.
   With ":skip-unreadable" all pictures are read once when the folder is opened, those that cannot
   be read are left out, and a notice counts them.

   ":labels-from=N" behind the name of a data set whose files have numbers as labels makes label N,
   from 1 to 65535, the first class, label N + 1 the second one, and so on.  Without it a notice
   tells if no training label is 0.

   The files are searched in `directory`, $DPTRAIN_DATA, the user's cache, and the distribution's
   package of the data, in this order.  If `directory` is given, it must hold the files.  The caller
   owns `out` and destroys it with dpt_dataset_destroy.  Errors: DPT_E_INVALID for an unknown name;
   DPT_E_NOT_FOUND (the message tells how to get the data); DPT_E_IO; DPT_E_FORMAT; DPT_E_NO_MEMORY;
   DPT_E_UNSUPPORTED if the library was built without a reader of such pictures. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_dataset_open(dpt_context *context, const char *name,
                                                     const char *directory, dpt_part part,
                                                     dpt_dataset **out);

/* One of the arrays of a data set. */
typedef struct dpt_dataset_array {
    const char *name; /* of the model's input; or "labels", "targets" or "y" */
    dpt_dtype dtype;  /* DPT_U8, DPT_F32 or DPT_I32 */
    size_t rank;      /* 1 to 8 */
    size_t shape[8];  /* the first axis counts the samples */
    const void *data; /* the last axis runs fastest */
} dpt_dataset_array;

/* Creates a data set from arrays by name, for a model with several inputs.  The call copies the
   arrays.  The array "labels" holds the labels, "targets" the targets; "y" holds labels if it has
   integers, else targets; both may be left out for prediction.  The classes are one more than the
   largest label, and at least two.  Call dpt_dataset_arrange before a trainer uses the data.  The
   caller owns `out` and destroys it with dpt_dataset_destroy.  Errors: DPT_E_INVALID if the arrays
   are not valid; DPT_E_NO_MEMORY. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_dataset_from_arrays(dpt_context *context,
                                                            const dpt_dataset_array *arrays,
                                                            size_t n_arrays, dpt_dataset **out);

/* Puts the records of a data set of arrays in the order in which a model reads them, and their
   numbers in the types that it reads: the array of each input is found by the input's name, or is
   the only array.  Integers and bytes are numbers for an input of real numbers, bytes as value /
   255.  If the model has one output and the data have integers as labels, these become targets. The
   model's classes become those of the data if it has more.  Call it once, before the data set is
   divided, normalised or used.  Does nothing to other data sets.

   Records that the program makes (dpt_dataset_memory.inputs) are put in the model's order when they
   are read or written.  If they are read, the call reads about 64 samples.

   Errors: DPT_E_INVALID if an array is missing, or has another shape or other numbers than the
   model reads; DPT_E_STATE if it was called before; DPT_E_NO_MEMORY; failures of reading as in
   dpt_dataset_from_reader.  After a failure nothing has changed. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_dataset_arrange(dpt_context *context, dpt_dataset *dataset,
                                                        const dpt_model *model);

/* Opens the images of one IDX file without labels, for dpt_trainer_predict.  The file may be
   gzipped.  If its name begins with "emnist-", its images are made upright.  `outputs` is the
   number of classes of the data set.  Errors: DPT_E_IO; DPT_E_NOT_FOUND; DPT_E_FORMAT if the file
   is damaged or does not hold images; DPT_E_NO_MEMORY. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_dataset_open_images(dpt_context *context, const char *path,
                                                            size_t outputs, dpt_dataset **out);

/* What dpt_dataset_open has opened. */
typedef struct dpt_dataset_place {
    const char *name, *directory;
    dpt_part part;
} dpt_dataset_place;

/* The image that a picture is turned into. */
typedef struct dpt_picture_shape {
    size_t height, width; /* 1 to 65536 */
    size_t channels;      /* 1 or 3 */
    bool scaled;     /* true: the largest centred part of this aspect ratio is scaled to this size;
                        false: the picture must have this size */
    bool unoriented; /* true: the orientation that a camera has noted (EXIF) is ignored; false: the
                        picture is turned and mirrored as it says */
} dpt_picture_shape;

/* Reads a picture into `pixels` (height, width, channels), with values 0 to 255: PNG, JPEG, WebP,
   BMP, GIF (the first frame), TIFF (the first page), PPM or PGM.  The content of the file, not its
   name, tells the format.  With one channel, colours become grey by
   their luma.  With three channels, grey becomes three equal channels.  Transparent parts become
   black. docs/data.md describes the scaling, which gives the same bytes on every machine.

   Errors: DPT_E_NOT_FOUND; DPT_E_IO; DPT_E_NO_MEMORY; DPT_E_INVALID if the shape is not allowed, or
   the picture has another size and `scaled` is false; DPT_E_FORMAT if the file is not a picture, is
   damaged, or is larger than 256 MiB or 2^28 pixels; DPT_E_UNSUPPORTED if the library was built
   without a reader of this format.  After a failure `pixels` is undefined. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_picture_read(dpt_context *context, const char *path,
                                                     const dpt_picture_shape *shape,
                                                     uint8_t *pixels);

/* Writes the path of the file of a sample of the data set at this place, whose samples
   are pictures in a folder, to `path` (n_bytes), cut if it is too long.  Errors: as of
   dpt_dataset_open; DPT_E_INVALID if the samples are not files of their own or there is no such
   sample. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_dataset_file(dpt_context *context,
                                                     const dpt_dataset_place *place, size_t sample,
                                                     char *path, size_t n_bytes);

typedef struct dpt_dataset_memory {
    size_t size; /* sizeof(dpt_dataset_memory) */
    size_t count, height, width, channels;
    size_t outputs;     /* classes, or targets of a sample */
    dpt_dtype dtype;    /* DPT_U8, DPT_F32, or DPT_I32 for ids */
    const void *images; /* (count, height, width, channels) */
    const void
        *labels; /* (count, labels_per_sample) of label_dtype, from 0 to outputs - 1; or NULL */
    dpt_dtype label_dtype; /* DPT_I32 or DPT_U8; the value 0 means DPT_U8 */
    const float *targets;  /* (count, outputs) for the losses of targets (dpt_loss); or NULL.  Data
                              without  labels and targets can only be used by dpt_trainer_predict */
    /* The network gets (value / 255 - mean) / deviation for DPT_U8 and (value - mean) / deviation
       for DPT_F32, per channel.  A deviation of 0 means 1.  With more than 4 channels all values
       must be 0. */
    float mean[4], deviation[4];
    bool writable; /* true: dpt_dataset_write may replace samples */
    /* DPT_I32: the number of ids, from 1 to DPT_MAX_VOCABULARY; every id is from 0 to vocabulary
       - 1. Ids are not normalised, so mean and deviation must be 0.  0 for other types. */
    size_t vocabulary;
    /* The number of labels of a sample, for networks that score every pixel or token
       (dpt_model_finish_per_pixel); 0 means 1.  If there are several, a label of DPT_I32 may be
       DPT_IGNORED_LABEL: it counts neither in the loss nor in the accuracy. */
    size_t labels_per_sample;
    /* Several inputs with names, for a model that dpt_inputs begins or that is imported: the arrays
       that a sample consists of; NULL: the samples are images or ids.  shape[0] of each is `count`,
       `data` is NULL, and no name is "labels", "targets" or "y".  height, width, channels, dtype,
       vocabulary, mean and deviation must be 0 then.

       An image in the comments of this header is then a record: the elements of all inputs, one
       input behind the other in the order of `inputs`.  If all inputs are DPT_U8, an element is a
       byte.  Otherwise every element has 4 bytes: a float for DPT_F32, an int32_t for DPT_I32, and
       an int32_t from 0 to 255 for DPT_U8.  Records keep this form after dpt_dataset_arrange, which
       must be called before the data are used. */
    const dpt_dataset_array *inputs; /* (n_inputs) */
    size_t n_inputs;                 /* 1 to 64; 0: none */
} dpt_dataset_memory;

enum { DPT_IGNORED_LABEL = -100 };

/* Creates a data set from arrays.  The call copies images, labels and targets.  The caller owns
   `out` and destroys it with dpt_dataset_destroy.  Errors: DPT_E_INVALID if the data are not valid;
   DPT_E_NO_MEMORY. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_dataset_from_memory(dpt_context *context,
                                                            const dpt_dataset_memory *memory,
                                                            dpt_dataset **out);

enum { DPT_READER_WHY_BYTES = 256 };

/* A reader: functions of the program that make images on demand, for data that do not fit into
   memory. */
typedef struct dpt_dataset_reader {
    size_t size; /* sizeof(dpt_dataset_reader) */
    /* Makes the image of one sample (height, width, channels) for an epoch of training, counted
       from 1.  `epoch` 0 asks for the image as evaluation and prediction use it.  The function must
       give the same image whenever the same sample and epoch are asked for.  Threads of dptrain
       call the function for several samples at once, and before the steps that need them.  The
       function and `user` must live until the data set is destroyed.

       If the function does not return DPT_OK, the sample is asked for once more when a step or an
       evaluation needs it.  If the function fails again, that step or evaluation fails.  The
       function may write the reason into `why`. */
    dpt_status (*read)(void *user, size_t sample, size_t epoch, void *image,
                       char why[DPT_READER_WHY_BYTES]);
    void *user;
    size_t
        n_threads; /* threads that call `read`; 0: one per processor of the process; at most 16 */
    bool names_samples; /* `why` names the sample.  false: messages put its number in front */
} dpt_dataset_reader;

/* Creates a data set whose images are read on demand by the functions in `reader`. memory->images
   must be NULL.  The call copies labels and targets.  Every step sends its samples to the devices
   (dpt_device_plan.streamed), while the images of the next steps are read.  The call reads about 64
   samples.  A checkpoint stores a hash of these samples, so that a resumed training can tell other
   data.  Errors: DPT_E_INVALID; DPT_E_NO_MEMORY.  If a sample cannot be read, now or in a later
   step or evaluation: DPT_E_FORMAT if `read` returned that status, else DPT_E_IO. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_dataset_from_reader(dpt_context *context,
                                                            const dpt_dataset_memory *memory,
                                                            const dpt_dataset_reader *reader,
                                                            dpt_dataset **out);
/* Destroys a data set.  Accepts NULL.  Trainers and parts that use the data set must be destroyed
   first.  Cannot fail. */
DPT_API void dpt_dataset_destroy(dpt_dataset *dataset);

/* Replaces the samples first to first + count - 1 of a writable data set, for a program whose data
   arrive while it trains.  `images` is (count, height, width, channels).  `labels` is (count) or
   `targets` is (count, outputs), whichever kind the data set was created with; `targets` if
   dpt_dataset_arrange has made targets of the labels.  With several inputs, `images` is (count)
   records (dpt_dataset_memory.inputs).  The call copies the samples.  Trainers use the new samples
   from their next step or evaluation on.  Each memory that holds the data set gets the written
   samples only.

   Errors: DPT_E_INVALID; DPT_E_NO_MEMORY; DPT_E_STATE while a step that reads the data is in flight
   (see dpt_trainer_collect; within dpt_fit, `progress` may write after an epoch).  After a failure
   nothing has changed.

   The library does not keep the old samples.  So dpt_trainer_load_state continues with the samples
   that the data set holds at that time, and several processes may hold different samples.  Devices
   that train on a data set that was written are never put on standby, because they could not repeat
   the steps that they missed. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_dataset_write(dpt_dataset *dataset, size_t first,
                                                      size_t count, const void *images,
                                                      const void *labels, const float *targets);

/* Divides a data set at random, keyed by the seed.  A `fraction` of the samples, rounded, goes to
   `second` and the others go to `first`.  Of text and tokens the end goes to `second`, and one
   window in between goes to neither part.  Both parts share the images of `dataset`, which must
   outlive them.  Errors: DPT_E_INVALID if one part would be empty; DPT_E_NO_MEMORY.  If images are
   read on demand, the call reads about 64 samples of each part, and can fail as
   dpt_dataset_from_reader does. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_dataset_split(const dpt_dataset *dataset, double fraction,
                                                      uint64_t seed, dpt_dataset **first,
                                                      dpt_dataset **second);
/* Counts the labels of each class, (outputs), of a data set or a part of it.  Labels that do not
   count (DPT_IGNORED_LABEL) are left out.  Errors: DPT_E_INVALID if the data have no labels in
   memory, as text has none. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_dataset_count_classes(const dpt_dataset *dataset,
                                                              size_t *counts);

/* dpt_dataset_statistics computes the mean and the standard deviation of each channel over the
   whole data set.  For DPT_U8 the unit is the range of a pixel: 0 to 1.  If images are read on
   demand, all images are read; images of DPT_F32 are read twice. dpt_dataset_normalize makes the
   network get (value - mean) / deviation; call it before a trainer uses the data.  Errors:
   DPT_E_UNSUPPORTED if there are more than 4 channels; DPT_E_INVALID for values that are not
   allowed; DPT_E_NO_MEMORY; failures of reading images as in dpt_dataset_from_reader. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_dataset_statistics(const dpt_dataset *dataset,
                                                           float mean[4], float deviation[4]);
DPT_API DPT_CHECK_RESULT dpt_status dpt_dataset_normalize(dpt_dataset *dataset, const float mean[4],
                                                          const float deviation[4]);

/* A description of a data set.  The data set owns the strings; those of a part belong to the data
   set that was divided. */
typedef struct dpt_dataset_info {
    size_t size; /* sizeof(dpt_dataset_info), to be set before the call */
    const char *name;
    size_t count, height, width, channels;
    size_t outputs;                 /* classes, or targets of a sample */
    const char *source;             /* the directory or "synthetic", "memory", "reader" */
    const char *const *class_names; /* `outputs` strings, or NULL */
    bool read_as_needed;            /* images are read on demand */
    size_t vocabulary;              /* the number of ids; 0: the data are no ids */
    size_t labels_per_sample;       /* 0: the data have no labels */
    double bytes_per_label;         /* of text, the bytes that an id stands for, the mean; else 0 */
} dpt_dataset_info;

/* Describes a data set.  Cannot fail. */
DPT_API void dpt_dataset_describe(const dpt_dataset *dataset, dpt_dataset_info *out);

/* A survey: the result of reading every image of a data set once, before any training. */
typedef struct dpt_survey dpt_survey;

/* Callbacks of a survey.  All fields are optional.  The thread that called dpt_dataset_survey makes
   the calls. */
typedef struct dpt_survey_options {
    size_t size; /* sizeof(dpt_survey_options) */
    /* Called for each image that cannot be read, with the reason, in the order of the samples. */
    void (*unreadable)(void *user, size_t sample, const char *why);
    void (*progress)(void *user, size_t n_images); /* n_images have been read so far */
    void *user;
} dpt_survey_options;

/* Reads every image of the data set that dpt_dataset_open opens by that name, pictures in folders
   included, and keeps no image in memory.  An image that cannot be read is reported to `unreadable`
   and does not end the survey.  An image that follows an unreadable one may be read twice.  The
   caller owns `out` and destroys it with dpt_survey_destroy.  Errors: those of dpt_dataset_open,
   except for damaged or unreadable pictures: DPT_E_INVALID, DPT_E_NOT_FOUND, DPT_E_FORMAT,
   DPT_E_NO_MEMORY and DPT_E_UNSUPPORTED. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_dataset_survey(dpt_context *context, const char *name,
                                                       const char *directory, dpt_part part,
                                                       const dpt_survey_options *options,
                                                       dpt_survey **out);

/* A description of a survey.  The survey owns the arrays and strings. */
typedef struct dpt_survey_info {
    size_t size;                  /* sizeof(dpt_survey_info), to be set before the call */
    const dpt_dataset_info *data; /* without read_as_needed, which is false */
    const size_t *class_counts; /* (data->outputs) number of images of each class, unreadable images
                                   included */
    size_t n_unreadable;
    /* Statistics of the readable images, as from dpt_dataset_statistics. has_statistics is false if
       no image is readable or there are more than 4 channels. */
    bool has_statistics;
    float mean[4], deviation[4];
} dpt_survey_info;

/* Describes a survey.  Cannot fail. */
DPT_API void dpt_survey_describe(const dpt_survey *survey, dpt_survey_info *out);
/* Destroys a survey.  Accepts NULL.  Cannot fail. */
DPT_API void dpt_survey_destroy(dpt_survey *survey);

#ifdef __cplusplus
}
#endif

#endif
