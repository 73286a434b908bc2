/* Shared code of the training tests: LeNet in double precision, written independently of the
   library; data; and runs on a device list whose weights and gradients are compared. */
#ifndef DPT_TEST_TRAIN_SUPPORT_H
#define DPT_TEST_TRAIN_SUPPORT_H

#include "dptrain.h"
#include "dptrain_models.h"
#include "harness.h"

/* ---- LeNet in double precision --------------------------------------------------------------- */

enum { LENET_TENSORS = 8 };

/* conv1.weight, conv1.bias, conv2..., fc1..., fc2...: PyTorch's names, in this order everywhere. */
extern const char *const lenet_names[LENET_TENSORS];
extern const size_t lenet_sizes[LENET_TENSORS];

/* Tensors in PyTorch's layouts. */
typedef struct lenet64 {
    double *tensor[LENET_TENSORS];
} lenet64;

bool lenet64_create(lenet64 *out); /* zeros */
void lenet64_free(lenet64 *l);

/* The mean loss of n 28x28 images (values 0..1) with labels, and its gradients, which are
   overwritten.  Loops over NCHW tensors. */
double lenet64_gradients(const lenet64 *weights, const double *images, const uint8_t *labels,
                         size_t n, lenet64 *gradients);

/* ---- Runs ------------------------------------------------------------------------------------ */

/* Sets DPTRAIN_BACKEND_PATH so that the fault plug-ins of the tests are found beside the real ones.
   Before any context is made. */
void add_fault_plugins(void);
/* Whether they are, so that what goes on until a planted failure does not happen may begin; fails
   with words. */
bool has_fault_plugins(test *t);

/* Learnable 28x28 images of 10 classes, from a seed. */
typedef struct image_set {
    size_t count;
    uint8_t *pixels; /* (count, 28, 28) */
    uint8_t *labels;
} image_set;

bool images_create(size_t count, uint64_t seed, image_set *out);
void images_free(image_set *i);
/* The first `count` of them, which stay where they are. */
DPT_CHECK_RESULT dpt_status images_open(dpt_context *context, const image_set *i, size_t count,
                                        dpt_dataset **out);
/* Each run of `batch` samples in another order, from a seed; the batches stay. */
void images_permute_batches(image_set *i, size_t batch, uint64_t seed);

typedef struct run_options {
    const char *devices, *split; /* devices: "A|B": of two processes (processes.h) */
    size_t batch, steps;
    float lr, momentum;
    dpt_compression compress;
} run_options;

/* What came of it: weights after the last step, gradients of the last step, losses of all. */
typedef struct run_result {
    dpt_status status;
    char message[512];
    size_t size;         /* all parameters, one after the other */
    float *weights;      /* of the first device */
    float *gradients;    /* likewise */
    double *losses;      /* (steps) */
    bool replicas_agree; /* every device has the same weights, to the bit */
    size_t *shards;      /* of the last step, per device */
    size_t n_devices;
} run_result;

/* Trains LeNet from the default initialisation, seed 1, batches in the order of the data. */
void train_run(const image_set *data, const run_options *options, run_result *out);
void run_free(run_result *r);

/* Removes the checkpoints of a folder whose step is above `step`, as if they had not been written
   yet; how many are left. */
size_t forget_checkpoints(test *t, const char *folder, size_t step);

/* |a - b| in the 2-norm; NaN if any is. */
double distance(const float *a, const float *b, size_t n);

#endif
