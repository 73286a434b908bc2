/* The descriptions with which MATMUL is tested (matmul_cases.c). */
#ifndef DPT_TEST_MATMUL_CASES_H
#define DPT_TEST_MATMUL_CASES_H

#include "conformance.h"

/* All calls of many descriptions. */
void matmul_cases_check(test *t, dpt_op_kind kind);
/* Multiply-adds of a sample. */
size_t matmul_cases_work(const dpt_matmul_desc *d);
/* The description as text. */
void matmul_cases_describe(const dpt_matmul_desc *d, char *out, size_t n_bytes);

#endif
