/* The small ONNX files of tests/onnx, which make_models.py writes. */
#ifndef DPT_TEST_ONNX_FILES_H
#define DPT_TEST_ONNX_FILES_H

#include "harness.h"
#include "onnx/infer.h"
#include "onnx/reader.h"

#include <stdlib.h>
#include <string.h>

enum { ONNX_PATH_BYTES = 4096 };

/* The path of a file, as "good/linear.onnx": below $SRC/tests/onnx, else beside this header. */
static inline const char *onnx_path(const char *name, char path[ONNX_PATH_BYTES])
{
    const char *source = getenv("SRC"), *slash = strrchr(__FILE__, '/');
    if (source)
        snprintf(path, ONNX_PATH_BYTES, "%s/tests/onnx/%s", source, name);
    else
        snprintf(path, ONNX_PATH_BYTES, "%.*s/../onnx/%s", slash ? (int)(slash - __FILE__) : 1,
                 slash ? __FILE__ : ".", name);
    return path;
}

/* Reads the float32 numbers of a file, as "trained/mlp.f32", at most `most` of them; returns how
   many there are. */
static inline size_t onnx_floats(const char *name, float *out, size_t most)
{
    char path[ONNX_PATH_BYTES];
    FILE *file = fopen(onnx_path(name, path), "rb");
    const size_t n = file ? fread(out, sizeof *out, most, file) : 0;
    if (file) fclose(file);
    return n;
}

/* Opens a file that must be good; NULL after a noted failure. */
static inline dpti_onnx_model *onnx_open(test *t, const char *name)
{
    char path[ONNX_PATH_BYTES];
    dpt_error error = {.status = DPT_OK};
    dpti_onnx_model *model = NULL;
    if (!CHECK_OK(dpti_onnx_open(onnx_path(name, path), NULL, &model, &error)))
        FAIL("%s", error.message);
    return model;
}

/* The number of a value; DPTI_ONNX_NONE if there is none of this name. */
static inline size_t onnx_value(const dpti_onnx_model *model, const char *name)
{
    for (size_t i = 0; i < model->n_values; i++)
        if (strcmp(model->values[i].name, name) == 0) return i;
    return DPTI_ONNX_NONE;
}

#endif
