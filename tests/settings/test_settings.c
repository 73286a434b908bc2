/* Files of settings (cli/config.h).  What --save-config writes is read as the same options, for
   every option of the table; the command line wins; mistakes name the line.

       test-settings read FILE...    prints what the reader finds in each file, for compare.py */
#include "config.h"
#include "fuzz/verbs.h"
#include "harness.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static char last_error[1024], last_note[1024];

int cli_error(int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(last_error, sizeof last_error, format, args);
    va_end(args);
    return code;
}

void cli_note(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(last_note, sizeof last_note, format, args);
    va_end(args);
}

/* ---- Values of every option ------------------------------------------------------------------ */

enum { MOST_SAMPLES = 16, TEXT_BYTES = 64 };

/* Values of an option, each of which is valid. */
typedef struct samples {
    char text[MOST_SAMPLES][TEXT_BYTES];
    size_t n;
} samples;

static void add(samples *s, const char *text)
{
    snprintf(s->text[s->n++], TEXT_BYTES, "%s", text);
}

static void add_numbers(const cli_option *o, samples *s)
{
    static const char *const reals[] = {"1e-3", "0.1", "007.50", ".25", "1", "3.e-2", "0"};
    char text[TEXT_BYTES];
    double value;
    size_t count;
    if (o->kind == CLI_COUNT) {
        snprintf(text, sizeof text, "%zu", o->min);
        add(s, text);
        snprintf(text, sizeof text, "%zu", o->max);
        add(s, text);
        if (cli_parse_count("0015", o->min, o->max, &count)) add(s, "0015");
        return;
    }
    snprintf(text, sizeof text, "%.17g", o->low);
    add(s, text);
    snprintf(text, sizeof text, "%.17g", o->high);
    add(s, text);
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
        if (cli_parse_real(reals[i], o->low, o->high, &value)) add(s, reals[i]);
}

static samples samples_of(const cli_option *o)
{
    static const char *const texts[][4] = {
        [CLI_TEXT] = {"a,b", "\"\\ \t\n\x7f#='\xc3\xbc\xf0\x9f\x8e\xb2", "[x]", "true"},
        [CLI_SECONDS] = {"90", "5m", "1.5h", "1e-3"},
        [CLI_SPAN] = {"500", "7steps", "5epochs", "1"},
        [CLI_INTERVAL] = {"500", "2epochs", "10m", "0.5h"},
        [CLI_AUGMENT] = {"crop", "crop:3,flip,erase:0.5", "resized-crop:0.3", "flip"},
        [CLI_INIT] = {"default", "normal:0.01", "xavier", "he"},
    };
    samples s = {.n = 0};
    if (o->kind == CLI_COUNT || o->kind == CLI_REAL) {
        add_numbers(o, &s);
    } else if (o->kind == CLI_FLAG) {
        add(&s, "true");
    } else if (o->values) {
        for (const char *const *word = o->values; *word && s.n < MOST_SAMPLES; word++)
            add(&s, *word);
    } else {
        for (size_t i = 0; i < 4; i++)
            add(&s, texts[o->kind][i]);
    }
    return s;
}

/* ---- Reading and writing --------------------------------------------------------------------- */

static const cli_option *config_option(void)
{
    const cli_option *o = NULL;
    for (size_t i = 0; (o = cli_option_at(i)) != NULL; i++)
        if (strcmp(o->name, "config") == 0) break;
    return o;
}

/* Whether the option of the table can be in a file. */
static bool in_files(const cli_option *o, const cli_verb_entry *verb)
{
    static const char *const without[] = {"config", "save-config", "help", "version"};
    for (size_t i = 0; i < sizeof without / sizeof *without; i++)
        if (strcmp(o->name, without[i]) == 0) return false;
    return (o->verbs & verb->verb) && o->help;
}

/* Parses "--NAME=VALUE"; `argument` is written to. */
static int parse(const cli_verb_entry *verb, const cli_option *o, const char *value,
                 cli_options *out)
{
    static char argument[256]; /* options point into it */
    char *argv[] = {argument, NULL};
    snprintf(argument, sizeof argument, "--%s%s%s", o->name, o->argument ? "=" : "",
             o->argument ? value : "");
    return cli_parse(verb, &(cli_arguments){1, argv, 0}, out);
}

static int take(const cli_verb_entry *verb, const char *text, cli_options *out, cli_toml *toml)
{
    const cli_toml_file file = {"run.toml", text, strlen(text)};
    return cli_config_take(verb, &file, out, toml);
}

static bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Whether two sets of options have the same values. */
static bool same(const cli_options *a, const cli_options *b)
{
    const cli_option *o;
    for (size_t i = 0; (o = cli_option_at(i)) != NULL; i++) {
        const void *at_a = (const char *)a + o->offset, *at_b = (const char *)b + o->offset;
        bool equal = (a->given[i] != NULL) == (b->given[i] != NULL);
        switch (o->kind) {
        case CLI_FLAG: equal &= *(const bool *)at_a == *(const bool *)at_b; break;
        case CLI_TEXT: equal &= same_text(*(char *const *)at_a, *(char *const *)at_b); break;
        case CLI_COUNT: equal &= *(const size_t *)at_a == *(const size_t *)at_b; break;
        case CLI_REAL:
        case CLI_SECONDS: equal &= memcmp(at_a, at_b, sizeof(double)) == 0; break;
        case CLI_SPAN:
            equal &= ((const cli_span *)at_a)->n == ((const cli_span *)at_b)->n &&
                     ((const cli_span *)at_a)->epochs == ((const cli_span *)at_b)->epochs;
            break;
        case CLI_INTERVAL: equal &= memcmp(at_a, at_b, sizeof(dpt_interval)) == 0; break;
        case CLI_AUGMENT:
        case CLI_INIT: equal &= same_text(a->given[i], b->given[i]); break;
        }
        if (!equal) printf("    --%s differs\n", o->name);
        if (!equal) return false;
    }
    return true;
}

/* Writes the options, reads that, and compares. */
static void check_again(test *t, const cli_verb_entry *verb, const cli_options *options)
{
    cli_options again = {.operands = options->operands};
    cli_toml toml = {0};
    char *text = cli_config_text(verb->verb, options);
    if (CHECK(text != NULL) && !CHECK(take(verb, text, &again, &toml) == CLI_OK))
        printf("    %s\n    %s\n", last_error, text);
    if (text && !CHECK(same(options, &again))) printf("    %s\n", text);
    cli_toml_release(&toml);
    free(text);
}

/* ---- Cases ----------------------------------------------------------------------------------- */

static void every_option_is_read_as_it_was_written(test *t)
{
    const cli_option *o;
    for (const cli_verb_entry *verb = cli_verbs; verb->name; verb++)
        for (size_t i = 0; verb->verb & config_option()->verbs && (o = cli_option_at(i)); i++) {
            const samples s = samples_of(o);
            for (size_t k = 0; in_files(o, verb) && k < s.n; k++) {
                cli_options options;
                if (CHECK(parse(verb, o, s.text[k], &options) == CLI_OK))
                    check_again(t, verb, &options);
                else
                    printf("    %s\n", last_error);
            }
        }
}

static void all_options_at_once(test *t)
{
    const cli_option *o;
    for (const cli_verb_entry *verb = cli_verbs; verb->name; verb++) {
        static samples values[CLI_MOST_OPTIONS];
        cli_options options = {.operands = NULL};
        if (!(verb->verb & config_option()->verbs)) continue;
        for (size_t i = 0; (o = cli_option_at(i)) != NULL; i++) {
            values[i] = samples_of(o);
            if (in_files(o, verb) && !o->now)
                CHECK(cli_set_option(o, o->name, values[i].text[0], &options) == CLI_OK);
        }
        check_again(t, verb, &options);
    }
}

static void table_has_room(test *t)
{
    size_t n = 0;
    while (cli_option_at(n))
        n++;
    CHECK(n > 100 && n <= CLI_MOST_OPTIONS);
}

static void command_line_wins(test *t)
{
    const cli_verb_entry *train = &cli_verbs[0];
    static char first[] = "--epochs=3", second[] = "--standby=off", third[] = "--nesterov";
    char *argv[] = {first, second, third, NULL};
    cli_options options;
    cli_toml toml;
    REQUIRE(cli_parse(train, &(cli_arguments){3, argv, 0}, &options) == CLI_OK);
    CHECK(take(train,
               "epochs = 7\nbatch-size = 9\nrest = 'on'\nnesterov = false\nlr = 1\n"
               "[eval]\nbatch-size = 10\n[train]\nlr = 2\nepochs = 8\n",
               &options, &toml) == CLI_OK);
    CHECK(options.epochs == 3 && options.batch_size == 9 && options.nesterov);
    CHECK(strcmp(options.standby, "off") == 0);
    CHECK(options.lr == 2.0);
    CHECK(strstr(last_note, "run.toml:3: rest is now standby"));
    cli_toml_release(&toml);
}

static void false_and_lists(test *t)
{
    cli_options options = {.operands = NULL};
    cli_toml toml;
    CHECK(take(&cli_verbs[0],
               "resume = true\ntop = 5 # of predict\nclass-weights = [1, 2.5, # third\n 1e-1,]\n"
               "devices = ['cpu', \"cuda:0\"]\n[train]\nresume = false\n",
               &options, &toml) == CLI_OK);
    CHECK(!options.resume && options.top == 0);
    CHECK(options.class_weights && strcmp(options.class_weights, "1,2.5,1e-1") == 0);
    CHECK(options.devices && strcmp(options.devices, "cpu,cuda:0") == 0);
    cli_toml_release(&toml);
}

static void mistakes_name_the_line(test *t)
{
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"", "run.toml:1: the file is empty"},
        {" \n\n", "run.toml:1: the file is empty"},
        {"\xef\xbb\xbfquiet = true", "run.toml:1: the file begins with a byte-order mark"},
        {"# a\nlog = \"\xff\"", "run.toml:2: a byte here is not UTF-8 (0xff)"},
        {"# a\nlog = \"\xc3", "run.toml:2: a byte here is not UTF-8 (0xc3)"},
        {"quiet = true\r\n\rquiet = true", "run.toml:2: a control character (0x0d)"},
        {"\n\nbatchsize = 3", "run.toml:3: unknown option batchsize; did you mean batch-size?"},
        {"zzzzzzzzz = 3", "run.toml:1: unknown option zzzzzzzzz; see 'dptrain train --help'"},
        {"batch-size = \"3\"", "run.toml:1: batch-size takes a whole number without quotes"},
        {"batch-size = 3.0", "run.toml:1: batch-size takes a whole number without quotes"},
        {"batch-size = 0", "run.toml:1: batch-size: '0' is not a whole number from 1 to"},
        {"batch-size = -3", "run.toml:1: batch-size: '-3' is not a whole number"},
        {"lr = true", "run.toml:1: lr takes a number without quotes"},
        {"quiet = 1", "run.toml:1: quiet takes true or false"},
        {"log = 3", "run.toml:1: log takes a text in quotes"},
        {"log = ['a']", "run.toml:1: log takes a text in quotes"},
        {"devices = 3", "run.toml:1: devices takes a text in quotes, or a list of texts"},
        {"max-time = true", "run.toml:1: max-time takes a number, or a text in quotes"},
        {"log = ''", "run.toml:1: log needs a value: FILE"},
        {"freeze = []", "run.toml:1: freeze needs a value: LIST"},
        {"optimizer = 'adam'", "run.toml:1: optimizer: unknown value 'adam'; did you mean 'adamw'"},
        {"init = 'none'", "run.toml:1: init: init \"none\" is not one of"},
        {"epochs = 3\nepochs = 4", "run.toml:2: epochs is there twice, first in line 1"},
        {"[train]\n[eval]\n[train]", "run.toml:3: [train] is there twice, first in line 1"},
        {"eval = 3\n[eval]", "run.toml:2: eval is a setting already, in line 1"},
        {"[trian]", "run.toml:1: unknown command [trian]; did you mean [train]?"},
        {"[bench]", "run.toml:1: unknown command [bench]"},
        {"[eval]\nlr = 1", "run.toml:2: lr does not go with 'dptrain eval'"},
        {"[eval]\nhuber-delta = 0", "run.toml:2: huber-delta: '0' is not a number from"},
        {"config = 'a'", "run.toml:1: config belongs on the command line"},
        {"help = true", "run.toml:1: help belongs on the command line"},
        {"lr = 1 2", "run.toml:1: lr: something is behind the value"},
        {"lr", "run.toml:1: lr: there is no = behind the key"},
        {"= 3", "run.toml:1: a line is KEY = VALUE"},
        {"lr =\n3", "run.toml:1: there is no value behind the ="},
        {"log = 'a\n", "run.toml:1: the string has no ' at its end"},
        {"log = \"\\q\"", "run.toml:1: a \\ in \"...\" begins one of"},
        {"log = \"\\ud800\"", "run.toml:1: \\ud800 is no character"},
        {"log = \"\\u0000\"", "run.toml:1: a character 0 cannot be in a setting"},
        {"log = \"\\u12\"", "run.toml:1: \\u has 4 hexadecimal digits behind it"},
        {"log = \"\"\"a\"\"\"", "run.toml:1: strings of several lines (\"\"\")"},
        {"log = '''a'''", "run.toml:1: strings of several lines (''')"},
        {"freeze = ['a' 'b']", "run.toml:1: elements of a list have commas between them"},
        {"freeze = [\n'a'\n", "run.toml:3: the list that begins in line 1 has no ]"},
        {"freeze = [['a']]", "run.toml:1: lists within lists are no settings"},
        {"freeze = [true]", "run.toml:1: true and false are no elements of a list"},
        {"freeze = {}", "run.toml:1: tables within a line are not read here"},
        {"[[train]]", "run.toml:1: lists of tables"},
        {"[train.a]", "run.toml:1: the name of a command with a dot is not read here"},
        {"[train", "run.toml:1: the header [train has no ] at its end"},
        {"[train] a", "run.toml:1: something is behind the header [train]"},
        {"train.lr = 1", "run.toml:1: a key with a dot is not read here"},
        {"'lr' = 1", "run.toml:1: a key in quotes is not read here"},
        {"lr = inf", "run.toml:1: inf is no setting"},
        {"lr = -nan", "run.toml:1: -nan is no setting"},
        {"lr = 0x10", "run.toml:1: 0x10: numbers are decimal here"},
        {"lr = 010", "run.toml:1: 010: a number does not begin with 0"},
        {"lr = 2026-11-30", "run.toml:1: 2026-11-30: dates and times are no settings"},
        {"lr = 07:32:00", "run.toml:1: 07:32:00: dates and times are no settings"},
        {"lr = 1__0", "run.toml:1: 1__0 is no value"},
        {"lr = 1.", "run.toml:1: 1. is no value"},
        {"quiet = True", "run.toml:1: True: write true or false in small letters"},
        {"model = lenet", "run.toml:1: lenet is no value; write text in quotes, such as \"lenet\""},
        {"seed = 18446744073709551616", "run.toml:1: seed: '18446744073709551616' is not"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cli_options options = {.operands = NULL};
        cli_toml toml;
        last_error[0] = '\0';
        if (!CHECK(take(&cli_verbs[0], cases[i].text, &options, &toml) == CLI_USAGE) ||
            !CHECK(strncmp(last_error, cases[i].error, strlen(cases[i].error)) == 0))
            printf("    %s\n    gives \"%s\"\n    not   \"%s\"\n", cases[i].text, last_error,
                   cases[i].error);
        cli_toml_release(&toml);
    }
}

static void text_without_utf8_is_not_written(test *t)
{
    cli_options options;
    const cli_option *o = NULL;
    for (size_t i = 0; (o = cli_option_at(i)) && strcmp(o->name, "log") != 0; i++)
        continue;
    REQUIRE(o && parse(&cli_verbs[0], o, "a\xff", &options) == CLI_OK);
    CHECK(cli_config_text(CLI_TRAIN, &options) == NULL);
    CHECK(strstr(last_error, "--log is not UTF-8"));
}

/* ---- For compare.py -------------------------------------------------------------------------- */

/* For each file a record: "read" or "refused", then for each setting its table, key, type and text;
   every field ends with a zero byte, and a record with an empty field. */
static int print_files(int n, char **paths)
{
    static const char *const types[] = {"text", "whole", "real", "boolean", "list"};
    for (int i = 0; i < n; i++) {
        static char bytes[1 << 16];
        FILE *in = fopen(paths[i], "rb");
        if (!in) return EXIT_FAILURE;
        const cli_toml_file file = {paths[i], bytes, fread(bytes, 1, sizeof bytes, in)};
        cli_toml toml;
        fclose(in);
        const int code = cli_toml_read(&file, &toml);
        printf("%s%c", code == CLI_OK ? "read" : "refused", 0);
        for (size_t k = 0; code == CLI_OK && k < toml.n_entries; k++) {
            const cli_toml_entry *e = &toml.entries[k];
            printf("[%s]%c%s%c%s%c=%s%c", toml.tables[e->table].name, 0, e->key, 0, types[e->type],
                   0, e->text, 0);
        }
        putchar(0);
        cli_toml_release(&toml);
    }
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"the table has room", table_has_room},
        {"every option is read as it was written", every_option_is_read_as_it_was_written},
        {"all options at once", all_options_at_once},
        {"the command line wins", command_line_wins},
        {"false and lists", false_and_lists},
        {"mistakes name the line", mistakes_name_the_line},
        {"text without UTF-8 is not written", text_without_utf8_is_not_written},
    };
    if (argc > 1 && strcmp(argv[1], "read") == 0) return print_files(argc - 2, argv + 2);
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
