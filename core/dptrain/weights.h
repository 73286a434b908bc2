/* Weights files and files of the whole training state: saving, loading and describing them.
   Part of the public API: programs include dptrain.h. */
#ifndef DPTRAIN_WEIGHTS_H
#define DPTRAIN_WEIGHTS_H

#include "dptrain/trainer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* dpt_trainer_save writes the weights to a safetensors file with PyTorch's names and layouts.  The
   file is written atomically (temporary file, fsync, rename), from any device that answers.  The
   file also records how the data are normalised (see dpt_weights_describe); dpt_trainer_load does
   not apply that.

   dpt_trainer_load reads the weights of such a file into all replicas.  It checks the whole file
   before it changes anything.  A path that ends with ".index.json" is that of an index, as
   `transformers` writes it, which names several files of its folder.  Weights of F16 and BF16
   become the float32 of the same value, those of F64 the nearest float32.  A part that all names of
   the file begin with ("module.") and the model does not know is left out.  Notices
   (dpt_context_notices) tell both.  docs/models.md says which names of `transformers` a file may
   leave out.  A device that fails meanwhile is treated as by dpt_trainer_set.

   Errors of both: DPT_E_STATE if a step is in flight, or within dpt_fit as described there;
   DPT_E_IO; DPT_E_NO_MEMORY; the devices' own failures. dpt_trainer_load: DPT_E_NOT_FOUND;
   DPT_E_FORMAT if the file is damaged or a value is not finite; DPT_E_INVALID if the weights belong
   to another model or have another type than F32, F64, F16 or BF16 (the message names the tensor,
   and if several differ, notices name up to ten of each kind). */
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_save(dpt_trainer *trainer, const char *path);
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_load(dpt_trainer *trainer, const char *path);
/* Loads weights as dpt_trainer_load does, except those of some layers.  `layers` names these layers
   with commas between them, such as "fc"; NULL or "" names none.  The tensors of these layers
   ("fc.weight") keep their values.  The file may lack these tensors, or have tensors of other
   shapes, for example for other classes.  Errors: as dpt_trainer_load; DPT_E_INVALID also if the
   model has no such layer. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_load_except(dpt_trainer *trainer, const char *path,
                                                            const char *layers);

/* How weights are loaded. */
typedef struct dpt_load_options {
    size_t size;        /* sizeof(dpt_load_options) */
    const char *except; /* `layers` of dpt_trainer_load_except */
    bool partial; /* take the tensors that fit by name and shape; all others of the model keep their
                     values, and others of the file are left out.  Notices tell both */
} dpt_load_options;
/* Loads weights as dpt_trainer_load does, with options.  `options` may be NULL: all defaults.
   Errors: as dpt_trainer_load_except; DPT_E_INVALID also if `partial` finds no tensor that fits, or
   the model has adapters. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_load_with(dpt_trainer *trainer, const char *path,
                                                          const dpt_load_options *options);

/* What a weights file records about the training that made it. */
typedef struct dpt_weights_info {
    size_t size;                    /* sizeof(dpt_weights_info), to be set before the call */
    char model[64], dataset[64];    /* names; "": not recorded */
    size_t height, width, channels; /* of the images; all 0: not recorded */
    size_t classes;                 /* 0: not recorded */
    const char **class_names;       /* `classes` strings, or NULL */
    size_t stat_channels; /* number of valid entries of mean and deviation; 0: not recorded */
    float mean[4],
        deviation[4]; /* as for dpt_dataset_normalize; 0 and 1 if the data were not normalised */
    /* The narrowest type of weights in the file: "F16", "BF16", "F32", "F64"; "": none. */
    char type[8];
    bool adapters; /* the file has adapters (dptrain/lora.h), and not the weights of their base */
    dpt_loss loss; /* DPT_LOSS_CROSS_ENTROPY also if it is not recorded */
    float huber_delta; /* of DPT_LOSS_HUBER; 0: not recorded */
} dpt_weights_info;

/* Reads the header of a weights file.  The call does not check the tensors or their sizes.  The
   caller frees `out` with dpt_weights_release after success.  Errors: DPT_E_NOT_FOUND; DPT_E_IO;
   DPT_E_NO_MEMORY; DPT_E_FORMAT if the header is damaged or contradicts itself. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_weights_describe(dpt_context *context, const char *path,
                                                         dpt_weights_info *out);
/* Frees what dpt_weights_describe has allocated and sets all fields but the size to zero.  Accepts
   a struct whose fields are zero. Cannot fail. */
DPT_API void dpt_weights_release(dpt_weights_info *info);

/* dpt_trainer_save_state writes everything that is needed to resume training: weights, running
   statistics, optimizer state, the position in the data, the step that random numbers are keyed by,
   and what the split "measured" has learnt.  The file is one safetensors file with a checksum over
   every byte.  PyTorch and dpt_trainer_load can read the weights from it. docs/reliability.md
   describes the format.  The file is written atomically, as by dpt_trainer_save.

   dpt_trainer_load_state loads such a file into a trainer of the same model, data and options.  The
   trainer then makes the same steps that the saving trainer would have made, with the same bits if
   the shards are the same.  The devices, the split and the micro-batch may differ.  The learning
   rate is loaded too.  Devices that are the same as before use the same algorithms again; with
   several processes only dpt_fit_options.resume does that.  The call checks everything before it
   changes anything.

   With several processes that compress, all processes must call both functions together: process 0
   writes one file with the error feedback of every process, and all processes read it.  To resume a
   dpt_fit, use dpt_fit_options.resume.

   Errors of both: DPT_E_STATE if a step is in flight or within dpt_fit; DPT_E_IO; DPT_E_NO_MEMORY;
   the devices' own failures. dpt_trainer_load_state: DPT_E_NOT_FOUND; DPT_E_FORMAT if the file is
   damaged, cut off or has weights only; DPT_E_INVALID if the model, the data or an option of the
   trainer differs (the message names it). */
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_save_state(dpt_trainer *trainer, const char *path);
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_load_state(dpt_trainer *trainer, const char *path);

#ifdef __cplusplus
}
#endif

#endif
