/* The names of data sets, and the words that options put behind them. */
#include "session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char labels_from[] = ":labels-from=";

static bool is_kind(const char *name, const char *kind)
{
    const size_t n = strlen(kind);
    return strncmp(name, kind, n) == 0 && (name[n] == ':' || name[n] == '\0');
}

bool cli_is_folder(const char *name)
{
    static const char prefix[] = "folder:";
    const size_t n = sizeof prefix - 1;
    if (strncmp(name, prefix, n) != 0) return false;
    const char *behind = name + n + strspn(name + n, "0123456789x");
    return *behind == '\0' || strcmp(behind, CLI_NO_ORIENTATION) == 0;
}

bool cli_is_arrays(const char *name)
{
    return is_kind(name, "npz") || is_kind(name, "npy") || is_kind(name, "csv");
}

bool cli_is_named_set(const char *name)
{
    static const char *const names[] = {"fashion-mnist",
                                        "mnist",
                                        "kmnist",
                                        "emnist:byclass",
                                        "emnist:bymerge",
                                        "emnist:balanced",
                                        "emnist:letters",
                                        "emnist:digits",
                                        "emnist:mnist",
                                        "cifar10",
                                        "cifar100",
                                        "cifar100:coarse",
                                        "idx",
                                        NULL};
    const char *words = strstr(name, labels_from);
    const size_t n = words ? (size_t)(words - name) : strlen(name);
    for (size_t i = 0; names[i]; i++)
        if (strlen(names[i]) == n && strncmp(names[i], name, n) == 0) return true;
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

/* Whether the labels of a data set are numbers of a file. */
static bool has_numbers(const char *name)
{
    return cli_is_arrays(name) || cli_is_named_set(name);
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

bool cli_data_words(const cli_data_name *from, char *out, size_t out_bytes, const char **why)
{
    const cli_options *o = from->options;
    const char *name = from->name;
    const bool folder = is_kind(name, "folder");
    const bool turned = o->no_orientation && !strstr(name, CLI_NO_ORIENTATION);
    const bool skips = o->skip_unreadable && !strstr(name, CLI_SKIP_UNREADABLE);
    const size_t first = first_label(from);
    char words[64] = "";
    if (first > 0) snprintf(words, sizeof words, "%s%zu", labels_from, first);
    const int n =
        snprintf(out, out_bytes, "%s%s%s%s", name, folder && turned ? CLI_NO_ORIENTATION : "",
                 folder && skips ? CLI_SKIP_UNREADABLE : "", words);
    *why = NULL;
    if (!folder && (turned || skips))
        *why = "--no-orientation and --skip-unreadable are for pictures in folders (--dataset "
               "folder:HxW)";
    else if (first > 0 && cli_labels_from(name))
        *why = "--labels-from: the name of the data set says already at which label it begins";
    else if (first > 0 && !has_numbers(name))
        *why = "--labels-from is for data sets whose files have numbers as labels";
    else if (n < 0 || (size_t)n >= out_bytes)
        *why = "the name of the data set is too long";
    return !*why;
}
