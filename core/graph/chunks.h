/* Running the instructions of chunks (dpti_chunks), one chunk after the other. */
#ifndef DPTI_CHUNKS_H
#define DPTI_CHUNKS_H

#include "device/device.h"
#include "graph/grain_sums.h"
#include "graph/program.h"

#include "dpt_error.h"

#include <stdbool.h>
#include <stddef.h>

/* Sets the options' rows of a chunk, unless they were given: the logits of a chunk take little
   memory, and the weights, which each chunk reads, are read for enough rows. */
void dpti_choose_chunk_rows(const dpt_model *model, const dpti_device *device,
                            dpti_program_options *options);

/* Whether instruction i is one of chunks, and its samples may be divided into several chunks. */
bool dpti_is_divided(const dpti_executable *executable, size_t i);
/* The most samples of the operator of instruction i, where it runs for n samples at once. */
size_t dpti_samples_at_once(const dpti_executable *executable, size_t i, size_t n);
/* Whether instruction i is the first one of chunks, and n_samples samples are several chunks. */
bool dpti_begins_chunks(const dpti_executable *executable, size_t i, size_t n_samples);
/* [driver] Enqueues all instructions of chunks for n_samples samples.  `run` as for
   dpti_executable_run. */
DPT_CHECK_RESULT dpt_status dpti_chunks_run(dpti_executable *executable, size_t n_samples,
                                            const dpti_grain_run *run);

#endif
