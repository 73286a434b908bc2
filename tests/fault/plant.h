/* Plants one failure at a time: the n-th call of a device fails, for every n.  Checks what every
   public call must then guarantee. */
#ifndef DPT_TEST_PLANT_H
#define DPT_TEST_PLANT_H

#include "dptrain.h"
#include "harness.h"

/* One run with one planted failure. */
typedef struct run {
    test *t;
    const char *devices; /* the list that was opened */
    const char *backend; /* the failing device's */
    size_t survivor;     /* the position of the device that does not fail */
    bool lost;           /* the failure is a loss */
    dpt_context *context;
    dpt_device_set *set;
    bool failed; /* a call has failed */
} run;

typedef void run_body(run *r);

/* What t->user points to. */
typedef struct plant {
    const char *backend; /* fault or faultstaged */
    void *fixture;       /* the test's own */
} plant;

/* Grey images (side, side) of at least two classes that a network can tell apart. */
DPT_CHECK_RESULT dpt_status plant_data(dpt_context *context, size_t count, size_t side,
                                       size_t classes, dpt_dataset **out);

/* A small network of it with what has a state of its own: weights, running statistics. */
DPT_CHECK_RESULT dpt_status plant_network(dpt_context *context, size_t side, size_t classes,
                                          dpt_model **out);

/* All parameters of one replica of a small network. */
typedef struct plant_weights {
    size_t n;
    float values[16384];
} plant_weights;

DPT_CHECK_RESULT dpt_status plant_read_weights(const dpt_model *model, dpt_trainer *trainer,
                                               size_t device, plant_weights *out);
/* To the bit, */
bool plant_same_weights(const plant_weights *a, const plant_weights *b);
/* and within rounding: 1e-3 of the second one's norm. */
bool plant_near_weights(const plant_weights *a, const plant_weights *b);

/* A device list in which every "@" is the backend under test: `out`, of n_bytes, cut if it is
 * longer. */
void plant_devices(const char *list, const char *backend, char *out, size_t n_bytes);

/* Makes the fault plug-ins known and tells them where to report.  Call first. */
DPT_CHECK_RESULT bool plant_setup(void);

/* Looks at the result of a call: it fails if the planted failure happened in it, or if the device
   is lost, and only then; with a status of a device and a message of one line that names it. */
bool plant_succeeded(run *r, dpt_status status, const char *what);

/* Whether the planted failure has happened in this run. */
bool plant_fired(void);
/* Likewise, in a call of this entry. */
bool plant_fired_in(const char *entry);
/* How many lines of the report begin with this. */
size_t plant_count(const char *word);

/* A device list with one "%s" for the backend and one "%zu" for the call. */
typedef struct plant_list {
    const char *format;
    size_t survivor;
} plant_list;

/* One run: opens, runs the body, closes; nothing may stay behind.  True if the planted failure
   happened. */
bool plant_once(test *t, const plant_list *list, size_t n, run_body *body);
/* Runs with the failure planted at call 1, 2, ... until it does not happen any more. */
void plant_everywhere(test *t, const plant_list *list, run_body *body);
/* Likewise at call first, first + stride, ...  The stride is multiplied by test_stride(), in
   plant_everywhere, too. */
void plant_every(test *t, const plant_list *list, size_t first, size_t stride, run_body *body);

#endif
