/* Feeds arbitrary command lines, one argument per line, to the command's parser, and accepted
   values to the functions that interpret them: the recipe, splits, schedules, synthetic data,
   device lists and lists of images.  A refusal must be one printable line.  An accepted value must
   be within the bounds of the options table. */
#include "balance/split.h"
#include "data/data.h"
#include "device/devstring.h"
#include "fuzz.h"
#include "lists.h"
#include "recipe.h"
#include "train/components/schedule.h"
#include "verbs.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

enum { MAX_ARGUMENTS = 24, COUNT = 1000, MAX_DEVICES = 3, STEPS = 20, MAX_RUNS = 16 };

static size_t n_lines; /* that cli_error has written */

/* In place of the command's own, which writes to stderr. */
int cli_error(int code, const char *format, ...)
{
    char message[1024];
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(message, sizeof message, format, args);
    va_end(args);
    require(n > 0 && code == CLI_USAGE);
    n_lines++;
    return code;
}

/* Likewise. */
void cli_note(const char *format, ...)
{
    char message[1024];
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(message, sizeof message, format, args);
    va_end(args);
    require(n > 0);
}

/* ---- What an accepted command line holds ----------------------------------------------------- */

static void check_value(const cli_option *option, const cli_options *options)
{
    const void *at = (const char *)options + option->offset;
    const size_t count = option->kind == CLI_COUNT ? *(const size_t *)at : 0;
    const double real =
        option->kind == CLI_REAL || option->kind == CLI_SECONDS ? *(const double *)at : 0.0;
    require(count == 0 || (count >= option->min && count <= option->max));
    require(isfinite(real) && real >= 0.0);
    if (option->kind == CLI_REAL) require(!(real > 0.0) || real >= option->low);
    if (option->kind == CLI_REAL) require(real <= option->high);
    if (option->kind == CLI_TEXT && option->values && *(char *const *)at) {
        size_t i = 0;
        while (option->values[i] && strcmp(option->values[i], *(char *const *)at) != 0)
            i++;
        require(option->values[i] != NULL);
    }
    if (option->kind == CLI_SPAN) require(((const cli_span *)at)->n <= option->max);
    if (option->kind == CLI_INTERVAL) {
        const dpt_interval *every = at;
        require(every->steps <= option->max && every->epochs <= option->max);
        require(isfinite(every->seconds) && every->seconds >= 0.0);
        require((every->steps > 0) + (every->epochs > 0) + (every->seconds > 0) <= 1);
    }
}

static void check_table(const cli_verb_entry *verb, const cli_options *options)
{
    const cli_option *o;
    for (size_t i = 0; (o = cli_option_at(i)) != NULL; i++)
        if ((o->verbs & verb->verb) && o->help) check_value(o, options);
    require(options->augment.images.crop_padding <= 1024);
    require(options->augment.images.erase >= 0.0f && options->augment.images.erase <= 1.0f);
    require(options->augment.randaugment.ops <= 6 && options->augment.randaugment.magnitude <= 30);
    require(options->augment.mixup >= 0.0f && options->augment.cutmix <= 100.0f);
    require(options->augment.rotate >= 0.0f && options->augment.rotate <= 180.0f);
    require(options->augment.jitter.brightness >= 0.0f && options->augment.jitter.hue <= 0.5f);
}

static void check_message(dpt_status status, const dpt_error *error)
{
    require(status == DPT_E_INVALID || status == DPT_E_NO_MEMORY);
    require(error->message[0] && memchr(error->message, '\0', sizeof error->message));
}

static void check_split(const char *text)
{
    for (size_t n = 1; n <= MAX_DEVICES; n++) {
        static const size_t batches[] = {0, 1, 7, 256, (size_t)1 << 40};
        dpt_error error = {.status = DPT_OK};
        dpti_split split;
        const dpt_status status = dpti_split_parse(text, n, &split, &error);
        if (status != DPT_OK) check_message(status, &error);
        for (size_t i = 0; status == DPT_OK && i < sizeof batches / sizeof *batches; i++) {
            size_t rows[MAX_DEVICES], sum = 0;
            dpti_split_rows(&split, batches[i], rows);
            for (size_t d = 0; d < n; d++) {
                require(rows[d] <= batches[i] && (split.equal || split.parts[d] > 0 || !rows[d]));
                sum += rows[d];
            }
            require(sum == batches[i]);
        }
    }
}

static void check_rates(const cli_options *options)
{
    const dpt_trainer_options trainer = cli_trainer_options(options, COUNT);
    dpt_error error = {.status = DPT_OK};
    dpti_schedule schedule = {.options = cli_schedule(options, COUNT),
                              .lr = (double)trainer.lr,
                              .steps_per_epoch = COUNT / trainer.batch_size + 1,
                              .total_steps = options->max_steps};
    require(trainer.batch_size >= 1 && trainer.lr > 0.0f);
    const dpt_status status = dpti_schedule_check(&schedule, &error);
    if (status != DPT_OK) check_message(status, &error);
    for (size_t i = 0; status == DPT_OK && i < STEPS; i++) {
        const size_t step = i < STEPS / 2 ? i : SIZE_MAX >> i;
        if (schedule.total_steps && step >= schedule.total_steps) continue;
        const double lr = dpti_schedule_lr(&schedule, step);
        require(isfinite(lr) && lr >= 0.0 && lr <= schedule.lr * (1 + 1e-12));
    }
}

static void check_dataset(const char *spec)
{
    dpti_synthetic_shape shape;
    dpt_error error = {.status = DPT_OK};
    const dpt_status status = dpti_synthetic_parse(spec, &shape, &error);
    if (status != DPT_OK)
        check_message(status, &error);
    else
        require(shape.height >= 1 && shape.width >= 1 && shape.channels >= 1 &&
                shape.classes >= 2 && shape.count >= 1 && shape.count <= DPTI_MAX_RECORDS);
}

static void check_folder(const char *spec)
{
    dpti_folder_spec request;
    dpt_error error = {.status = DPT_OK};
    const dpt_status status = dpti_folder_parse(spec, &request, &error);
    if (status != DPT_OK)
        check_message(status, &error);
    else
        require(request.shape.height >= 1 && request.shape.width >= 1 &&
                request.shape.height <= 4096 && request.shape.width <= 4096 &&
                (request.shape.channels == 1 || request.shape.channels == 3));
}

static void check_devices(const char *text)
{
    dpti_device_list list;
    dpt_error error = {.status = DPT_OK};
    const dpt_status status = dpti_device_list_parse(text, &list, &error);
    if (status == DPT_OK)
        dpti_device_list_free(&list);
    else
        check_message(status, &error);
}

static void check_images(const char *text)
{
    size_t first = 0, last = 0;
    for (size_t n = 0; n < MAX_RUNS; n++) {
        const char *const before = text;
        if (!cli_parse_run(&text, &first, &last)) return;
        require(first <= last && text > before && (*text == '\0' || *text == ','));
        if (*text++ == '\0') return;
    }
}

static void check_texts(const cli_options *options)
{
    if (options->split) check_split(options->split);
    check_rates(options);
    if (options->dataset) check_dataset(options->dataset);
    if (options->dataset) check_folder(options->dataset);
    if (options->devices) check_devices(options->devices);
    for (size_t i = 0; i < options->n_operands; i++)
        check_images(options->operands[i]);
}

/* Reads the command line as main does.  The arguments are the caller's, to be written to. */
static void run(int argc, char **argv)
{
    int first = 0;
    cli_options options;
    n_lines = 0;
    const cli_verb_entry *verb = cli_find_verb(argc, argv, &first);
    require((verb == NULL) == (n_lines == 1));
    if (!verb) return;
    require(first == 1 || first == 2);
    const int code = cli_parse(verb, &(cli_arguments){argc, argv, first}, &options);
    require(n_lines == (code == CLI_OK ? 0 : 1));
    if (code != CLI_OK) return;
    require(options.n_operands <= (size_t)(argc - first));
    check_table(verb, &options);
    int checked = cli_read_lists(&options);
    if (checked == CLI_OK) checked = cli_recipe_check(&options);
    require(n_lines == (checked == CLI_OK ? 0 : 1));
    if (checked == CLI_OK) check_texts(&options);
    cli_release_lists(&options);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *argv[MAX_ARGUMENTS + 2] = {(char *)"dptrain"}, *text = malloc(size + 1);
    int argc = 1;
    if (!text) return 0;
    if (size > 0) memcpy(text, data, size);
    text[size] = '\0';
    for (char *at = text; argc <= MAX_ARGUMENTS;) {
        argv[argc++] = at;
        at = strchr(at, '\n');
        if (!at) break;
        *at++ = '\0';
    }
    run(argc, argv);
    free(text);
    return 0;
}
