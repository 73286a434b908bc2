/* Convolutions for CPUs: tiles of registers, groups of one work item. */
#include "conv2d.h"

const dpt_cl_alternative dpt_cl_conv2d_registers[] = {{.name = NULL}};
