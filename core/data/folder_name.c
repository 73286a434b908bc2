/* The names of data sets that are folders of pictures: "folder:HxW[xC]", and words behind it. */
#include "data/data.h"

#include "base/parse.h"
#include "base/print.h"

#include <string.h>

static const char kind[] = "folder", unoriented[] = "no-orientation";

enum { MAX_EXTENT = 4096 };

/* Parses the first `length` characters of the text, which must be a number. */
static bool parse_extent(const char *text, size_t length, size_t max, size_t *out)
{
    char field[8];
    if (length >= sizeof field) return false;
    memcpy(field, text, length);
    field[length] = '\0';
    return dpti_parse_size(field, 1, max, out);
}

/* Reads the words behind the size, each of which begins with a colon and is there at most once. */
static bool parse_words(const char *text, dpti_folder_spec *spec)
{
    const struct {
        const char *word;
        bool *field;
    } words[] = {
        {"stream", &spec->streamed},
        {"skip-unreadable", &spec->skips},
        {unoriented, &spec->shape.unoriented},
    };
    while (*text == ':') {
        const size_t n = strcspn(++text, ":");
        bool known = false;
        for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
            if (strlen(words[i].word) != n || strncmp(text, words[i].word, n) != 0) continue;
            known = !*words[i].field;
            *words[i].field = true;
        }
        if (!known) return false;
        text += n;
    }
    return *text == '\0';
}

dpt_status dpti_folder_parse(const char *spec, dpti_folder_spec *out, dpt_error *error)
{
    dpti_folder_spec request = {.shape = {.channels = 3, .scaled = true}};
    size_t *const extents[] = {&request.shape.height, &request.shape.width,
                               &request.shape.channels};
    const char *text = spec + sizeof kind - 1;
    size_t n = 0;
    bool right = strncmp(spec, kind, sizeof kind - 1) == 0 && *text == ':';
    while (right && n < 3 && (n == 0 || *text == 'x')) {
        const size_t digits = strcspn(++text, "x:");
        right = parse_extent(text, digits, MAX_EXTENT, extents[n++]);
        text += digits;
    }
    const size_t channels = request.shape.channels;
    if (!right || n < 2 || (channels != 1 && channels != 3) || !parse_words(text, &request))
        return DPT_FAIL(
            error, DPT_E_INVALID,
            "%s: write folder:HxW, as in folder:64x64, or folder:HxWx1 for grey images, "
            "and :stream behind it if they are to be read as they are needed, :no-orientation or "
            ":skip-unreadable; H and W are 1 to %d",
            spec, MAX_EXTENT);
    *out = request;
    return DPT_OK;
}

char *dpti_folder_name(const dpt_picture_shape *shape)
{
    return dpti_format("%s:%zux%zu%s%s%s", kind, shape->height, shape->width,
                       shape->channels == 1 ? "x1" : "", shape->unoriented ? ":" : "",
                       shape->unoriented ? unoriented : "");
}
