/* Reads an ONNX file into a model that is complete and consistent.

   Taken are IR versions 3 to DPTI_ONNX_NEWEST_IR and opsets DPTI_ONNX_OLDEST_OPSET to
   DPTI_ONNX_NEWEST_OPSET of the default domain.  Functions of the file are put in place of the
   nodes that call them.  Tensors may be in other files, but only in the model's folder or below it.
   The nodes of both branches of an If become nodes of the model, and an If becomes a node for each
   of its outputs, with three inputs: the condition and the results of the two branches.  Other
   subgraphs (Loop, Scan), sparse tensors, strings and other domains are refused.

   In the model every name is defined once, nodes are in the order in which they can run, and an
   initialiser that nothing uses is left out.  Operators are not looked at: infer.h does that. */
#ifndef DPTI_ONNX_READER_H
#define DPTI_ONNX_READER_H

#include "base/bytes.h"
#include "onnx/model.h"

enum {
    DPTI_ONNX_OLDEST_IR = 3,
    DPTI_ONNX_NEWEST_IR = 14,
    DPTI_ONNX_OLDEST_OPSET = 13,
    DPTI_ONNX_NEWEST_OPSET = 28,
};

/* What a file may ask for.  A zero stands for the default. */
typedef struct dpti_onnx_limits {
    size_t max_file_bytes; /* of the model's own file; default: 2 GiB - 1, the format's own limit */
    size_t max_memory;     /* of the model, external tensors included, in bytes; default: what this
                              process may use (dpti_machine_memory) */
    size_t max_nodes;      /* after functions were put in place; default: 1 000 000 */
    size_t least_part;     /* bytes of an initialiser that is not decoded, but stays where it is in
                              the file's content; default: DPTI_ONNX_LEAST_PART */
} dpti_onnx_limits;

/* Opens a file.  `limits` may be NULL.  The caller closes *out.  Errors, each one line that begins
   with the path and names the node or tensor: DPT_E_NOT_FOUND, DPT_E_IO; DPT_E_FORMAT if the file
   is no ONNX file, is cut off, contradicts itself or refers to a file that is missing or outside
   the folder; DPT_E_UNSUPPORTED for what is valid and not taken, and if this build has no
   protobuf-c; DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_onnx_open(const char *path, const dpti_onnx_limits *limits,
                                           dpti_onnx_model **out, dpt_error *error);
/* Reads the bytes of a file, which must stay valid until the model is closed.  External tensors are
   refused.  Errors: as dpti_onnx_open, but for the file. */
DPT_CHECK_RESULT dpt_status dpti_onnx_parse(const dpti_file_bytes *bytes,
                                            const dpti_onnx_limits *limits, dpti_onnx_model **out,
                                            dpt_error *error);
/* Releases a model; NULL is allowed. */
void dpti_onnx_close(dpti_onnx_model *model);

#endif
