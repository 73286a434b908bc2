/* Writing a trained network as an ONNX file for inference.
   Part of the public API: programs include dptrain.h. */
#ifndef DPTRAIN_EXPORT_H
#define DPTRAIN_EXPORT_H

#include "dptrain/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dpt_onnx_options {
    size_t size;    /* sizeof(dpt_onnx_options) */
    unsigned opset; /* of the default domain, 13 to 25; default 18 */
    /* If the weights have more bytes than this, they go to a second file, PATH.data; default
       1 792 MiB.  An ONNX file can have at most 2 GiB. */
    size_t most_bytes;
} dpt_onnx_options;

/* Writes a finished model as an ONNX file for inference: batch-norm uses the running statistics,
   and dropout is left out.  docs/onnx.md describes the file.

   weights   A safetensors file with the model's tensors, such as dpt_trainer_save writes.  NULL:
             the weights that the model began with, which only dpt_model_from_onnx gives.
   path      Written atomically (temporary file, fsync, rename).  If there is a second file, it is
             renamed first.
   options   NULL: all defaults.

   The batch has the free extent "N".  Images are float32 (N, channels, height, width), as the
   network gets them: (value / 255 - mean) / deviation for pixels of 8 bits.  Mean and deviation of
   the training are metadata of the file, and no part of the graph.  The output is the logits.  A
   model of dpt_model_from_onnx has the names and axes of its file.

   Errors: DPT_E_INVALID if `model` or `path` is NULL, `options` has the size 0, `path` is the file
   of the weights, the opset is another one, `weights` is NULL and the model has none, or the
   weights belong to another model or are not float32 (the message names the tensor); DPT_E_STATE if
   the model is not finished; DPT_E_NOT_FOUND; DPT_E_IO; DPT_E_FORMAT if the file of weights is
   damaged; DPT_E_UNSUPPORTED for a layer that cannot be written, and if this build has no
   protobuf-c; DPT_E_NO_MEMORY. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_model_to_onnx(const dpt_model *model, const char *weights,
                                                      const char *path,
                                                      const dpt_onnx_options *options);

#ifdef __cplusplus
}
#endif

#endif
