/* The origin of weights, stored in the metadata of a weights file: the model, the data set, the
   size and classes of its images, and their normalisation (docs/reliability.md has the format).
   Files of other programs, and older files, may lack some or all of it. */
#ifndef DPTI_ORIGIN_H
#define DPTI_ORIGIN_H

#include "io/safetensors.h"
#include "train/state/trainer.h"

/* Largest size of the list of class names that is written and read, with the zero at its end. */
enum { DPTI_CLASS_NAMES_BYTES = 1 << 22 };

typedef struct dpti_origin {
    const char *model; /* the name, owned by the model */
    char base[65];     /* of adapters: the hash of their base (train/replicas/base_hash.h); or "" */
    char steps[24];
    char dataset[64];
    char height[24], width[24], channels[24], classes[24];
    char *class_names;            /* a JSON array, owned; NULL: no names */
    char mean[72], deviation[72]; /* numbers separated by spaces, one per channel */
    const char *loss;             /* NULL: cross-entropy, or one that has no name */
    char huber_delta[24];         /* "": the loss has none */
} dpti_origin;

/* The key of the hash of the base. */
#define DPTI_BASE_KEY "base_sha256"

/* Describes the present weights of a trainer.  The hash of a base is that which dpti_base_hash has
   computed. */
void dpti_origin_of(const dpt_trainer *trainer, dpti_origin *out);
void dpti_origin_free(dpti_origin *origin); /* accepts a zeroed struct; sets it to zero */

enum { DPTI_ORIGIN_LIST = 31 };
/* Builds the whole metadata of a file, as dpti_safetensors_seal takes it, with one more entry.
   The list points to the arguments. */
void dpti_origin_list(const dpti_origin *origin, const char *key, const char *value,
                      const char *list[DPTI_ORIGIN_LIST]);

/* Reads the origin from a file; `name` is used in messages.  Errors: DPT_E_FORMAT;
   DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_origin_read(const dpti_safetensors *file, const char *name,
                                             dpt_weights_info *out, dpt_error *error);

/* If the tensors of a file do not fit the model: writes a guess about the file's model, as the end
   of a message. */
void dpti_origin_guess(const dpti_safetensors *file, const dpt_model *model, char *text,
                       size_t n_bytes);

#endif
