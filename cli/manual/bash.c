/* Completion for bash: one function, with the options of each command and what they take. */
#include "manual.h"

/* What the function does once it knows the command, the option and the words; bash replaces the
   part of the word behind the last = or :, if these separate words. */
static const char head[] = "# bash completion for dptrain; dptrain manual has written it.\n"
                           "\n"
                           "_dptrain_devices() { # COMMAND\n"
                           "    echo cpu\n"
                           "    echo all\n"
                           "    timeout 5 \"$1\" devices --no-measure 2>/dev/null | awk 'NR > 1 && "
                           "$1 != \"cpu\" {print $1}'\n"
                           "}\n"
                           "\n";
static const char body[] =
    "_dptrain() {\n"
    "    local line=${COMP_LINE:0:COMP_POINT} command=train option='' value takes words kept=''\n"
    "    local -a before\n"
    "    value=${line##*[[:space:]]}\n"
    "    read -ra before <<<\"${line%\"$value\"}\"\n"
    "    COMPREPLY=()\n"
    "    if ((${#before[@]} > 1)) && [[ ${before[1]} != -* ]]; then\n"
    "        command=${before[1]}\n"
    "    fi\n"
    "    if [[ $value == --*=* ]]; then\n"
    "        option=${value%%=*}\n"
    "        value=${value#*=}\n"
    "        if [[ $COMP_WORDBREAKS != *=* ]]; then kept=$option=; fi\n"
    "    elif ((${#before[@]} > 1)) && [[ ${before[-1]} == --* && ${before[-1]} != *=* ]]; then\n"
    "        option=${before[-1]}\n"
    "    fi\n"
    "    takes=$(_dptrain_takes \"$command\" \"$option\")\n"
    "    words=${takes#* }\n"
    "    case $takes in\n"
    "    list\\ *)\n"
    "        [[ $words != DEVICES ]] || words=$(_dptrain_devices \"$1\")\n"
    "        if [[ $value == *,* ]]; then\n"
    "            kept=$kept${value%,*},\n"
    "            value=${value##*,}\n"
    "        fi\n"
    "        ;;\n"
    "    esac\n"
    "    case $takes in\n"
    "    words\\ * | list\\ *)\n"
    "        mapfile -t COMPREPLY < <(compgen -P \"$kept\" -W \"$words\" -- \"$value\")\n"
    "        compopt -o nospace 2>/dev/null\n"
    "        ;;\n"
    "    models\\ *)\n"
    "        mapfile -t COMPREPLY < <(compgen -P \"$kept\" -W \"$words\" -- \"$value\"\n"
    "            compgen -P \"$kept\" -f -- \"$value\")\n"
    "        compopt -o filenames 2>/dev/null\n"
    "        ;;\n"
    "    files)\n"
    "        mapfile -t COMPREPLY < <(compgen -P \"$kept\" -f -- \"$value\")\n"
    "        compopt -o filenames 2>/dev/null\n"
    "        ;;\n"
    "    folders)\n"
    "        mapfile -t COMPREPLY < <(compgen -P \"$kept\" -d -- \"$value\")\n"
    "        compopt -o filenames 2>/dev/null\n"
    "        ;;\n"
    "    text) ;;\n"
    "    *) _dptrain_no_value \"$command\" \"$value\" \"${#before[@]}\" ;;\n"
    "    esac\n"
    "    # Without a part that stays, such as opencl: of opencl:0.\n"
    "    if [[ $COMP_WORDBREAKS == *:* && $kept$value == *:* ]]; then\n"
    "        kept=$kept$value\n"
    "        COMPREPLY=(\"${COMPREPLY[@]#\"${kept%\"${kept##*:}\"}\"}\")\n"
    "    fi\n"
    "}\n"
    "\n"
    "# Options, names of commands, and the arguments that are no options.\n"
    "_dptrain_no_value() { # COMMAND BEGINNING PLACE\n"
    "    if [[ $2 == -* ]]; then\n"
    "        mapfile -t COMPREPLY < <(compgen -W \"$(_dptrain_options \"$1\")\" -- \"$2\")\n"
    "        [[ ${COMPREPLY[*]} != *= ]] || compopt -o nospace 2>/dev/null\n"
    "    elif (($3 == 1)); then\n"
    "        mapfile -t COMPREPLY < <(compgen -W \"$(_dptrain_commands)\" -- \"$2\")\n"
    "    else\n"
    "        case $1 in\n";
static const char tail[] = "        esac\n"
                           "    fi\n"
                           "}\n"
                           "\n"
                           "complete -F _dptrain dptrain\n";

static void write_commands(FILE *out)
{
    fputs("_dptrain_commands() {\n    echo", out);
    for (const cli_verb_entry *v = cli_verbs; v->name; v++)
        if (v->verb && !v->hidden) fprintf(out, " %s", v->name);
    fputs("\n}\n\n", out);
}

static void write_options(FILE *out, const cli_verb_entry *verb)
{
    cli_help_group group;
    const char *blank = "";
    fprintf(out, "    %s) echo '", verb->name);
    for (size_t i = 0; cli_help_find(verb, i, &group); i++)
        for (size_t k = 0; k < group.n; k++, blank = " ")
            fprintf(out, "%s--%s%s", blank, group.options[k]->name,
                    group.options[k]->argument ? "=" : "");
    fputs("' ;;\n", out);
}

static void write_offer(FILE *out, const cli_verb_entry *verb, const cli_option *option)
{
    const cli_offer offer = cli_offer_of(option);
    fprintf(out, "    %s--%s) echo '", verb->name, option->name);
    switch (offer) {
    case CLI_OFFER_WORDS:
    case CLI_OFFER_MODELS:
        fputs(offer == CLI_OFFER_MODELS ? "models " : option->list ? "list " : "words ", out);
        cli_write_words(out, option, ":");
        break;
    case CLI_OFFER_DEVICES: fputs("list DEVICES", out); break;
    case CLI_OFFER_FILES: fputs("files", out); break;
    case CLI_OFFER_FOLDERS: fputs("folders", out); break;
    case CLI_OFFER_NONE: fputs("text", out); break;
    }
    fputs("' ;;\n", out);
}

static void write_offers(FILE *out, const cli_verb_entry *verb)
{
    cli_help_group group;
    for (size_t i = 0; cli_help_find(verb, i, &group); i++)
        for (size_t k = 0; k < group.n; k++)
            if (group.options[k]->argument) write_offer(out, verb, group.options[k]);
}

void cli_write_bash(FILE *out)
{
    const char *words;
    fputs(head, out);
    write_commands(out);
    fputs("_dptrain_options() { # COMMAND\n    case $1 in\n", out);
    for (const cli_verb_entry *v = cli_verbs; v->name; v++)
        if (v->verb && !v->hidden) write_options(out, v);
    fputs("    esac\n}\n\n# What the argument of an option is; nothing if it has none.\n"
          "_dptrain_takes() { # COMMAND OPTION\n    case $1$2 in\n",
          out);
    for (const cli_verb_entry *v = cli_verbs; v->name; v++)
        if (v->verb && !v->hidden) write_offers(out, v);
    fputs("    esac\n}\n\n", out);
    fputs(body, out);
    for (const cli_verb_entry *v = cli_verbs; v->name; v++) {
        const cli_offer offer = cli_operands_of(v, &words);
        if (v->hidden || offer == CLI_OFFER_NONE) continue;
        fprintf(out, "        %s)\n            ", v->name);
        if (offer == CLI_OFFER_WORDS)
            fprintf(out, "mapfile -t COMPREPLY < <(compgen -W '%s' -- \"$2\")\n", words);
        else
            fputs("mapfile -t COMPREPLY < <(compgen -f -- \"$2\")\n"
                  "            compopt -o filenames 2>/dev/null\n",
                  out);
        fputs("            ;;\n", out);
    }
    fputs(tail, out);
}
