/* The data set "synthetic:HxWxC:CLASSES:COUNT": images that are computed from their index.  Every
   class has a coarse pattern of random grey cells.  A sample is half the pattern of its class and
   half noise. */
#include "data/data.h"

#include "base/memory.h"
#include "base/parse.h"
#include "base/random.h"
#include "base/size.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_EXTENT = 4096,
    MAX_COUNT = INT32_MAX,
    MAX_CELLS = 7, /* cells of the pattern per side: coarse enough to survive pooling */
    TEST_PART = 6, /* training samples per test sample, as in MNIST */
};

/* Seeds: patterns are common to both parts, noise is not. */
enum { SEED_PATTERN = 1, SEED_TRAIN = 2, SEED_TEST = 3 };

typedef dpti_synthetic_shape shape;

/* ---- Parsing --------------------------------------------------------------------------------- */

/* Reads a number from the text up to the separator, which must be there ('\0': the end). */
static bool take_field(const char **text, char separator, char *field, size_t n_field)
{
    const size_t length = strcspn(*text, "x:");
    if ((*text)[length] != separator || length >= n_field) return false;
    memcpy(field, *text, length);
    field[length] = '\0';
    *text += length + (separator != '\0');
    return true;
}

dpt_status dpti_synthetic_parse(const char *spec, shape *out, dpt_error *error)
{
    static const char prefix[] = "synthetic:";
    shape s = {0};
    const struct {
        const char *name;
        char separator;
        size_t min, max;
        size_t *value;
    } fields[] = {
        {.name = "H", .separator = 'x', .min = 1, .max = MAX_EXTENT, .value = &s.height},
        {.name = "W", .separator = 'x', .min = 1, .max = MAX_EXTENT, .value = &s.width},
        {.name = "C", .separator = ':', .min = 1, .max = MAX_EXTENT, .value = &s.channels},
        {.name = "CLASSES",
         .separator = ':',
         .min = 2,
         .max = DPTI_MAX_CLASSES,
         .value = &s.classes},
        {.name = "COUNT", .separator = '\0', .min = 1, .max = MAX_COUNT, .value = &s.count},
    };
    const bool prefixed = strncmp(spec, prefix, sizeof prefix - 1) == 0;
    const char *text = prefixed ? spec + sizeof prefix - 1 : "";
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        char field[24];
        if (!take_field(&text, fields[i].separator, field, sizeof field))
            return DPT_FAIL(error, DPT_E_INVALID,
                            "%s: write synthetic:HxWxC:CLASSES:COUNT, as in "
                            "synthetic:28x28x1:10:60000",
                            spec);
        if (!dpti_parse_size(field, fields[i].min, fields[i].max, fields[i].value))
            return DPT_FAIL(error, DPT_E_INVALID, "%s: %s is '%s', it must be %zu to %zu", spec,
                            fields[i].name, field, fields[i].min, fields[i].max);
    }
    *out = s;
    return DPT_OK;
}

/* ---- Making ---------------------------------------------------------------------------------- */

/* The pattern of a class at half brightness: up to 7 x 7 cells of one random byte a channel.
   `cells` is room for MAX_CELLS * MAX_CELLS * channels bytes. */
static void make_pattern(const shape *s, size_t label, uint8_t *cells, uint8_t *pattern)
{
    const size_t n_cells = MAX_CELLS * MAX_CELLS * s->channels;
    const size_t cells_h = s->height < MAX_CELLS ? s->height : MAX_CELLS;
    const size_t cells_w = s->width < MAX_CELLS ? s->width : MAX_CELLS;
    const uint32_t key[2] = {SEED_PATTERN, 0};
    for (size_t i = 0; i < n_cells; i++) {
        const uint32_t counter[4] = {(uint32_t)i, DPTI_RANDOM_DATA, (uint32_t)label, 0};
        uint32_t block[4];
        dpti_philox(counter, key, block);
        cells[i] = (uint8_t)(block[0] >> 25);
    }
    for (size_t y = 0; y < s->height; y++) {
        for (size_t x = 0; x < s->width; x++) {
            const size_t cell = y * cells_h / s->height * MAX_CELLS + x * cells_w / s->width;
            memcpy(pattern, cells + cell * s->channels, s->channels);
            pattern += s->channels;
        }
    }
}

/* What the samples are made of. */
typedef struct recipe {
    const char *spec;
    shape shape;
    uint32_t seed;
    size_t sample_bytes;
} recipe;

/* image = pattern + noise, both 0 .. 127.  A block of Philox gives 16 bytes of noise. */
static void make_sample(const recipe *r, const uint8_t *pattern, size_t sample, uint8_t *image)
{
    const size_t n_bytes = r->sample_bytes;
    const uint32_t key[2] = {r->seed, 0};
    uint32_t counter[4] = {0, DPTI_RANDOM_DATA, (uint32_t)sample, 0};
    for (size_t i = 0; i < n_bytes; i += 16, counter[0]++) {
        uint32_t block[4];
        dpti_philox(counter, key, block);
        uint8_t noise[16];
        for (unsigned b = 0; b < 16; b++)
            noise[b] = (uint8_t)(block[b / 4] >> (8 * (b % 4)));
        const size_t n = n_bytes - i < 16 ? n_bytes - i : 16;
        for (size_t b = 0; b < n; b++)
            image[i + b] = (uint8_t)(pattern[i + b] + (noise[b] >> 1));
    }
}

/* Computes the bytes of a sample and of all images.  Errors: DPT_E_NO_MEMORY if this machine cannot
 * hold them. */
static dpt_status measure(recipe *r, size_t *total, dpt_error *error)
{
    const shape *s = &r->shape;
    const size_t memory = dpti_machine_memory();
    size_t n = 0, all = 0;
    const bool fits = dpti_multiply(s->height * s->width, s->channels, &n) &&
                      dpti_multiply(n, s->count, total) && dpti_add(*total, s->count, &all) &&
                      all <= memory;
    if (!fits)
        return DPT_FAIL(error, DPT_E_NO_MEMORY,
                        "%s: %zu images of %zu bytes do not fit into this machine's memory (%.1f "
                        "GiB); ask for fewer",
                        r->spec, s->count, n, (double)memory * 0x1p-30);
    r->sample_bytes = n;
    return DPT_OK;
}

static dpt_status fill(const recipe *r, dpt_dataset *out, dpt_error *error)
{
    const shape *s = &r->shape;
    const size_t sample = r->sample_bytes;
    const size_t n_cells = MAX_CELLS * MAX_CELLS * s->channels;
    uint8_t *cells = malloc(n_cells + sample);
    if (!cells) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for %s", r->spec);
    uint8_t *pattern = cells + n_cells;
    /* One class after the other, so that only one pattern is in memory. */
    for (size_t label = 0; label < s->classes && label < s->count; label++) {
        make_pattern(s, label, cells, pattern);
        for (size_t i = label; i < s->count; i += s->classes) {
            make_sample(r, pattern, i, (uint8_t *)out->images + i * sample);
            out->labels[i] = (int32_t)label;
        }
    }
    free(cells);
    return DPT_OK;
}

dpt_status dpti_synthetic_create(const char *spec, dpt_part part, dpt_dataset **out,
                                 dpt_error *error)
{
    recipe r = {.spec = spec, .seed = part == DPT_TRAIN ? SEED_TRAIN : SEED_TEST};
    shape *s = &r.shape;
    size_t total = 0;
    DPT_TRY(dpti_synthetic_parse(spec, s, error));
    if (part == DPT_TEST) {
        const size_t sixth = s->count / TEST_PART;
        const size_t wanted = sixth > s->classes ? sixth : s->classes;
        s->count = wanted < s->count ? wanted : s->count;
    }
    DPT_TRY(measure(&r, &total, error));

    dpt_dataset *data = dpti_dataset_allocate();
    if (!data) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for %s", spec);
    *data = (dpt_dataset){
        .serial = data->serial,
        .name = dpti_strdup(spec),
        .source = dpti_strdup("synthetic"),
        .count = s->count,
        .n_records = s->count,
        .height = s->height,
        .width = s->width,
        .channels = s->channels,
        .classes = s->classes,
        .dtype = DPT_U8,
        .images = dpti_alloc_aligned(total),
        .labels = dpti_alloc_aligned(s->count * sizeof *data->labels),
        .stat_channels = 1,
        .scale = {1.0f / 255.0f},
    };
    dpt_status status = DPT_OK;
    if (!data->name || !data->source || !data->images || !data->labels)
        status = DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for %s", spec);
    if (status == DPT_OK) status = fill(&r, data, error);
    if (status == DPT_OK)
        *out = data;
    else
        dpt_dataset_destroy(data);
    return status;
}
