/* The inside of a generator: the model as two programs that share weights and what is kept, one for
   a single token and one for many (graph/steps.h). */
#ifndef DPTI_GENERATOR_H
#define DPTI_GENERATOR_H

#include "device/set.h"
#include "graph/replica.h"
#include "graph/steps.h"

/* A program for steps of some tokens. */
typedef struct dpti_stepper {
    dpt_model *model; /* NULL: not made */
    bool gives_logits;
    size_t fresh; /* elements of the result before the logits */
    dpti_replica replica;
    dpti_executable forward;
    dpti_buffer record, rows; /* ids and places; the number of the record, 0 */
    int32_t *ids;             /* host memory of the record */
    float *result;            /* host memory of the result */
} dpti_stepper;

struct dpt_generator {
    dpt_context *context;
    const dpt_model *model;
    dpti_device *device;
    size_t vocabulary;
    size_t capacity; /* tokens whose keys and values are kept */
    bool bounded;    /* no more tokens can be read */
    bool has_states; /* a row is kept that is not that of a place */
    bool deterministic, lost;
    double device_timeout;
    size_t n_tokens;
    float *logits; /* (vocabulary) */
    dpti_stepper one, many;
    dpt_error error; /* of the last job */
};

/* Makes the model of a stepper of `length` tokens.  The context gets the errors. */
DPT_CHECK_RESULT dpt_status dpti_stepper_build(dpt_generator *generator, size_t length,
                                               dpti_stepper *out);
/* [driver] Prepares a stepper whose model is built.  The first one gets the weights, `flat` of the
   generator's model; the second one, with `lender`, uses those of the first.  After a failure the
   caller releases it. */
typedef struct dpti_stepper_source {
    const dpt_model *model; /* whose parameters are in `flat` */
    const float *flat;
    const dpti_stepper *lender;
    bool deterministic;
} dpti_stepper_source;
DPT_CHECK_RESULT dpt_status dpti_stepper_create(dpti_device *device,
                                                const dpti_stepper_source *source,
                                                dpti_stepper *stepper, dpt_error *error);
/* [driver] Frees what a stepper has on its device; accepts one whose preparation failed. */
void dpti_stepper_release(dpti_device *device, dpti_stepper *stepper);
/* [driver] Reads n tokens behind those of the generator, and counts them. */
DPT_CHECK_RESULT dpt_status dpti_generator_advance(dpt_generator *generator, const int32_t *ids,
                                                   size_t n);
/* [driver] Zeroes all that is kept. */
DPT_CHECK_RESULT dpt_status dpti_generator_clear(dpt_generator *generator);

/* Tokens of a step of many. */
enum { DPTI_MANY_TOKENS = 64 };

#endif
