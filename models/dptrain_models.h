/* Builds networks by name.  This header is part of libdptrain and uses dptrain.h only. */
#ifndef DPTRAIN_MODELS_H
#define DPTRAIN_MODELS_H

#include "dptrain.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The shape of the images, and the number of classes, that a network is built for. */
typedef struct dpt_model_shape {
    size_t height, width, channels, classes;
} dpt_model_shape;

/* Returns the known names as a NULL-terminated static list: "linear", "mlp", "lenet", ...
   Cannot fail. */
DPT_API const char *const *dpt_model_names(void);
/* Returns one line of help on a network, or NULL if `name` is unknown.  The string is static.
   Cannot fail. */
DPT_API const char *dpt_model_help(const char *name);
/* Builds and finishes a network.  A name that ends with ".onnx" is the path of a file, which
   dpt_model_from_onnx reads: its shape is that of the file, whatever `shape` says.  The caller owns
   *out and destroys it with dpt_model_destroy. Errors: DPT_E_INVALID if the name is unknown (the
   message lists the known names and suggests the nearest name) or the images are too small for the
   network (the message names the layer); DPT_E_NO_MEMORY; those of dpt_model_from_onnx. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_model_by_name(dpt_context *context, const char *name,
                                                      const dpt_model_shape *shape,
                                                      dpt_model **out);

#ifdef __cplusplus
}
#endif

#endif
