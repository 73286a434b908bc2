/* Prints the help of a command from the tables of commands and options. */
#include "cli.h"

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

static void print_options(const cli_verb_entry *verb)
{
    const char *group = NULL, *printed = NULL;
    const cli_option *o;
    for (size_t i = 0; (o = cli_option_at(i)) != NULL; i++) {
        if (o->group) group = o->group;
        if (!o->help || o->now || !(o->verbs & verb->verb)) continue;
        if (group != printed) printf("\n%s\n", group);
        printed = group;
        print_option(o);
    }
}

/* The options of bench, grouped by the benchmarks that take them. */
static void print_bench_options(void)
{
    static const struct {
        unsigned benchmarks;
        const char *heading;
    } parts[] = {
        {CLI_MIX | CLI_ALLREDUCE, "Options of mix and allreduce"},
        {CLI_MIX, "Options of mix"},
        {CLI_ALLREDUCE, "Options of allreduce"},
    };
    const cli_option *o;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        printf("\n%s\n", parts[i].heading);
        for (size_t k = 0; (o = cli_option_at(k)) != NULL; k++) {
            const unsigned takers = o->benchmarks ? o->benchmarks : CLI_MIX;
            if (o->help && !o->now && o->verbs & CLI_BENCH && takers == parts[i].benchmarks)
                print_option(o);
        }
    }
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
        if (v->verb) print_folded(v->help, printf("  %s", v->name), HELP_COLUMN);
    print_folded("options of a command", printf("  COMMAND --help"), HELP_COLUMN);
}

static const char rest[] =
    "\n"
    "Exit status\n"
    "  0                       success\n"
    "  1                       failure at run time\n"
    "  2                       mistake in the command line\n"
    "  3                       no device is left: devices are lost or do not answer\n"
    "  130, 143, 129           Ctrl-C, SIGTERM or SIGHUP ended training, with all\n"
    "                          files written. One that comes more than three\n"
    "                          seconds later kills\n"
    "  of compare              1: the logs differ. 2: they cannot be compared\n"
    "\n"
    "Environment\n"
    "  DPTRAIN_DATA            where data sets are looked for\n"
    "  DPTRAIN_DATA_MEMORY     8G: pictures that take more memory than this are read\n"
    "                          when they are needed. Default: half of the machine's\n"
    "  DPTRAIN_BACKEND_PATH    where device plug-ins are looked for first\n"
    "  DPTRAIN_TRANSPORT       none: processes that mpirun starts train by themselves\n"
    "  DPTRAIN_TRANSPORT_DELAY 5ms: messages between processes arrive this much later\n"
    "  DPTRAIN_CPU_ALGORITHM   algorithm=NAME for CPUs (docs/devices.md)\n"
    "  DPTRAIN_CPU_ISA         kernels of CPUs: portable, avx2, avx512 or neon\n"
    "  DPTRAIN_BLAS            library for matrix products of CPUs, or none\n"
    "  DPTRAIN_OPENCL_CONTAIN  0: OpenCL drivers compile without a helper process\n"
    "  DPTRAIN_OPENCL_COMPILE_TIMEOUT\n"
    "                          seconds for one compilation in it (300)\n"
    "  DPTRAIN_KEEP_OPENBLAS_CORETYPE\n"
    "                          if set, OpenBLAS chooses its kernels itself, or by\n"
    "                          OPENBLAS_CORETYPE\n"
    "  NO_COLOR                no colours\n";

static const char examples[] =
    "\n"
    "Examples\n"
    "  dptrain --momentum 0.9 --checkpoint run --log run.jsonl --plot run.svg\n"
    "  dptrain --optimizer adamw --schedule cosine --validation 0.1 --patience 3\n"
    "  dptrain --devices cpu:threads=1,cpu:threads=1 --split 2:1 --epochs 1\n"
    "  mpirun -n 2 dptrain --devices cpu:threads=1\n"
    "  dptrain --epochs 90 --checkpoint run --checkpoint-every 10m --resume\n"
    "  dptrain eval --checkpoint run\n"
    "  dptrain predict --checkpoint run photo.png\n"
    "  dptrain export --checkpoint run --onnx net.onnx\n"
    "  dptrain devices\n"
    "  dptrain data --dataset folder:64x64 --data photos\n"
    "  dptrain bench mix --devices cpu:threads=1,opencl:0 --json mix.json\n";

void cli_print_help(const cli_verb_entry *verb, bool whole)
{
    printf("Usage: dptrain %s %s\n", whole ? "[COMMAND]" : verb->name,
           whole ? "[option]..." : verb->arguments);
    if (whole) {
        print_folded("Trains neural networks with synchronous data parallelism over any mix of "
                     "devices, in one process or in several that mpirun starts.",
                     0, 0);
        print_verbs();
        printf("\nOptions of 'dptrain train', the default command\n");
    } else {
        print_folded(verb->help, 0, 0);
    }
    if (verb->verb == CLI_BENCH)
        print_bench_options();
    else
        print_options(verb);
    if (verb->verb != CLI_DEVICES && verb->verb != CLI_DATA) print_models();
    fputs(rest, stdout);
    if (whole || verb->verb == CLI_TRAIN) fputs(examples, stdout);
}
