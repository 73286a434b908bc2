/* The descriptions with which MAP and MAP_REDUCE are tested (map_cases.c). */
#ifndef DPT_TEST_MAP_CASES_H
#define DPT_TEST_MAP_CASES_H

#include "conformance.h"

/* All calls of many descriptions of a kind. */
void map_cases_check(test *t, dpt_op_kind kind);
/* The elements of type F32 of a description get the type of activations, in every second operand.
 */
void map_cases_store(dpt_op_desc *desc, dpt_dtype type);
/* Indices times instructions of a sample. */
size_t map_cases_work(const dpt_map_desc *d);
/* Whether small integers give exact results. */
bool map_cases_exact(const dpt_op_desc *desc);
/* The description as text. */
void map_cases_describe(const dpt_map_desc *d, char *out, size_t n_bytes);

#endif
