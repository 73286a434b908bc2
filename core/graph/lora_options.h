/* What a model's adapters are (dptrain/lora.h). */
#ifndef DPTI_LORA_OPTIONS_H
#define DPTI_LORA_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

enum { DPTI_LORA_NAMES = 64 }; /* most names of layers */

typedef struct dpti_lora {
    size_t rank;
    double alpha;
    char *layers, *base; /* base may be NULL */
    bool is_default;     /* layers: the default ones */
    bool in_first;       /* a layer's weight is (in, out) in checkpoints */
    bool matched[DPTI_LORA_NAMES];
    size_t n_adapted;
} dpti_lora;

void dpti_lora_free(dpti_lora *lora); /* accepts NULL */
/* Returns the name of length *length at *list, and moves *list behind it; NULL: there is none. */
const char *dpti_lora_next_name(const char **list, size_t *length);

#endif
