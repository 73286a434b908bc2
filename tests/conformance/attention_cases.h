/* The descriptions with which ATTENTION is tested (attention_cases.c). */
#ifndef DPT_TEST_ATTENTION_CASES_H
#define DPT_TEST_ATTENTION_CASES_H

#include "conformance.h"

/* All calls of many descriptions. */
void attention_cases_check(test *t, dpt_op_kind kind);
/* Multiply-adds of a sample. */
size_t attention_cases_work(const dpt_op_desc *desc);
/* The description as text. */
void attention_cases_describe(const dpt_attention_desc *d, char *out, size_t n_bytes);

#endif
