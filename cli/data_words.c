/* The names of data sets, and the words that options put behind them. */
#include "session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char labels_from[] = ":labels-from=", depth[] = ":depth=";

static bool is_kind(const char *name, const char *kind)
{
    const size_t n = strlen(kind);
    return strncmp(name, kind, n) == 0 && (name[n] == ':' || name[n] == '\0');
}

/* Moves *at behind a word, and the characters of `rest` behind it, if the word begins there. */
static void skip_word(const char **at, const char *word, const char *rest)
{
    const size_t n = strlen(word);
    if (strncmp(*at, word, n) == 0) *at += n + strspn(*at + n, rest);
}

static bool is_pictures(const char *name)
{
    return is_kind(name, "folder") || is_kind(name, "pictures");
}

bool cli_is_folder(const char *name)
{
    static const char digits[] = "0123456789";
    const char *at = strchr(name, ':');
    if (!is_pictures(name) || !at) return false;
    skip_word(&at, ":", "0123456789x");
    skip_word(&at, depth, digits);
    skip_word(&at, CLI_NO_ORIENTATION, "");
    skip_word(&at, labels_from, digits);
    return *at == '\0';
}

bool cli_is_arrays(const char *name)
{
    return is_kind(name, "npz") || is_kind(name, "npy") || is_kind(name, "csv");
}

bool cli_has_test_files(const char *name)
{
    return cli_is_arrays(name) || is_kind(name, "pictures");
}

bool cli_is_named_set(const char *name)
{
    const char *words = strstr(name, labels_from);
    const size_t n = words ? (size_t)(words - name) : strlen(name);
    for (const char *const *known = cli_data_sets; *known; known++)
        if (strlen(*known) == n && strncmp(*known, name, n) == 0)
            return n > 0 && name[n - 1] != ':';
    return false;
}

size_t cli_labels_from(const char *name)
{
    size_t first = 0;
    const char *words = strstr(name, labels_from);
    if (!words || !cli_parse_count(words + sizeof labels_from - 1, 1, CLI_MOST_LABEL, &first))
        return 0;
    return first;
}

/* The label that becomes class 0: that of the option, or the one of the weights if they were
   trained on data of the same kind. */
static size_t first_label(const cli_data_name *from)
{
    const size_t length = strcspn(from->name, ":");
    const bool same = strncmp(from->name, from->trained_on, length) == 0 &&
                      (from->trained_on[length] == ':' || from->trained_on[length] == '\0');
    if (from->options->labels_from) return from->options->labels_from;
    return same && !cli_labels_from(from->name) ? cli_labels_from(from->trained_on) : 0;
}

/* Returns the bytes of a name before the words of pictures: all of a folder's, and those before the
   table, which is behind the words. */
static size_t before_words(const char *name)
{
    if (!is_kind(name, "pictures")) return strlen(name);
    const char *size = strchr(name, ':');
    return size ? (size_t)(size - name) + 1 + strcspn(size + 1, ":") : strlen(name);
}

bool cli_data_words(const cli_data_name *from, char *out, size_t out_bytes, const char **why)
{
    const cli_options *o = from->options;
    const char *name = from->name;
    const bool pictures = is_pictures(name);
    const bool turned = o->no_orientation && !strstr(name, CLI_NO_ORIENTATION);
    const bool skips = o->skip_unreadable && !strstr(name, CLI_SKIP_UNREADABLE);
    const size_t first = first_label(from), before = before_words(name);
    char words[64] = "";
    if (first > 0) snprintf(words, sizeof words, "%s%zu", labels_from, first);
    const int n = snprintf(out, out_bytes, "%.*s%s%s%s%s", (int)before, name,
                           pictures && turned ? CLI_NO_ORIENTATION : "",
                           pictures && skips ? CLI_SKIP_UNREADABLE : "", name + before, words);
    *why = NULL;
    if (!pictures && (turned || skips))
        *why = "--no-orientation and --skip-unreadable are for pictures in folders (--dataset "
               "folder:HxW) and tables of pictures";
    else if (first > 0 && cli_labels_from(name))
        *why = "--labels-from: the name of the data set says already at which label it begins";
    else if (n < 0 || (size_t)n >= out_bytes)
        *why = "the name of the data set is too long";
    return !*why;
}
