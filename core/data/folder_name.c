/* The names of data sets of pictures: "folder:HxW[xC]" and "pictures:HxW[xC]", and words behind
   them. */
#include "data/data.h"

#include "base/parse.h"
#include "base/print.h"

#include <stdio.h>
#include <string.h>

static const char folder[] = "folder:", table[] = "pictures:", unoriented[] = "no-orientation",
                  depth[] = "depth=";

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

/* Takes a word of n characters.  Returns false if it is none, or is there for the second time. */
static bool take_word(const char *word, size_t n, dpti_folder_spec *spec)
{
    const size_t n_depth = sizeof depth - 1;
    const struct {
        const char *word;
        bool *field;
    } words[] = {
        {"stream", &spec->streamed},
        {"skip-unreadable", &spec->skips},
        {unoriented, &spec->shape.unoriented},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strlen(words[i].word) != n || strncmp(word, words[i].word, n) != 0) continue;
        const bool first = !*words[i].field;
        *words[i].field = true;
        return first;
    }
    return !spec->is_table && spec->depth == 0 && n > n_depth &&
           strncmp(word, depth, n_depth) == 0 &&
           parse_extent(word + n_depth, n - n_depth, DPTI_MAX_DEPTH, &spec->depth);
}

/* Reads the words behind the size, each of which begins with a colon and is there at most once.  Of
   a table the first other word begins the rest. */
static bool parse_words(const char *text, dpti_folder_spec *spec)
{
    while (*text == ':') {
        const size_t n = strcspn(++text, ":");
        if (!take_word(text, n, spec)) {
            spec->table = spec->is_table && *text ? text : NULL;
            return spec->table != NULL;
        }
        text += n;
    }
    return *text == '\0' && !spec->is_table;
}

static dpt_status fail_form(const char *spec, bool is_table, dpt_error *error)
{
    if (is_table)
        return DPT_FAIL(error, DPT_E_INVALID,
                        "%s: write pictures:HxW:FILE.csv:PATH:LABEL, as in "
                        "pictures:64x64:train.csv:file:breed, where PATH and LABEL are columns, or "
                        "pictures:HxW:LIST.txt for lines of a path and a label; H and W are 1 to "
                        "%d",
                        spec, MAX_EXTENT);
    return DPT_FAIL(error, DPT_E_INVALID,
                    "%s: write folder:HxW, as in folder:64x64, or folder:HxWx1 for grey images, "
                    "and :stream behind it if they are to be read as they are needed, "
                    ":no-orientation, :skip-unreadable, or :depth=2 if the folders of the classes "
                    "lie in others; H and W are 1 to %d",
                    spec, MAX_EXTENT);
}

dpt_status dpti_folder_parse(const char *spec, dpti_folder_spec *out, dpt_error *error)
{
    dpti_folder_spec request = {.shape = {.channels = 3, .scaled = true}};
    size_t *const extents[] = {&request.shape.height, &request.shape.width,
                               &request.shape.channels};
    request.is_table = strncmp(spec, table, sizeof table - 2) == 0;
    const char *kind = request.is_table ? table : folder;
    const char *text = spec + strlen(kind) - 1;
    size_t n = 0;
    bool right = strncmp(spec, kind, strlen(kind)) == 0;
    while (right && n < 3 && (n == 0 || *text == 'x')) {
        const size_t digits = strcspn(++text, "x:");
        right = parse_extent(text, digits, MAX_EXTENT, extents[n++]);
        text += digits;
    }
    const size_t channels = request.shape.channels;
    if (!right || n < 2 || (channels != 1 && channels != 3) || !parse_words(text, &request))
        return fail_form(spec, request.is_table, error);
    if (request.depth == 0) request.depth = 1;
    *out = request;
    return DPT_OK;
}

char *dpti_folder_name(const dpti_folder_spec *spec)
{
    char words[32] = "";
    if (spec->depth > 1) snprintf(words, sizeof words, ":%s%zu", depth, spec->depth);
    return dpti_format("%s%zux%zu%s%s%s%s", spec->is_table ? table : folder, spec->shape.height,
                       spec->shape.width, spec->shape.channels == 1 ? "x1" : "", words,
                       spec->shape.unoriented ? ":" : "", spec->shape.unoriented ? unoriented : "");
}
