/* Man pages, in the language of man(7). */
#include "manual.h"

#include <ctype.h>
#include <string.h>

/* Writes text so that it is set as it is. */
static void write_text(FILE *out, const char *text)
{
    if (*text == '.' || *text == '\'') fputs("\\&", out);
    for (; *text; text++) {
        switch (*text) {
        case '\\': fputs("\\e", out); break;
        case '-': fputs("\\-", out); break;
        case '\'': fputs("\\(aq", out); break;
        case '^': fputs("\\(ha", out); break;
        case '~': fputs("\\(ti", out); break;
        case '`': fputs("\\(ga", out); break;
        case ':': fputs(text[1] == ' ' ? ":" : ":\\:", out); break; /* a line may break here */
        default: putc(*text, out);
        }
    }
}

/* Writes a text with a full stop. */
static void write_sentence(FILE *out, const char *text)
{
    const size_t length = strlen(text);
    write_text(out, text);
    fputs(length > 0 && strchr(".?!", text[length - 1]) ? "\n" : ".\n", out);
}

static void write_option(FILE *out, const cli_option *option)
{
    fputs(".TP\n", out);
    if (option->letter) fprintf(out, "\\fB\\-%c\\fR, ", option->letter);
    fputs("\\fB\\-\\-", out);
    write_text(out, option->name);
    fputs("\\fR", out);
    if (option->argument) {
        fputs("=\\fI", out);
        write_text(out, option->argument);
        fputs("\\fR", out);
    }
    putc('\n', out);
    write_sentence(out, option->help);
    if (!option->values) return;
    fputs("Values: ", out);
    for (const char *const *word = option->values; *word; word++) {
        if (word > option->values) fputs(", ", out);
        write_text(out, *word);
    }
    fputs(".\n", out);
}

static void write_line(FILE *out, const char *name, const char *text)
{
    fputs(".TP\n.B ", out);
    write_text(out, name);
    putc('\n', out);
    write_sentence(out, text);
}

static void write_lines(FILE *out, const char *heading, const cli_help_line *line)
{
    fprintf(out, ".SH %s\n", heading);
    for (; line->name; line++)
        write_line(out, line->name, line->text);
}

static void write_models(FILE *out)
{
    fputs(".SH MODELS\n", out);
    for (const char *const *name = dpt_model_names(); *name; name++)
        write_line(out, *name, dpt_model_help(*name));
    for (const char *const *name = dpt_text_model_names(); *name; name++)
        write_line(out, *name, dpt_model_help(*name));
}

static void write_options(FILE *out, const cli_verb_entry *verb)
{
    cli_help_group group;
    fputs(".SH OPTIONS\n", out);
    for (size_t i = 0; cli_help_find(verb, i, &group); i++) {
        fprintf(out, ".SS %s\n", group.heading);
        for (size_t k = 0; k < group.n; k++)
            write_option(out, group.options[k]);
    }
}

static void write_commands(FILE *out)
{
    fputs(".SH COMMANDS\nEach command has a page of its own, such as\n.BR dptrain\\-train (1).\n",
          out);
    for (const cli_verb_entry *v = cli_verbs; v->name; v++)
        if (v->verb && !v->hidden) write_line(out, v->name, v->help);
}

static void write_examples(FILE *out)
{
    fputs(".SH EXAMPLES\n.nf\n", out);
    for (const char *const *line = cli_examples; *line; line++) {
        write_text(out, *line);
        putc('\n', out);
    }
    fputs(".fi\n", out);
}

/* The other pages, and where the documentation is. */
static void write_see_also(FILE *out, const cli_verb_entry *verb)
{
    fputs(".SH SEE ALSO\n", out);
    if (verb) fputs(".BR dptrain (1),\n", out);
    for (const cli_verb_entry *v = cli_verbs; v->name; v++)
        if (v->verb && !v->hidden && v != verb) {
            fputs(".BR dptrain\\-", out);
            write_text(out, v->name);
            fputs(" (1),\n", out);
        }
    fputs("and the folder docs of the documentation of dptrain.\n", out);
}

void cli_write_page(FILE *out, const cli_verb_entry *verb)
{
    fputs(".TH DPTRAIN", out);
    if (verb) fputs("\\-", out);
    for (const char *c = verb ? verb->name : ""; *c; c++)
        putc(toupper((unsigned char)*c), out);
    fprintf(out, " 1 \"\" \"dptrain %s\" \"User Commands\"\n.ad l\n.nh\n.SH NAME\ndptrain",
            DPT_VERSION);
    if (verb) fprintf(out, "\\-%s", verb->name);
    fputs(" \\- ", out);
    write_text(out, verb ? verb->help : "train neural networks on all devices at once");
    fputs("\n.SH SYNOPSIS\n.B dptrain", out);
    if (verb) fprintf(out, " %s", verb->name);
    putc('\n', out);
    write_text(out, verb ? verb->arguments : "[COMMAND] [option]...");
    fputs("\n.SH DESCRIPTION\n", out);
    write_sentence(out, verb ? verb->help : cli_purpose);
    if (verb)
        write_options(out, verb);
    else
        write_commands(out);
    if (verb && cli_help_has_models(verb)) write_models(out);
    write_lines(out, "EXIT STATUS", cli_exit_codes);
    write_lines(out, "ENVIRONMENT", cli_environment);
    if (!verb || verb->verb == CLI_TRAIN) write_examples(out);
    write_see_also(out, verb);
}
