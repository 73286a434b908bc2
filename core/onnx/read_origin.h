/* What PyTorch's default exporter notes about the parameters of a module.  Not for others. */
#ifndef DPTI_ONNX_READ_ORIGIN_H
#define DPTI_ONNX_READ_ORIGIN_H

#include "onnx/read_state.h"

typedef enum dpti_onnx_member_kind {
    DPTI_ONNX_PARAMETER,
    DPTI_ONNX_BUFFER,
    DPTI_ONNX_CODE_TENSOR, /* a tensor that `forward` makes of numbers, or a plain attribute */
} dpti_onnx_member_kind;

/* A tensor of the module. */
typedef struct dpti_onnx_member {
    const char *target; /* its name in the module, such as "layers.0.norm1.weight" */
    dpti_onnx_member_kind kind;
} dpti_onnx_member;

/* All members, by the names that calls use, and by their names in the module. */
typedef struct dpti_onnx_signature {
    dpti_onnx_names by_argument, by_target; /* to dpti_onnx_member */
    dpti_onnx_names sources; /* by the name of a tensor that the exporter has computed: the list of
                                the values from which, "['a', 'b']" */
} dpti_onnx_signature;

/* Reads the signature of the file.  No members: the file has none.  Errors: DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_onnx_read_signature(dpti_onnx_reading *reading,
                                                     dpti_onnx_signature *out, dpt_error *error);
/* The name of a tensor that the code makes. */
#define DPTI_ONNX_CODE_NAME "val_code"
/* The member that input i of a node was in PyTorch; NULL if the file does not tell.  A node that
   takes no member, but a tensor that the code makes, has one of the name above. */
const dpti_onnx_member *dpti_onnx_member_of(const dpti_onnx_signature *signature,
                                            const dpti_onnx_node *node, size_t i);
/* The member that a tensor of the file is; NULL: none. */
const dpti_onnx_member *dpti_onnx_member_called(const dpti_onnx_signature *signature,
                                                const char *name);
/* Whether the exporter has computed a tensor from numbers of the code and buffers alone. */
bool dpti_onnx_is_of_code(const dpti_onnx_signature *signature, const char *name);
/* Whether the exporter has computed input i of a node, a constant for the file, from a parameter.
 */
bool dpti_onnx_is_folded(const dpti_onnx_signature *signature, const dpti_onnx_node *node,
                         const char *name);

#endif
