/* The descriptions with which RECURRENT is tested (recurrent_cases.c). */
#ifndef DPT_TEST_RECURRENT_CASES_H
#define DPT_TEST_RECURRENT_CASES_H

#include "conformance.h"

/* All calls of many descriptions. */
void recurrent_cases_check(test *t, dpt_op_kind kind);
/* Multiply-adds of a sample. */
size_t recurrent_cases_work(const dpt_recurrent_desc *d);
/* The description as text. */
void recurrent_cases_describe(const dpt_recurrent_desc *d, char *out, size_t n_bytes);

#endif
