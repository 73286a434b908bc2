/* cuDNN's functions, errors, descriptors and graphs, for the files dnn*.c. */
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

/* Of the process; constant once a device is open. */
extern dpt_cuda_dnn_functions dpt_cudnn;

enum {
    DPT_DNN_MAX_KNOBS = 64,  /* of an engine */
    DPT_DNN_KEY_LENGTH = 21, /* numbers of the key of a list */
    DPT_DNN_LISTS_KEPT = 64, /* some 20 KB each; a pass has up to four, and ResNet-18 33 passes */
};

typedef struct dpt_dnn_knob {
    cudnnBackendKnobType_t type;
    int64_t value;
} dpt_dnn_knob;

struct dpt_cuda_recipe {
    int64_t engine; /* cuDNN's number, which is the same for every graph of this pass */
    size_t n_knobs;
    dpt_dnn_knob knobs[DPT_DNN_MAX_KNOBS];
};

/* The offers of heuristics for a convolution of an example's number of samples. */
typedef struct dpt_dnn_list {
    size_t key[DPT_DNN_KEY_LENGTH];
    uint64_t last_use;        /* 0: unused */
    size_t n_modes;           /* the modes in which heuristics have been asked so far */
    size_t n;                 /* recipes that suit, each once, in the order of the offers */
    dpt_cuda_recipe *recipes; /* (n) */
} dpt_dnn_list;

/* Used by the driver thread alone. */
struct dpt_cuda_dnn {
    cudnnHandle_t handle;
    char description[40];
    uint64_t n_uses;
    dpt_dnn_list lists[DPT_DNN_LISTS_KEPT]; /* those that were used last */
};

/* Frees the lists. */
void dpt_dnn_lists_clear(dpt_cuda_dnn *dnn);

/* Records a failed call of cuDNN and returns the status: DPT_E_UNSUPPORTED for what cuDNN refuses,
   DPT_E_NO_MEMORY, DPT_E_DEVICE, or what earlier work has made of the card's context. */
dpt_status dpt_cuda_dnn_fail(dpt_device *device, cudnnStatus_t code, const char *what, int line);

#define DPT_CUDNN_TRY(device, name, ...)                                                           \
    do {                                                                                           \
        const cudnnStatus_t dpt_cudnn_code = dpt_cudnn.name(__VA_ARGS__);                          \
        if (dpt_cudnn_code != CUDNN_STATUS_SUCCESS)                                                \
            return dpt_cuda_dnn_fail((device), dpt_cudnn_code, #name, __LINE__);                   \
    } while (0)

/* ---- Descriptors ----------------------------------------------------------------------------- */

/* Makes descriptors.  After a failure all following calls do nothing, and dpt_dnn_finish returns
   the failure, so the calls need no checks.  The caller destroys every descriptor with
   dpt_dnn_drop, also after a failure. */
typedef struct dpt_dnn_maker {
    dpt_device *device;
    cudnnStatus_t code;
} dpt_dnn_maker;

typedef cudnnBackendDescriptor_t dpt_dnn_descriptor;

/* NULL after a failure. */
dpt_dnn_descriptor dpt_dnn_create(dpt_dnn_maker *maker, cudnnBackendDescriptorType_t type);

/* The n values of an attribute that is set. */
typedef struct dpt_dnn_attribute {
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    size_t n;
    const void *values;
} dpt_dnn_attribute;

void dpt_dnn_set(dpt_dnn_maker *maker, dpt_dnn_descriptor descriptor,
                 const dpt_dnn_attribute *attribute);
void dpt_dnn_set_integer(dpt_dnn_maker *maker, dpt_dnn_descriptor descriptor,
                         cudnnBackendAttributeName_t name, int64_t value);
void dpt_dnn_set_descriptor(dpt_dnn_maker *maker, dpt_dnn_descriptor descriptor,
                            cudnnBackendAttributeName_t name, dpt_dnn_descriptor value);
/* Sets the device's handle, which older versions of cuDNN need and newer ones ignore. */
void dpt_dnn_set_handle(dpt_dnn_maker *maker, dpt_dnn_descriptor descriptor, int name);

/* An attribute that is read, and the memory for its values. */
typedef struct dpt_dnn_read {
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    int64_t *n; /* at the call, the values that fit; after it, the values that there are */
    void *values;
} dpt_dnn_read;

void dpt_dnn_get(dpt_dnn_maker *maker, dpt_dnn_descriptor descriptor, const dpt_dnn_read *read);
void dpt_dnn_finalize(dpt_dnn_maker *maker, dpt_dnn_descriptor descriptor);
void dpt_dnn_drop(dpt_dnn_descriptor descriptor); /* accepts NULL */
/* DPT_OK, or the first failure, which is recorded.  DPT_E_DEVICE becomes DPT_E_UNSUPPORTED, because
   cuDNN also reports an internal error when it has no plan. */
DPT_CHECK_RESULT dpt_status dpt_dnn_finish(const dpt_dnn_maker *maker, const char *what);

/* ---- Graphs ---------------------------------------------------------------------------------- */

/* The identifiers of a graph's tensors when it runs. */
enum { DPT_DNN_UID_X = 1, DPT_DNN_UID_W, DPT_DNN_UID_Y, DPT_DNN_UID_BIAS };

/* The descriptors of a convolution for n samples; unused ones are NULL. */
typedef struct dpt_dnn_graph {
    cudnnDataType_t type;
    dpt_dnn_descriptor x, w, y, conv2d, operation, graph;
    dpt_dnn_descriptor bias, product, sum, add, addition, relu, activation; /* bias and ReLU */
} dpt_dnn_graph;

/* Makes the descriptors; the maker keeps a failure.  dpt_dnn_graph_drop in any case. */
void dpt_dnn_graph_make(dpt_dnn_maker *maker, const dpt_cuda_convolution *convolution, size_t n,
                        dpt_dnn_graph *out);
void dpt_dnn_graph_drop(dpt_dnn_graph *graph);

/* Attributes that newer headers have deprecated and older versions need. */
enum { DPT_DNN_GRAPH_HANDLE = 800, DPT_DNN_PLAN_HANDLE = 400 };

#endif
