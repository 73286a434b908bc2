/* Networks by name.  Part of libdptrain; built with dptrain.h only. */
#ifndef DPTRAIN_MODELS_H
#define DPTRAIN_MODELS_H

#include "dptrain.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a network is fitted to. */
typedef struct dpt_model_shape {
    size_t height, width, channels, classes;
} dpt_model_shape;

/* The known names in a NULL-terminated list: "linear", "mlp", "lenet", ... */
DPT_API const char *const *dpt_model_names(void);
/* One line about a name, or NULL. */
DPT_API const char *dpt_model_help(const char *name);
/* Builds and finishes the network.  DPT_E_INVALID: an unknown name (the message lists the known
   ones and suggests the nearest), or images too small for it (the message names the layer). */
DPT_API DPT_CHECK_RESULT dpt_status dpt_model_by_name(dpt_context *context, const char *name,
                                                      const dpt_model_shape *shape,
                                                      dpt_model **out);

#ifdef __cplusplus
}
#endif

#endif
