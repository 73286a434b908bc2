/* Prints the help of a command from the tables of commands and options. */
#include "help.h"

#include <stdio.h>
#include <string.h>

enum { HELP_COLUMN = 26, HELP_WIDTH = 80 };

/* Prints text from column `column` on and breaks lines at HELP_WIDTH.  The cursor is at column
 * `at`. */
static void print_folded(const char *text, int at, int column)
{
    if (at + 2 > column) {
        printf("\n");
        at = 0;
    }
    printf("%*s", column - at, "");
    at = column;
    bool first = true;
    while (*text) {
        const int length = (int)strcspn(text, " ");
        if (!first && at + 1 + length > HELP_WIDTH) {
            printf("\n%*s", column, "");
            at = column;
            first = true;
        }
        at += printf("%s%.*s", first ? "" : " ", length, text);
        first = false;
        text += length;
        text += *text == ' ';
    }
    printf("\n");
}

static void print_option(const cli_option *option)
{
    int at = option->letter ? printf("  -%c, --%s", option->letter, option->name)
                            : printf("      --%s", option->name);
    if (option->argument) at += printf("=%s", option->argument);
    print_folded(option->help, at, HELP_COLUMN);
}

/* The options of bench, grouped by the benchmarks that take them. */
static const struct {
    unsigned benchmarks;
    const char *heading;
} parts[] = {
    {CLI_MIX | CLI_ALLREDUCE, "Options of mix and allreduce"},
    {CLI_MIX, "Options of mix"},
    {CLI_ALLREDUCE, "Options of allreduce"},
};

static bool find_of_bench(size_t part, cli_help_group *out)
{
    const cli_option *o;
    if (part >= sizeof parts / sizeof *parts) return false;
    *out = (cli_help_group){.heading = parts[part].heading};
    for (size_t i = 0; (o = cli_option_at(i)) != NULL && out->n < CLI_MOST_OPTIONS; i++) {
        const unsigned takers = o->benchmarks ? o->benchmarks : CLI_MIX;
        if (o->help && !o->now && o->verbs & CLI_BENCH && takers == parts[part].benchmarks)
            out->options[out->n++] = o;
    }
    return true;
}

bool cli_help_find(const cli_verb_entry *verb, size_t i, cli_help_group *out)
{
    const char *group = NULL, *last = NULL;
    const cli_option *o;
    size_t n_groups = 0; /* that have begun */
    if (verb->verb == CLI_BENCH) return find_of_bench(i, out);
    *out = (cli_help_group){.heading = NULL};
    for (size_t k = 0; (o = cli_option_at(k)) != NULL && out->n < CLI_MOST_OPTIONS; k++) {
        if (o->group) group = o->group;
        if (!o->help || o->now || !(o->verbs & verb->verb)) continue;
        n_groups += group != last;
        last = group;
        if (n_groups != i + 1) continue;
        out->heading = group;
        out->options[out->n++] = o;
    }
    return out->n > 0;
}

static void print_options(const cli_verb_entry *verb)
{
    cli_help_group group;
    for (size_t i = 0; cli_help_find(verb, i, &group); i++) {
        printf("\n%s\n", group.heading);
        for (size_t k = 0; k < group.n; k++)
            print_option(group.options[k]);
    }
}

bool cli_help_has_models(const cli_verb_entry *verb)
{
    return !(verb->verb & (CLI_DEVICES | CLI_DATA | CLI_SUPERVISE));
}

static void print_models(void)
{
    printf("\nModels\n");
    for (const char *const *name = dpt_model_names(); *name; name++)
        print_folded(dpt_model_help(*name), printf("  %s", *name), HELP_COLUMN);
    for (const char *const *name = dpt_text_model_names(); *name; name++)
        print_folded(dpt_model_help(*name), printf("  %s", *name), HELP_COLUMN);
}

static void print_verbs(void)
{
    printf("\nCommands\n");
    for (const cli_verb_entry *v = cli_verbs; v->name; v++)
        if (v->verb && !v->hidden) print_folded(v->help, printf("  %s", v->name), HELP_COLUMN);
    print_folded("options of a command", printf("  COMMAND --help"), HELP_COLUMN);
}

const char cli_purpose[] = "Trains neural networks with synchronous data parallelism over any mix "
                           "of devices, in one process or in several, also on several machines.";

const cli_help_line cli_exit_codes[] = {
    {"0", "success"},
    {"1", "failure at run time"},
    {"2", "mistake in the command line"},
    {"3", "no device is left: devices are lost or do not answer"},
    {"130, 143, 129", "Ctrl-C, SIGTERM or SIGHUP ended training, with all files written. One that "
                      "comes more than three seconds later kills"},
    {"of compare", "1: the logs differ. 2: they cannot be compared"},
    {NULL, NULL},
};

const cli_help_line cli_environment[] = {
    {"DPTRAIN_DATA", "where data sets are looked for"},
    {"DPTRAIN_DATA_MEMORY", "8G: pictures that take more memory than this are read when they are "
                            "needed. Default: half of the machine's"},
    {"DPTRAIN_RECIPE", "default or none: what --recipe is if it is not given"},
    {"DPTRAIN_BACKEND_PATH", "where device plug-ins are looked for first"},
    {"DPTRAIN_ADDRESS", "HOST:PORT: processes join through TCP, where process 0 listens "
                        "(docs/processes.md)"},
    {"DPTRAIN_PROCESSES", "how many processes join there"},
    {"DPTRAIN_RANK", "which of them this one is, from 0"},
    {"DPTRAIN_JOINERS", "how many processes may come later, by dptrain join (0)"},
    {"DPTRAIN_JOIN", "HOST:PORT: this process comes to the job there; dptrain join sets it"},
    {"DPTRAIN_JOB", "START:FOLDER: this process is of a supervised job; dptrain supervise sets it"},
    {"DPTRAIN_SECRET_FILE", "a file of at least 16 bytes that all of them have, with mode 600"},
    {"DPTRAIN_NETWORKS", "10.1.0.0/16,...: trusted networks; without it only the loopback is used"},
    {"DPTRAIN_JOIN_TIMEOUT", "seconds in which all have to join (300)"},
    {"DPTRAIN_PROCESS_TIMEOUT", "seconds after which a process that is silent is left behind (20)"},
    {"DPTRAIN_TRANSPORT", "tcp, mpi, or none: processes that mpirun starts train by themselves"},
    {"DPTRAIN_TRANSPORT_DELAY", "5ms: messages between processes arrive this much later"},
    {"DPTRAIN_CPU_ALGORITHM", "algorithm=NAME for CPUs (docs/devices.md)"},
    {"DPTRAIN_CPU_ISA", "kernels of CPUs: portable, avx2, avx512 or neon"},
    {"DPTRAIN_BLAS", "library for matrix products of CPUs, or none"},
    {"DPTRAIN_OPENCL_CONTAIN", "0: OpenCL drivers compile without a helper process"},
    {"DPTRAIN_OPENCL_COMPILE_TIMEOUT", "seconds for one compilation in it (300)"},
    {"DPTRAIN_KEEP_OPENBLAS_CORETYPE",
     "if set, OpenBLAS chooses its kernels itself, or by OPENBLAS_CORETYPE"},
    {"DPTRAIN_TEST_CONTROL_GROUPS", "for tests: a folder that stands for the control groups of "
                                    "this process (docs/devices.md)"},
    {"NO_COLOR", "no colours"},
    {NULL, NULL},
};

const char *const cli_examples[] = {
    "dptrain --momentum 0.9 --checkpoint run --log run.jsonl --plot run.svg",
    "dptrain --optimizer adamw --schedule cosine --validation 0.1 --patience 3",
    "dptrain --devices cpu:threads=1,cpu:threads=1 --split 2:1 --epochs 1",
    "mpirun -n 2 dptrain --devices cpu:threads=1",
    "dptrain supervise mpirun -n 4 dptrain --devices cpu:threads=1 --checkpoint run",
    "dptrain join 10.1.0.2:29500 --devices cpu",
    "dptrain --epochs 90 --checkpoint run --checkpoint-every 10m --resume",
    "dptrain eval --checkpoint run",
    "dptrain predict --checkpoint run photo.png",
    "dptrain export --checkpoint run --onnx net.onnx",
    "dptrain devices",
    "dptrain data --dataset folder:64x64 --data photos",
    "dptrain bench mix --devices cpu:threads=1,opencl:0 --json mix.json",
    NULL,
};

static void print_lines(const char *heading, const cli_help_line *line)
{
    printf("\n%s\n", heading);
    for (; line->name; line++)
        print_folded(line->text, printf("  %s", line->name), HELP_COLUMN);
}

void cli_print_help(const cli_verb_entry *verb, bool whole)
{
    printf("Usage: dptrain %s %s\n", whole ? "[COMMAND]" : verb->name,
           whole ? "[option]..." : verb->arguments);
    if (whole) {
        print_folded(cli_purpose, 0, 0);
        print_verbs();
        printf("\nOptions of 'dptrain train', the default command\n");
    } else {
        print_folded(verb->help, 0, 0);
    }
    print_options(verb);
    if (cli_help_has_models(verb)) print_models();
    print_lines("Exit status", cli_exit_codes);
    print_lines("Environment", cli_environment);
    if (!whole && verb->verb != CLI_TRAIN) return;
    printf("\nExamples\n");
    for (const char *const *line = cli_examples; *line; line++)
        printf("  %s\n", *line);
}
