/* Element types, and the attributes of a node. */
#include "onnx/model.h"

#include <string.h>

static const struct {
    const char *name;
    size_t n_bytes;
} types[] = {
    [DPTI_ONNX_FLOAT] = {"float32", 4},     [DPTI_ONNX_UINT8] = {"uint8", 1},
    [DPTI_ONNX_INT8] = {"int8", 1},         [DPTI_ONNX_UINT16] = {"uint16", 2},
    [DPTI_ONNX_INT16] = {"int16", 2},       [DPTI_ONNX_INT32] = {"int32", 4},
    [DPTI_ONNX_INT64] = {"int64", 8},       [DPTI_ONNX_BOOL] = {"bool", 1},
    [DPTI_ONNX_FLOAT16] = {"float16", 2},   [DPTI_ONNX_DOUBLE] = {"float64", 8},
    [DPTI_ONNX_UINT32] = {"uint32", 4},     [DPTI_ONNX_UINT64] = {"uint64", 8},
    [DPTI_ONNX_BFLOAT16] = {"bfloat16", 2},
};

static bool known(int64_t type)
{
    return type >= 0 && type < (int64_t)(sizeof types / sizeof *types) && types[type].name;
}

size_t dpti_onnx_type_bytes(int64_t type)
{
    return known(type) ? types[type].n_bytes : 0;
}

const char *dpti_onnx_type_name(int64_t type)
{
    return known(type) ? types[type].name : "unknown type";
}

bool dpti_onnx_type_is_real(dpti_onnx_type type)
{
    return type == DPTI_ONNX_FLOAT || type == DPTI_ONNX_DOUBLE || type == DPTI_ONNX_FLOAT16 ||
           type == DPTI_ONNX_BFLOAT16;
}

const dpti_onnx_attribute *dpti_onnx_find(const dpti_onnx_node *node, const char *name)
{
    for (size_t i = 0; i < node->n_attributes; i++)
        if (strcmp(node->attributes[i].name, name) == 0) return &node->attributes[i];
    return NULL;
}

static const dpti_onnx_attribute *find_kind(const dpti_onnx_node *node, const char *name,
                                            dpti_onnx_attribute_kind kind)
{
    const dpti_onnx_attribute *found = dpti_onnx_find(node, name);
    return found && found->kind == kind ? found : NULL;
}

int64_t dpti_onnx_int(const dpti_onnx_node *node, const char *name, int64_t otherwise)
{
    const dpti_onnx_attribute *found = find_kind(node, name, DPTI_ONNX_ATTRIBUTE_INT);
    return found ? found->i : otherwise;
}

float dpti_onnx_float(const dpti_onnx_node *node, const char *name, float otherwise)
{
    const dpti_onnx_attribute *found = find_kind(node, name, DPTI_ONNX_ATTRIBUTE_FLOAT);
    return found ? found->f : otherwise;
}

const char *dpti_onnx_string(const dpti_onnx_node *node, const char *name, const char *otherwise)
{
    const dpti_onnx_attribute *found = find_kind(node, name, DPTI_ONNX_ATTRIBUTE_STRING);
    return found ? found->s : otherwise;
}

const int64_t *dpti_onnx_ints(const dpti_onnx_node *node, const char *name, size_t *n)
{
    const dpti_onnx_attribute *found = find_kind(node, name, DPTI_ONNX_ATTRIBUTE_INTS);
    *n = found ? found->n : 0;
    return found ? found->ints : NULL;
}
