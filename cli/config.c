/* --config and --save-config (config.h).  The table of options says which keys there are, and which
   type each has. */
#include "config.h"

#include "characters.h"
#include "new_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_BYTES = 1 << 20, LABEL_BYTES = 640 };

/* ---- Options in files ------------------------------------------------------------------------ */

/* Whether a file may have the option: not those of the file itself, and not --help and --version.
 */
static bool in_files(const cli_option *o)
{
    return o->help && !o->letter && o->offset != offsetof(cli_options, config) &&
           o->offset != offsetof(cli_options, save_config);
}

/* The commands that read files of settings. */
static unsigned verbs_with_files(void)
{
    const cli_option *o;
    for (size_t i = 0; (o = cli_option_at(i)) != NULL; i++)
        if (o->offset == offsetof(cli_options, config)) return o->verbs;
    return 0;
}

/* The option that a key means for one of these commands; NULL: none. */
static const cli_option *find_option(const char *key, unsigned verbs)
{
    const cli_option *o;
    for (size_t i = 0; (o = cli_option_at(i)) != NULL; i++)
        if (o->verbs & verbs && in_files(o) && strcmp(o->name, key) == 0) return o;
    return NULL;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* A file that is being read. */
typedef struct reading {
    const cli_verb_entry *verb;
    const char *path;
    const cli_toml *toml;
    cli_options *options;
} reading;

/* The command of a header; NULL after a message.  No header: the command that runs. */
static const cli_verb_entry *verb_of(const reading *r, const cli_toml_table *table)
{
    const char *names[CLI_MOST_OPTIONS], *nearest;
    char known[CLI_LIST_BYTES];
    size_t n = 0;
    if (table->line == 0) return r->verb;
    for (const cli_verb_entry *v = cli_verbs; v->name; v++) {
        if (strcmp(v->name, table->name) == 0 && v->verb & verbs_with_files()) return v;
        if (v->verb & verbs_with_files() && n + 1 < CLI_MOST_OPTIONS) names[n++] = v->name;
    }
    names[n] = NULL;
    nearest = dpt_nearest(table->name, names);
    if (nearest)
        cli_error(CLI_USAGE, "%s:%zu: unknown command [%s]; did you mean [%s]?", r->path,
                  table->line, table->name, nearest);
    else
        cli_error(CLI_USAGE,
                  "%s:%zu: unknown command [%s]; commands that have settings in files: "
                  "%s",
                  r->path, table->line, table->name, cli_join(names, known));
    return NULL;
}

static int unknown_key(const reading *r, const cli_toml_entry *entry, const cli_verb_entry *verb)
{
    const char *names[CLI_MOST_OPTIONS], *key = entry->key;
    const bool below = entry->table > 0; /* a header */
    const unsigned verbs = below ? verb->verb : verbs_with_files();
    const cli_option *o;
    size_t n = 0;
    for (size_t i = 0; (o = cli_option_at(i)) != NULL; i++) {
        if (strcmp(o->name, key) == 0 && !in_files(o))
            return cli_error(CLI_USAGE, "%s:%zu: %s belongs on the command line", r->path,
                             entry->line, key);
        if (o->verbs & verbs && in_files(o) && !o->now && n + 1 < CLI_MOST_OPTIONS)
            names[n++] = o->name;
    }
    names[n] = NULL;
    if (below && find_option(key, verbs_with_files()))
        return cli_error(CLI_USAGE, "%s:%zu: %s does not go with 'dptrain %s'", r->path,
                         entry->line, key, verb->name);
    const char *nearest = dpt_nearest(key, names);
    if (nearest)
        return cli_error(CLI_USAGE, "%s:%zu: unknown option %s; did you mean %s?", r->path,
                         entry->line, key, nearest);
    return cli_error(CLI_USAGE, "%s:%zu: unknown option %s; see 'dptrain %s --help'", r->path,
                     entry->line, key, verb->name);
}

/* What a value of the type is expected to be; NULL if the option takes it. */
static const char *wanted(const cli_option *option, cli_toml_type type)
{
    const bool number = type == CLI_TOML_WHOLE || type == CLI_TOML_REAL;
    switch (option->kind) {
    case CLI_FLAG: return type == CLI_TOML_BOOLEAN ? NULL : "true or false";
    case CLI_COUNT: return type == CLI_TOML_WHOLE ? NULL : "a whole number without quotes";
    case CLI_REAL: return number ? NULL : "a number without quotes";
    case CLI_SECONDS:
    case CLI_SPAN:
    case CLI_INTERVAL:
        return number || type == CLI_TOML_TEXT ? NULL : "a number, or a text in quotes";
    case CLI_TEXT:
    case CLI_INIT:
    case CLI_AUGMENT: break;
    }
    if (type == CLI_TOML_TEXT || (option->list && type == CLI_TOML_LIST)) return NULL;
    return option->list ? "a text in quotes, or a list of texts" : "a text in quotes";
}

/* Checks the value of an entry, and stores it in the options. */
static int take_value(const reading *r, const cli_toml_entry *entry, const cli_option *option,
                      cli_options *out)
{
    char label[LABEL_BYTES];
    snprintf(label, sizeof label, "%s:%zu: %s", r->path, entry->line, entry->key);
    const char *want = wanted(option, entry->type);
    if (want) return cli_error(CLI_USAGE, "%s takes %s", label, want);
    if (!*entry->text) return cli_error(CLI_USAGE, "%s needs a value: %s", label, option->argument);
    return cli_set_option(option, label, entry->text, out);
}

/* Takes the entries of one table.  Those that the command does not have, or that are given already,
   are checked, and stored nowhere. */
static int take_table(const reading *r, size_t table, bool ours)
{
    const cli_verb_entry *verb = verb_of(r, &r->toml->tables[table]);
    cli_options before, unused = {.operands = NULL};
    if (!verb) return CLI_USAGE;
    before = *r->options; /* an option and its older name do not hide each other */
    for (size_t i = 0; i < r->toml->n_entries; i++) {
        const cli_toml_entry *entry = &r->toml->entries[i];
        if (entry->table != table) continue;
        const cli_option *option = find_option(entry->key, verb->verb);
        const bool stored = ours && option && !cli_is_given(&before, option->offset);
        if (!option && table == 0) option = find_option(entry->key, verbs_with_files());
        if (!option) return unknown_key(r, entry, verb);
        if (option->now)
            cli_note("%s:%zu: %s is now %s; the older name is valid in this release only", r->path,
                     entry->line, entry->key, option->now);
        const int code = take_value(r, entry, option, stored ? r->options : &unused);
        if (code != CLI_OK) return code;
    }
    return CLI_OK;
}

int cli_config_take(const cli_verb_entry *verb, const cli_toml_file *file, cli_options *options,
                    cli_toml *out)
{
    const reading r = {.verb = verb, .path = file->path, .toml = out, .options = options};
    int code = cli_toml_read(file, out);
    /* The first table holds for all commands, so a table of the command goes before it. */
    for (size_t i = out->n_tables; code == CLI_OK && i-- > 0;)
        code = take_table(&r, i, i == 0 || strcmp(out->tables[i].name, verb->name) == 0);
    return code;
}

/* Reads a whole file, which may be a pipe. */
static int read_file(const char *path, char **bytes, size_t *n)
{
    struct stat about;
    FILE *file = fopen(path, "rb");
    if (!file) return cli_error(CLI_USAGE, "--config: cannot read %s: %s", path, strerror(errno));
    int code = CLI_OK;
    if (fstat(fileno(file), &about) == 0 && S_ISDIR(about.st_mode))
        code = cli_error(CLI_USAGE, "--config: %s is a folder, not a file of settings", path);
    char *text = code == CLI_OK ? malloc(MAX_BYTES + 1) : NULL;
    if (code == CLI_OK && !text) code = cli_error(CLI_FAILURE, "no memory for %s", path);
    *n = text ? fread(text, 1, MAX_BYTES + 1, file) : 0;
    if (text && ferror(file))
        code = cli_error(CLI_USAGE, "--config: cannot read %s: %s", path, strerror(errno));
    else if (*n > MAX_BYTES)
        code = cli_error(CLI_USAGE, "--config: %s is longer than 1 MiB: it is no file of settings",
                         path);
    fclose(file);
    *bytes = text;
    return code;
}

/* A supervised training reads the file again in each child. */
static int check_again(const cli_options *options)
{
    struct stat about;
    if (!options->supervise || stat(options->config, &about) != 0 || S_ISREG(about.st_mode))
        return CLI_OK;
    return cli_error(CLI_USAGE,
                     "--supervise reads --config several times, and %s is no file that "
                     "can be read again",
                     options->config);
}

int cli_config_read(const cli_verb_entry *verb, cli_options *options, cli_toml *out)
{
    cli_toml_file file = {.path = options->config};
    char *bytes = NULL;
    *out = (cli_toml){0};
    if (!options->config) return CLI_OK;
    int code = read_file(options->config, &bytes, &file.n_bytes);
    file.bytes = bytes;
    if (code == CLI_OK) code = cli_config_take(verb, &file, options, out);
    if (code == CLI_OK) code = check_again(options);
    free(bytes);
    return code;
}

/* ---- Writing --------------------------------------------------------------------------------- */

/* Writes a text in quotes. */
static void write_text(FILE *out, const char *text)
{
    putc('"', out);
    for (const char *c = text; *c; c++) {
        const unsigned char byte = (unsigned char)*c;
        if (*c == '\n')
            fputs("\\n", out);
        else if (byte < ' ' || byte == 0x7f)
            fprintf(out, "\\u%04X", byte);
        else if (*c == '"' || *c == '\\')
            fprintf(out, "\\%c", *c);
        else
            putc(*c, out);
    }
    putc('"', out);
}

/* Writes a number in the fewest digits that read back to it. */
static void write_real(FILE *out, double value)
{
    char text[64];
    for (int n = 1; n <= 17; n++) {
        snprintf(text, sizeof text, "%.*g", n, value);
        if (strtod(text, NULL) == value) break;
    }
    fputs(text, out);
}

static int write_setting(FILE *out, const cli_option *o, size_t place, const cli_options *options)
{
    const char *text = options->given[place];
    const void *at = (const char *)options + o->offset;
    if (cli_characters_sound(text, strlen(text)) != strlen(text))
        return cli_error(CLI_USAGE,
                         "--save-config: the value of --%s is not UTF-8, and TOML has nothing else",
                         o->name);
    fprintf(out, "%s = ", o->name);
    switch (o->kind) {
    case CLI_FLAG: fputs(text, out); break;
    case CLI_COUNT: fprintf(out, "%zu", *(const size_t *)at); break;
    case CLI_REAL: write_real(out, *(const double *)at); break;
    case CLI_SECONDS:
    case CLI_SPAN:
    case CLI_INTERVAL:
    case CLI_TEXT:
    case CLI_INIT:
    case CLI_AUGMENT: write_text(out, text); break;
    }
    putc('\n', out);
    return CLI_OK;
}

/* Without the options that only one process has. */
static char *write_settings(cli_verb verb, unsigned without, const cli_options *options)
{
    const cli_verb_entry *entry = cli_verbs;
    while (entry->verb != verb)
        entry++;
    char *text = NULL;
    size_t n_bytes = 0;
    const cli_option *o;
    FILE *out = open_memstream(&text, &n_bytes);
    int code = out ? CLI_OK : CLI_FAILURE;
    if (out)
        fprintf(out, "# dptrain %s --config THIS-FILE (dptrain %s)\n", entry->name, DPT_VERSION);
    for (size_t i = 0; code == CLI_OK && (o = cli_option_at(i)) != NULL; i++)
        if (i < CLI_MOST_OPTIONS && options->given[i] && o->verbs & verb && in_files(o) &&
            (!(o->verbs & without) || o->offset == offsetof(cli_options, data)))
            code = write_setting(out, o, i, options);
    if (out && fclose(out) != 0) code = CLI_FAILURE;
    if (code == CLI_FAILURE) (void)cli_error(code, "no memory for the settings");
    if (code == CLI_OK) return text;
    free(text);
    return NULL;
}

char *cli_config_text(cli_verb verb, const cli_options *options)
{
    return write_settings(verb, 0, options);
}

char *cli_config_text_for_joining(const cli_options *options)
{
    return write_settings(CLI_TRAIN, CLI_JOIN, options);
}

int cli_config_save(cli_verb verb, const cli_options *options)
{
    if (!options->save_config) return CLI_OK;
    char *text = cli_config_text(verb, options);
    if (!text) return CLI_USAGE;
    text[strlen(text) - 1] = '\0'; /* the end of the last line, which is written with the file */
    const int code = cli_new_file_write(options->save_config, text);
    free(text);
    return code;
}
