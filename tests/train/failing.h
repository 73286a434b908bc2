/* Trainings on a device whose interface fails one call: the first call of each function, its
   second call, and so on.  With $DPTRAIN_TEST_EVERY every call is tried; otherwise ever fewer of
   many calls.

   In all cases nothing crashes or hangs.  A call that fails has the status of a device failure and
   a message of one line that names the device and the native error.  A training that goes on, at
   once or when the call is repeated, has the right numbers.  No object is leaked, unless the
   device is lost. */
#ifndef DPT_TEST_FAILING_H
#define DPT_TEST_FAILING_H

#include "dptrain.h"
#include "harness.h"

/* How a function fails. */
typedef struct failing_code {
    const char *function;
    int code;
    const char *words; /* in the message */
    bool cold;         /* without a cache: what is called to compile */
    bool sticky;       /* and so does what comes after it */
} failing_code;

/* What stands before a backend's interface and fails what it is told to. */
typedef struct failing_face {
    const char *backend;
    const failing_code *codes; /* of some functions; */
    size_t n_codes;
    failing_code otherwise; /* of all others */
    /* The n-th call from now on; NULL: none. */
    void (*plant)(const char *function, size_t n, int code, bool sticky);
    bool (*fired)(void);
    size_t (*objects)(void);           /* that exist */
    const char *(*function)(size_t i); /* that can be failed; NULL behind the last */
    void (*prepare)(
        const failing_code *code); /* before a training; NULL: after them all.  Optional */
} failing_face;

/* What test->user of the cases is. */
typedef struct failing {
    const failing_face *face;
    dpt_context *context;
    dpt_dataset *data;
    dpt_model *plain, *residual; /* without and with batch-norms */
} failing;

/* Fails every function in turn. */
void failing_in_turn(test *t, const char *devices, bool with_norms);
/* From some call on nothing works any more: the training ends, or, where it survives, goes on
   without the device and comes to the same; and the process does not end. */
void failing_for_good(test *t, const char *devices, const failing_code *gone, bool fails_over);

/* Runs the cases; the exit status of the test. */
int failing_main(int argc, char **argv, const failing_face *face, const test_case *cases, size_t n);

#endif
