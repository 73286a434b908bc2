/* Completion for zsh: the options of each command as specifications of _arguments. */
#include "manual.h"

#include <string.h>

static const char head[] =
    "#compdef dptrain\n"
    "# Completion for zsh; dptrain manual has written it.\n"
    "\n"
    "_dptrain_devices() {\n"
    "    local -a devices\n"
    "    devices=(cpu all ${(f)\"$(timeout 5 dptrain devices --no-measure 2>/dev/null |\n"
    "        awk 'NR > 1 && $1 != \"cpu\" {print $1}')\"})\n"
    "    _sequence compadd - $devices\n"
    "}\n"
    "\n"
    "_dptrain_models() {\n"
    "    _alternative \"models:model:(${*//:/\\\\:})\" 'files:file:_files'\n"
    "}\n"
    "\n";
static const char middle[] = "\n"
                             "_dptrain() {\n"
                             "    local command=train\n"
                             "    if ((CURRENT == 2)) && [[ $words[2] != -* ]]; then\n"
                             "        _dptrain_commands\n"
                             "        return\n"
                             "    fi\n"
                             "    if [[ $words[2] != -* ]]; then\n"
                             "        command=$words[2]\n"
                             "        shift words\n"
                             "        ((CURRENT--))\n"
                             "    fi\n"
                             "    case $command in\n";
static const char tail[] = "    esac\n"
                           "}\n"
                           "\n"
                           "_dptrain \"$@\"\n";

/* The action that completes the argument of an option. */
static void write_action(FILE *out, const cli_option *option)
{
    switch (cli_offer_of(option)) {
    case CLI_OFFER_WORDS:
        fputs(option->list ? "{_sequence compadd - " : "(", out);
        cli_write_words(out, option, "\\:");
        fputs(option->list ? "}" : ")", out);
        break;
    case CLI_OFFER_MODELS:
        fputs("{_dptrain_models ", out);
        cli_write_words(out, option, "\\:");
        fputs("}", out);
        break;
    case CLI_OFFER_DEVICES: fputs("{_dptrain_devices}", out); break;
    case CLI_OFFER_FILES: fputs("_files", out); break;
    case CLI_OFFER_FOLDERS: fputs("_files -/", out); break;
    case CLI_OFFER_NONE: fputs(" ", out); break;
    }
}

static void write_option(FILE *out, const cli_option *option)
{
    if (option->letter) {
        fprintf(out, " \\\n            '-%c[", option->letter);
        cli_write_brief(out, option->help, "[]:\\");
        fputs("]'", out);
    }
    fprintf(out, " \\\n            '--%s%s[", option->name, option->argument ? "=" : "");
    cli_write_brief(out, option->help, "[]:\\");
    fputs("]", out);
    if (option->argument) {
        putc(':', out);
        for (const char *c = option->argument; *c; c++) {
            if (*c == ':') putc('\\', out);
            putc(*c, out);
        }
        putc(':', out);
        write_action(out, option);
    }
    putc('\'', out);
}

static void write_commands(FILE *out)
{
    fputs("_dptrain_commands() {\n    local -a commands\n    commands=(\n", out);
    for (const cli_verb_entry *v = cli_verbs; v->name; v++) {
        if (!v->verb || v->hidden) continue;
        fprintf(out, "        '%s:", v->name);
        cli_write_brief(out, v->help, "\\");
        fputs("'\n", out);
    }
    fputs("    )\n    _describe command commands\n}\n", out);
}

void cli_write_zsh(FILE *out)
{
    cli_help_group group;
    const char *words;
    fputs(head, out);
    write_commands(out);
    fputs(middle, out);
    for (const cli_verb_entry *v = cli_verbs; v->name; v++) {
        if (!v->verb || v->hidden) continue;
        fprintf(out, "    %s)\n        _arguments", v->name);
        for (size_t i = 0; cli_help_find(v, i, &group); i++)
            for (size_t k = 0; k < group.n; k++)
                write_option(out, group.options[k]);
        const cli_offer offer = cli_operands_of(v, &words);
        if (offer == CLI_OFFER_WORDS) fprintf(out, " \\\n            '1:what:(%s)'", words);
        if (offer == CLI_OFFER_FILES) fputs(" \\\n            '*:file:_files'", out);
        fputs("\n        ;;\n", out);
    }
    fputs(tail, out);
}
