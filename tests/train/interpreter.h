/* An interpreter of compiled programs.  It runs the operators of tests/reference in double
   precision on virtual devices that exchange what the program says.  It computes the losses,
   gradients, running statistics and updates of a model as exactly as doubles allow.

   Every tensor has memory of its own and is NaN until an instruction writes it.  The interpreter
   does not use the memory plan. */
#ifndef DPT_TEST_INTERPRETER_H
#define DPT_TEST_INTERPRETER_H

#include "graph/program.h"

typedef struct interpreter_device {
    double **tensors; /* (n_tensors) of those that live in the arena, else NULL */
    double *gradients;
    double *index; /* (n_samples) */
    size_t n_samples;
} interpreter_device;

/* Flat buffers are laid out as the library's, (flat_size). */
typedef struct interpreter {
    const dpt_model *model;
    dpti_program program;
    bool accumulates;
    size_t n_devices;
    interpreter_device *devices;
    double *images, *labels; /* of the whole data set */
    double *constants;       /* of the model, then the table of class weights */
    double *parameters, *velocity, *squares, *gradients; /* gradients: the sum over the devices */
    double *results; /* (n, result_elements) of the last compute, all devices' samples */
    double lr, adam_scale_m, adam_scale_v;
    double labels_per_sample; /* labels a sample in the mean over the data set, without ignored
                                 ones, each counted with the weight of its class */
    uint64_t seed;
    uint32_t epoch; /* 1 at first */
} interpreter;

/* Virtual devices are as many as parts are exchanged, or `n_devices` of which each takes its own
   statistics.  On failure *out holds what was made: free it. */
DPT_CHECK_RESULT bool interpreter_create(const dpt_model *model,
                                         const dpti_program_options *options, size_t n_devices,
                                         interpreter *out);
void interpreter_free(interpreter *it); /* accepts a zeroed one */

/* Everything up to the commit, for records[0 .. sum of shares), divided among the devices in order.
   Yields the sum of the losses times inv_batch, divided by labels_per_sample (no such thing for a
   program that predicts).  With `accumulate` compiled in there is one device, which adds to what
   `gradients` holds. */
double interpreter_compute(interpreter *it, const uint32_t *records, const size_t *shards,
                           double inv_batch);
/* The committing segment, on `gradients`. */
void interpreter_commit(interpreter *it);

/* The 2-norm of a parameter's part of a flat buffer, and of its distance to the library's. */
double parameter_norm(const dpti_parameter *p, const double *flat);
double parameter_error(const dpti_parameter *p, const float *flat, const double *reference);
/* A bias whose true gradient is zero, since a batch-norm subtracts it again, or the weight of
   another batch-norm, which it divides by again. */
bool feeds_batch_norm(const dpt_model *model, size_t parameter);

#endif
