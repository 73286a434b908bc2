/* cuDNN's descriptors as dnn*.c use them: the library's functions, its errors, and attributes. */
#ifndef DPT_CUDA_DNN_GRAPH_H
#define DPT_CUDA_DNN_GRAPH_H

#include "dnn.h"

#include <cudnn_graph.h>

#define DPT_CUDA_DNN_FUNCTIONS(X)                                                                  \
    X(cudnnBackendCreateDescriptor)                                                                \
    X(cudnnBackendDestroyDescriptor)                                                               \
    X(cudnnBackendExecute)                                                                         \
    X(cudnnBackendFinalize)                                                                        \
    X(cudnnBackendGetAttribute)                                                                    \
    X(cudnnBackendSetAttribute)                                                                    \
    X(cudnnCreate)                                                                                 \
    X(cudnnDestroy)                                                                                \
    X(cudnnGetErrorString)                                                                         \
    X(cudnnGetVersion)                                                                             \
    X(cudnnSetStream)

typedef struct dpt_cuda_dnn_functions {
#define DPT_CUDA_DNN_MEMBER(name) __typeof__(&name) name;
    DPT_CUDA_DNN_FUNCTIONS(DPT_CUDA_DNN_MEMBER)
#undef DPT_CUDA_DNN_MEMBER
} dpt_cuda_dnn_functions;

/* Of the process: constant once a device is open. */
extern dpt_cuda_dnn_functions dpt_cudnn;

enum {
    DPT_DNN_MAX_KNOBS = 64,  /* of an engine */
    DPT_DNN_KEY_LENGTH = 21, /* numbers that tell a list of recipes from another */
    DPT_DNN_LISTS_KEPT = 64, /* some 20 KB each: a pass has up to four, ResNet-18 33 passes */
};

typedef struct dpt_dnn_knob {
    cudnnBackendKnobType_t type;
    int64_t value;
} dpt_dnn_knob;

struct dpt_cuda_recipe {
    int64_t engine; /* its number, the same for every graph of this pass */
    size_t n_knobs;
    dpt_dnn_knob knobs[DPT_DNN_MAX_KNOBS];
};

/* What heuristics have offered for a convolution of an example's number of samples. */
typedef struct dpt_dnn_list {
    size_t key[DPT_DNN_KEY_LENGTH];
    uint64_t last_use;        /* 0: unused */
    size_t n_modes;           /* in which they have been asked */
    size_t n;                 /* recipes that suit, each once, in the order of offers */
    dpt_cuda_recipe *recipes; /* (n) */
} dpt_dnn_list;

/* All of it is the driver's thread's. */
struct dpt_cuda_dnn {
    cudnnHandle_t handle;
    char description[40];
    uint64_t n_uses;
    dpt_dnn_list lists[DPT_DNN_LISTS_KEPT]; /* the last ones used */
};

void dpt_dnn_lists_clear(dpt_cuda_dnn *dnn);

/* What a failed call of cuDNN's means: DPT_E_UNSUPPORTED for what it cannot do or does not take. */
dpt_status dpt_cuda_dnn_fail(dpt_device *device, cudnnStatus_t code, const char *what, int line);

#define DPT_CUDNN_TRY(device, name, ...)                                                           \
    do {                                                                                           \
        const cudnnStatus_t dpt_cudnn_code = dpt_cudnn.name(__VA_ARGS__);                          \
        if (dpt_cudnn_code != CUDNN_STATUS_SUCCESS)                                                \
            return dpt_cuda_dnn_fail((device), dpt_cudnn_code, #name, __LINE__);                   \
    } while (0)

/* ---- Descriptors ----------------------------------------------------------------------------- */

/* A descriptor in the making: the first failure is kept, and comes back from `finish`, so that the
   calls between need no checks.  Descriptors are destroyed in any case with dpt_dnn_drop. */
typedef struct dpt_dnn_maker {
    dpt_device *device;
    cudnnStatus_t code;
} dpt_dnn_maker;

typedef cudnnBackendDescriptor_t dpt_dnn_descriptor;

/* NULL after a failure. */
dpt_dnn_descriptor dpt_dnn_create(dpt_dnn_maker *maker, cudnnBackendDescriptorType_t type);
void dpt_dnn_set(dpt_dnn_maker *maker, dpt_dnn_descriptor descriptor,
                 cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, size_t n,
                 const void *values);
void dpt_dnn_set_integer(dpt_dnn_maker *maker, dpt_dnn_descriptor descriptor,
                         cudnnBackendAttributeName_t name, int64_t value);
void dpt_dnn_set_descriptor(dpt_dnn_maker *maker, dpt_dnn_descriptor descriptor,
                            cudnnBackendAttributeName_t name, dpt_dnn_descriptor value);
/* The handle of the device, where older versions want it and newer ones need not have it. */
void dpt_dnn_set_handle(dpt_dnn_maker *maker, dpt_dnn_descriptor descriptor, int name);
/* *n: in, room for values; out, how many there are. */
void dpt_dnn_get(dpt_dnn_maker *maker, dpt_dnn_descriptor descriptor,
                 cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t *n,
                 void *values);
void dpt_dnn_finalize(dpt_dnn_maker *maker, dpt_dnn_descriptor descriptor);
void dpt_dnn_drop(dpt_dnn_descriptor descriptor); /* accepts NULL */
/* DPT_OK, or the failure in words.  What cuDNN calls an internal error while a plan is made is one
   more way to say that it has none. */
DPT_CHECK_RESULT dpt_status dpt_dnn_finish(const dpt_dnn_maker *maker, const char *what);

/* ---- Graphs ---------------------------------------------------------------------------------- */

/* What tensors of a graph are called when it runs. */
enum { DPT_DNN_UID_X = 1, DPT_DNN_UID_W, DPT_DNN_UID_Y, DPT_DNN_UID_BIAS };

/* A convolution for n samples, by its descriptors; unused ones are NULL. */
typedef struct dpt_dnn_graph {
    cudnnDataType_t type;
    dpt_dnn_descriptor x, w, y, conv2d, operation, graph;
    dpt_dnn_descriptor bias, product, sum, add, addition, relu, activation; /* what follows */
} dpt_dnn_graph;

void dpt_dnn_graph_make(dpt_dnn_maker *maker, const dpt_cuda_convolution *convolution, size_t n,
                        dpt_dnn_graph *out);
void dpt_dnn_graph_drop(dpt_dnn_graph *graph);

/* Names that newer headers have deprecated, and that versions before them want to be set. */
enum { DPT_DNN_GRAPH_HANDLE = 800, DPT_DNN_PLAN_HANDLE = 400 };

#endif
