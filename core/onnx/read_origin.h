/* What PyTorch's default exporter notes about the parameters of a module.  Not for others. */
#ifndef DPTI_ONNX_READ_ORIGIN_H
#define DPTI_ONNX_READ_ORIGIN_H

#include "onnx/read_state.h"

/* A parameter or a buffer of the module. */
typedef struct dpti_onnx_member {
    const char *target; /* its name in the module, such as "layers.0.norm1.weight" */
    bool is_buffer;
} dpti_onnx_member;

/* All members, by the names that calls use, and by their names in the module. */
typedef struct dpti_onnx_signature {
    dpti_onnx_names by_argument, by_target; /* to dpti_onnx_member */
} dpti_onnx_signature;

/* Reads the signature of the file.  No members: the file has none.  Errors: DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_onnx_read_signature(dpti_onnx_reading *reading,
                                                     dpti_onnx_signature *out, dpt_error *error);
/* The member that input i of a node was in PyTorch; NULL if the file does not tell. */
const dpti_onnx_member *dpti_onnx_member_of(const dpti_onnx_signature *signature,
                                            const dpti_onnx_node *node, size_t i);
/* Whether the exporter has computed input i of a node, a constant for the file, from a parameter.
 */
bool dpti_onnx_is_folded(const dpti_onnx_signature *signature, const dpti_onnx_node *node,
                         const char *name);

#endif
