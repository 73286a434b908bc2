/* Completion for fish: a line for each option and each set of commands that have it. */
#include "manual.h"

static const char head[] = "# Completion for fish; dptrain manual has written it.\n"
                           "\n"
                           "function __dptrain_command\n"
                           "    set -l words (commandline -opc)\n"
                           "    if set -q words[2]; and not string match -q -- '-*' $words[2]\n"
                           "        echo $words[2]\n"
                           "    else\n"
                           "        echo train\n"
                           "    end\n"
                           "end\n"
                           "\n"
                           "function __dptrain_is\n"
                           "    contains -- (__dptrain_command) $argv\n"
                           "end\n"
                           "\n"
                           "function __dptrain_first\n"
                           "    set -l words (commandline -opc)\n"
                           "    not set -q words[2]\n"
                           "end\n"
                           "\n"
                           "function __dptrain_devices\n"
                           "    printf '%s\\n' cpu all\n"
                           "    timeout 5 dptrain devices --no-measure 2>/dev/null | awk 'NR > 1 "
                           "&& $1 != \"cpu\" {print $1}'\n"
                           "end\n"
                           "\n"
                           "complete -c dptrain -f\n";

/* Writes what goes before an option: the commands that have it. */
static void write_condition(FILE *out, unsigned verbs)
{
    fputs("complete -c dptrain -n '__dptrain_is", out);
    for (const cli_verb_entry *v = cli_verbs; v->name; v++)
        if (v->verb & verbs && !v->hidden) fprintf(out, " %s", v->name);
    fputs("'", out);
}

static void write_offer(FILE *out, const cli_option *option)
{
    const cli_offer offer = cli_offer_of(option);
    switch (offer) {
    case CLI_OFFER_WORDS:
        fputs(" -x -a '", out);
        cli_write_words(out, option, ":");
        fputs("'", out);
        break;
    case CLI_OFFER_MODELS:
        fputs(" -r -F -a '", out);
        cli_write_words(out, option, ":");
        fputs("'", out);
        break;
    case CLI_OFFER_DEVICES: fputs(" -x -a '(__dptrain_devices)'", out); break;
    case CLI_OFFER_FILES: fputs(" -r -F", out); break;
    case CLI_OFFER_FOLDERS: fputs(" -x -a '(__fish_complete_directories)'", out); break;
    case CLI_OFFER_NONE: fputs(" -x", out); break;
    }
}

static void write_option(FILE *out, const cli_option *option)
{
    write_condition(out, option->verbs);
    if (option->letter) fprintf(out, " -s %c", option->letter);
    fprintf(out, " -l %s", option->name);
    if (option->argument) write_offer(out, option);
    fputs(" -d '", out);
    cli_write_brief(out, option->help, "\\");
    fputs("'\n", out);
}

void cli_write_fish(FILE *out)
{
    const cli_option *o;
    const char *words;
    fputs(head, out);
    for (const cli_verb_entry *v = cli_verbs; v->name; v++) {
        if (!v->verb || v->hidden) continue;
        fprintf(out, "complete -c dptrain -n __dptrain_first -a %s -d '", v->name);
        cli_write_brief(out, v->help, "\\");
        fputs("'\n", out);
    }
    for (size_t i = 0; (o = cli_option_at(i)) != NULL; i++)
        if (o->help && !o->now) write_option(out, o);
    for (const cli_verb_entry *v = cli_verbs; v->name; v++) {
        const cli_offer offer = cli_operands_of(v, &words);
        if (v->hidden || offer == CLI_OFFER_NONE) continue;
        write_condition(out, v->verb);
        if (offer == CLI_OFFER_WORDS)
            fprintf(out, " -a '%s'\n", words);
        else
            fputs(" -F\n", out);
    }
}
