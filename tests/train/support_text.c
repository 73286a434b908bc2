/* Weights and samples of language models (text.h). */
#include "train/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Number i of a sequence. */
static uint32_t hash(uint32_t seed, uint32_t i)
{
    uint32_t x = seed + i * 2654435761u;
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    return x ^ (x >> 16);
}

static uint32_t seed_of(const char *name)
{
    uint32_t seed = 2166136261u; /* FNV-1a */
    for (; *name; name++)
        seed = (seed ^ (uint8_t)*name) * 16777619u;
    return seed;
}

void make_text_weights(const dpt_parameter_info *p, float *out)
{
    const size_t n = strlen(p->name);
    const bool norm = strstr(p->name, ".ln_") || strstr(p->name, "norm");
    const double shift = norm && strcmp(p->name + n - 7, ".weight") == 0 ? 1 : 0;
    for (size_t i = 0; i < p->elements; i++) {
        const double u = (hash(seed_of(p->name), (uint32_t)i) >> 8) * 0x1p-24 - 0.5;
        out[i] = (float)((norm ? 0.4 : 0.5) * u + shift);
    }
}

void make_text_sample(size_t i, int32_t *ids, int32_t *labels)
{
    int32_t id = (int32_t)(hash(1000 + (uint32_t)i, 0) % VOCABULARY);
    for (uint32_t k = 0; k < LENGTH; k++) {
        const uint32_t h = hash(1000 + (uint32_t)i, k + 1);
        ids[k] = id;
        id = (h >> 8) % 4 == 0 ? (int32_t)(h % VOCABULARY) : (3 * id + 1) % VOCABULARY;
        labels[k] = k < i * 5 % 13 ? DPT_IGNORED_LABEL : id;
    }
}

bool read_text_golden(test *t, const char *path, size_t steps, text_golden *out)
{
    char line[256];
    size_t n_logits = 0, n_losses = 0;
    FILE *file = test_open(path);
    if (!CHECK(file)) return false;
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, "logit ", 6) == 0 && n_logits < VOCABULARY)
            out->logits[n_logits++] = strtod(line + 6, NULL);
        if (strncmp(line, "loss ", 5) == 0 && n_losses < steps)
            out->losses[n_losses++] = strtod(line + 5, NULL);
    }
    fclose(file);
    return CHECK_SIZE(n_logits, VOCABULARY) && CHECK_SIZE(n_losses, steps);
}
