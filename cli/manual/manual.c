/* dptrain manual: writes man1/ with the pages, and bash/, zsh/ and fish/ with the completions
   (manual.h). */
#include "manual.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

/* ---- Arguments ------------------------------------------------------------------------------- */

static bool is(const cli_option *option, const char *name)
{
    return strcmp(option->name, name) == 0;
}

cli_offer cli_offer_of(const cli_option *option)
{
    if (!option->argument) return CLI_OFFER_NONE;
    if (option->values || option->offers) return CLI_OFFER_WORDS;
    if (is(option, "model")) return CLI_OFFER_MODELS;
    if (is(option, "devices")) return CLI_OFFER_DEVICES;
    if (strstr(option->argument, "FILE") || strstr(option->argument, "PATH"))
        return CLI_OFFER_FILES;
    return strstr(option->argument, "DIR") ? CLI_OFFER_FOLDERS : CLI_OFFER_NONE;
}

/* Writes a word.  Of one with a pattern, such as gpt:LAYERS:HEADS, only the beginning. */
static void write_word(FILE *out, const char *word, const char *colon)
{
    for (; *word; word++) {
        if (*word == ':') {
            fputs(colon, out);
            if (isupper((unsigned char)word[1])) return;
        } else {
            putc(*word, out);
        }
    }
}

void cli_write_words(FILE *out, const cli_option *option, const char *colon)
{
    const char *const *words = option->values ? option->values : option->offers;
    const bool models = cli_offer_of(option) == CLI_OFFER_MODELS;
    const char *const *lists[] = {models ? dpt_model_names() : words,
                                  models ? dpt_text_model_names() : NULL};
    const char *separator = "";
    for (size_t i = 0; i < 2; i++)
        for (const char *const *word = lists[i]; word && *word; word++) {
            fputs(separator, out);
            write_word(out, *word, colon);
            separator = " ";
        }
}

cli_offer cli_operands_of(const cli_verb_entry *verb, const char **words)
{
    *words = "mix allreduce";
    if (!verb->operands) return CLI_OFFER_NONE;
    return verb->verb == CLI_BENCH ? CLI_OFFER_WORDS : CLI_OFFER_FILES;
}

void cli_write_brief(FILE *out, const char *text, const char *escaped)
{
    static const char *const ends[] = {". ", "; ", ": ", " (", NULL};
    enum { LEAST = 8, MOST = 76 };
    const char *end = text + strlen(text);
    for (const char *const *e = ends; *e; e++) {
        const char *found = strstr(text, *e);
        if (found && found > text + LEAST && found < end) end = found;
    }
    const bool cut = end > text + MOST;
    for (end = cut ? text + MOST : end; cut && *end != ' ';)
        end--;
    for (const char *c = text; c < end; c++) {
        if (strchr(escaped, *c)) putc('\\', out);
        fputs(*c == '\'' ? "'\\''" : (char[]){*c, '\0'}, out);
    }
    if (cut) fputs(" ...", out);
}

/* ---- Files ----------------------------------------------------------------------------------- */

static int cannot(const char *path)
{
    return cli_error(CLI_FAILURE, "cannot write %s: %s", path, strerror(errno));
}

/* Opens FOLDER/PART/NAME, and makes FOLDER/PART if it is not there.  NULL after a message. */
static FILE *begin(const char *folder, const char *part, const char *name, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/%s", folder, part);
    if (mkdir(path, 0777) != 0 && errno != EEXIST) {
        (void)cannot(path);
        return NULL;
    }
    snprintf(path, PATH_MAX, "%s/%s/%s", folder, part, name);
    FILE *out = fopen(path, "w");
    if (!out) (void)cannot(path);
    return out;
}

static int end(FILE *out, const char *path)
{
    const bool failed = ferror(out) != 0;
    return fclose(out) != 0 || failed ? cannot(path) : CLI_OK;
}

/* The page of a command; NULL: of dptrain. */
static int write_page(const char *folder, const cli_verb_entry *verb)
{
    char path[PATH_MAX], name[64];
    snprintf(name, sizeof name, "dptrain%s%s.1", verb ? "-" : "", verb ? verb->name : "");
    FILE *out = begin(folder, "man1", name, path);
    if (!out) return CLI_FAILURE;
    cli_write_page(out, verb);
    return end(out, path);
}

int cli_manual(const cli_options *options)
{
    static const struct {
        const char *part, *name;
        void (*write)(FILE *out);
    } shells[] = {
        {"bash", "dptrain", cli_write_bash},
        {"zsh", "_dptrain", cli_write_zsh},
        {"fish", "dptrain.fish", cli_write_fish},
    };
    char path[PATH_MAX];
    if (options->n_operands != 1)
        return cli_error(CLI_USAGE, "manual writes to one directory: dptrain manual DIR");
    const char *folder = options->operands[0];
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) return cannot(folder);
    int code = write_page(folder, NULL);
    for (const cli_verb_entry *v = cli_verbs; v->name && code == CLI_OK; v++)
        if (v->verb && !v->hidden) code = write_page(folder, v);
    for (size_t i = 0; i < sizeof shells / sizeof *shells && code == CLI_OK; i++) {
        FILE *out = begin(folder, shells[i].part, shells[i].name, path);
        if (!out) return CLI_FAILURE;
        shells[i].write(out);
        code = end(out, path);
    }
    return code;
}
