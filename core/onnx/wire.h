/* Looks through the encoding of a file before it is decoded, without taking memory. */
#ifndef DPTI_ONNX_WIRE_H
#define DPTI_ONNX_WIRE_H

#include "base/bytes.h"
#include "onnx/arena.h"

/* What decoding will make. */
typedef struct dpti_onnx_counts {
    size_t nodes, tensors, functions;
} dpti_onnx_counts;

/* Checks that the fields of the model and of its graph are within the file, that there is one
   graph, and counts what it holds.  Errors: DPT_E_FORMAT if the file is no ONNX file or is cut off.
 */
DPT_CHECK_RESULT dpt_status dpti_onnx_count(const dpti_file_bytes *file, dpti_onnx_counts *counts,
                                            dpt_error *error);
/* Finds where the raw bytes of the first n initialisers of the model's graph begin in the file:
   SIZE_MAX for one without.  The file was counted. */
void dpti_onnx_find_raw(const dpti_file_bytes *file, size_t n, size_t *offsets);
/* Counts what a graph holds.  Returns false if its fields are not within its bytes. */
DPT_CHECK_RESULT bool dpti_onnx_count_graph(const uint8_t *bytes, size_t n_bytes,
                                            dpti_onnx_counts *counts);

#endif
