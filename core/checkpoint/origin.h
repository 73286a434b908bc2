/* What files of weights tell of where they come from, in their metadata: the model, the data that
   it was trained on, their images and classes, and how they were normalised (docs/reliability.md
   has the format).  Files of other programs, and older ones, tell less or nothing. */
#ifndef DPTI_ORIGIN_H
#define DPTI_ORIGIN_H

#include "io/safetensors.h"
#include "train/trainer.h"

/* Of the list of classes' names, with the zero at its end: so much is written and read. */
enum { DPTI_CLASS_NAMES_BYTES = 1 << 22 };

typedef struct dpti_origin {
    const char *model; /* the model's own */
    char steps[24];
    char dataset[64];
    char height[24], width[24], channels[24], classes[24];
    char *class_names;            /* a JSON array, owned; NULL: they have none */
    char mean[72], deviation[72]; /* numbers with spaces between them, one for each channel */
} dpti_origin;

/* Of what the trainer holds now. */
void dpti_origin_of(const dpt_trainer *trainer, dpti_origin *out);
void dpti_origin_free(dpti_origin *origin); /* accepts a zeroed one; zeroes it */

enum { DPTI_ORIGIN_LIST = 25 };
/* The whole metadata of a file of ours, as dpti_safetensors_seal takes them, with one entry more.
   The list points to what it is given. */
void dpti_origin_list(const dpti_origin *origin, const char *key, const char *value,
                      const char *list[DPTI_ORIGIN_LIST]);

/* What a file tells, which `name` stands for in messages.  DPT_E_FORMAT; DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_origin_read(const dpti_safetensors *file, const char *name,
                                             dpt_weights_info *out, dpt_error *error);

/* Where a file's tensors are not the model's: words about whose they may be, to end a message. */
void dpti_origin_guess(const dpti_safetensors *file, const dpt_model *model, char *text,
                       size_t n_bytes);

#endif
