/* dptrain generate: continues a text with a language model. */
#include "characters.h"
#include "new_file.h"
#include "session.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { DEFAULT_TOKENS = 100, MOST_PROMPT_BYTES = 1 << 28, BYTES = 256 };

/* Why a text ends. */
typedef enum reason { TOKENS, END_TOKEN, CONTEXT } reason;

typedef struct generation {
    cli_session session;
    const cli_options *options;
    dpt_generator *generator;
    char tokenizer_path[PATH_MAX];
    dpt_tokenizer *tokenizer; /* NULL: ids are bytes */
    size_t choices;           /* ids from 0 on that have a text */
    int32_t ends[DPT_CONFIG_ENDS];
    size_t n_ends;
    char *text; /* of the prompt */
    size_t n_bytes;
    int32_t *prompt, *ids; /* (n_prompt); (n_ids), room for n_room */
    size_t n_prompt, n_ids, n_room;
    cli_characters characters;
    reason reason;
    double prompt_seconds, seconds;
} generation;

static dpt_status no_memory(const generation *g)
{
    return dpt_fail(g->session.context, DPT_E_NO_MEMORY, "no memory for the text");
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static size_t tokens_wanted(const generation *g)
{
    return g->options->tokens ? g->options->tokens : DEFAULT_TOKENS;
}

/* ---- The prompt ------------------------------------------------------------------------------ */

/* Reads all of a file into g->text; "-" is standard input. */
static dpt_status read_file(generation *g, const char *path)
{
    dpt_context *context = g->session.context;
    const bool standard = strcmp(path, "-") == 0;
    FILE *file = standard ? stdin : fopen(path, "rb");
    size_t room = 0;
    if (!file)
        return dpt_fail(context, errno == ENOENT ? DPT_E_NOT_FOUND : DPT_E_IO, "cannot read %s: %s",
                        path, strerror(errno));
    dpt_status status = DPT_OK;
    while (status == DPT_OK && !feof(file) && !ferror(file)) {
        if (room - g->n_bytes < 4096) {
            room = 2 * room + 65536;
            char *grown = room <= MOST_PROMPT_BYTES ? realloc(g->text, room) : NULL;
            if (!grown) status = no_memory(g);
            if (grown) g->text = grown;
        }
        if (status == DPT_OK) g->n_bytes += fread(g->text + g->n_bytes, 1, room - g->n_bytes, file);
    }
    if (status == DPT_OK && ferror(file))
        status = dpt_fail(context, DPT_E_IO, "cannot read %s: %s", path, strerror(errno));
    if (!standard) fclose(file);
    return status;
}

static dpt_status read_prompt(generation *g)
{
    const cli_options *o = g->options;
    if (o->prompt_file)
        DPT_TRY(read_file(g, o->prompt_file));
    else {
        g->text = strdup(o->prompt);
        g->n_bytes = g->text ? strlen(g->text) : 0;
    }
    if (!g->text) return no_memory(g);
    if (g->n_bytes > 0) return DPT_OK;
    return dpt_fail(g->session.context, DPT_E_INVALID,
                    "the prompt is empty: a model needs at least one token to continue");
}

static dpt_status encode(generation *g)
{
    dpt_context *context = g->session.context;
    if (g->tokenizer)
        return dpt_tokenizer_encode(context, g->tokenizer, g->text, g->n_bytes, &g->prompt,
                                    &g->n_prompt);
    g->prompt = malloc(g->n_bytes * sizeof *g->prompt);
    if (!g->prompt) return no_memory(g);
    for (size_t i = 0; i < g->n_bytes; i++)
        g->prompt[i] = (unsigned char)g->text[i];
    g->n_prompt = g->n_bytes;
    return DPT_OK;
}

/* ---- The tokenizer --------------------------------------------------------------------------- */

static bool is_file(const char *folder, const char *name, char path[PATH_MAX])
{
    struct stat info;
    const int n = snprintf(path, PATH_MAX, "%s/%s", folder, name);
    return n > 0 && n < PATH_MAX && stat(path, &info) == 0;
}

/* The tokenizer that the name of the training's data set ends with: text:CONTEXT:PATH, or
   tokens:CONTEXT[:FORM][:VOCABULARY]:PATH.  NULL: none, or the name was cut off. */
static const char *of_dataset(const dpt_weights_info *w)
{
    if (!cli_is_text(w->dataset) || strlen(w->dataset) + 1 >= sizeof w->dataset) return NULL;
    const char *at = strchr(w->dataset, ':');
    while (at) {
        const size_t n = strcspn(++at, ":");
        const bool form = n == 3 && (strncmp(at, "u16", n) == 0 || strncmp(at, "u32", n) == 0);
        if (n > 0 && strspn(at, "0123456789") != n && !form) return at;
        at = at[n] ? at + n : NULL;
    }
    return NULL;
}

/* The tokenizer that is named, or that lies with the weights, or that the training had. */
static const char *find_tokenizer(generation *g)
{
    const cli_options *o = g->options;
    char path[PATH_MAX];
    if (o->tokenizer) return o->tokenizer;
    if (is_file(o->checkpoint, "tokenizer.json", path) ||
        is_file(o->checkpoint, "vocab.json", path))
        return o->checkpoint;
    return of_dataset(&g->session.weights);
}

static dpt_status open_tokenizer(generation *g)
{
    const cli_session *s = &g->session;
    const size_t vocabulary = dpt_model_outputs(s->model);
    const char *path = find_tokenizer(g);
    g->choices = vocabulary;
    if (path) {
        DPT_TRY(dpt_tokenizer_open(s->context, path, &g->tokenizer));
        const size_t n = dpt_tokenizer_vocabulary(g->tokenizer);
        if (n < g->choices) g->choices = n;
        return DPT_OK;
    }
    if (vocabulary == BYTES) return DPT_OK;
    return dpt_fail(s->context, DPT_E_INVALID,
                    "model %s has a vocabulary of %zu tokens, which are no bytes, and %s has no "
                    "tokenizer.json: give --tokenizer PATH",
                    s->model_name, vocabulary, g->options->checkpoint);
}

/* ---- Tokens that end the text ---------------------------------------------------------------- */

/* Reads --stop-id, ids with commas between them. */
static dpt_status read_stops(generation *g, const char *list)
{
    const size_t vocabulary = dpt_model_outputs(g->session.model);
    g->n_ends = 0;
    for (;;) {
        size_t first, last;
        if (!cli_parse_run(&list, &first, &last) || first != last || first > INT32_MAX ||
            g->n_ends == DPT_CONFIG_ENDS)
            return dpt_fail(g->session.context, DPT_E_INVALID,
                            "--stop-id takes ids with commas between them, at most %d",
                            DPT_CONFIG_ENDS);
        if (first >= vocabulary)
            return dpt_fail(g->session.context, DPT_E_INVALID,
                            "--stop-id: %zu is none of the ids 0 to %zu of the model", first,
                            vocabulary - 1);
        g->ends[g->n_ends++] = (int32_t)first;
        if (*list++ == '\0') return DPT_OK;
    }
}

static dpt_status find_ends(generation *g)
{
    const cli_options *o = g->options;
    char path[PATH_MAX];
    if (o->stop_id) return read_stops(g, o->stop_id);
    if (!is_file(o->checkpoint, "config.json", path)) return DPT_OK;
    return dpt_config_ends(g->session.context, path, g->ends, &g->n_ends);
}

static bool is_end(const generation *g, int32_t id)
{
    for (size_t i = 0; i < g->n_ends; i++)
        if (g->ends[i] == id) return true;
    return false;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static dpt_status open_model(generation *g)
{
    cli_session *s = &g->session;
    const cli_options *o = g->options;
    DPT_TRY(cli_weights_find(s, o));
    if (o->json && cli_is_same_file(o->json, s->path))
        return dpt_fail(s->context, DPT_E_INVALID, "--json: %s is the file of the weights",
                        o->json);
    DPT_TRY(cli_weights_name(s, o, CLI_DATA_IF_ASKED | CLI_UNTOLD));
    /* The network is that of one token: a generator makes those of other lengths. */
    const dpt_model_shape shape = {1, 1, 1, s->weights.classes ? s->weights.classes : 1};
    bool text = false;
    for (const char *const *name = dpt_model_names(); *name; name++)
        text = text || strcmp(*name, s->model_name) == 0;
    if (text)
        return dpt_fail(s->context, DPT_E_INVALID,
                        "generate needs a language model, and %s %s of model %s: name one by "
                        "--model, or use a checkpoint with config.json",
                        s->path,
                        s->weights.model[0] ? "is" : "does not say its model, which is then",
                        s->model_name);
    return dpt_model_by_name(s->context, s->model_name, &shape, &s->model);
}

static dpt_status open_device(generation *g)
{
    cli_session *s = &g->session;
    DPT_TRY(cli_open_devices(s, g->options));
    const size_t n = dpt_device_set_count(s->devices);
    if (n == 1) return DPT_OK;
    return dpt_fail(s->context, DPT_E_INVALID,
                    "generate uses one device, and --devices has %zu: name one, such as cpu", n);
}

static dpt_status open_all(generation *g)
{
    cli_session *s = &g->session;
    const cli_options *o = g->options;
    DPT_TRY(cli_open_context(o, &s->context));
    DPT_TRY(read_prompt(g));
    DPT_TRY(open_model(g));
    DPT_TRY(open_tokenizer(g));
    DPT_TRY(find_ends(g));
    DPT_TRY(encode(g));
    DPT_TRY(open_device(g));
    const dpt_generator_options generator = {.size = sizeof generator,
                                             .weights = s->path,
                                             .context = g->n_prompt + tokens_wanted(g),
                                             .device_timeout = o->device_timeout,
                                             .deterministic = o->deterministic};
    return dpt_generator_create(s->devices, s->model, &generator, &g->generator);
}

/* ---- Generating ------------------------------------------------------------------------------ */

static dpt_status write_token(generation *g, int32_t id)
{
    char *text = NULL, byte = (char)id;
    size_t n = 1;
    if (g->tokenizer)
        DPT_TRY(dpt_tokenizer_decode(g->session.context, g->tokenizer, &id, 1, &text, &n));
    const bool written = cli_characters_write(&g->characters, text ? text : &byte, n);
    free(text);
    if (written) return DPT_OK;
    return dpt_fail(g->session.context, DPT_E_IO, "cannot write to standard output");
}

/* Adds an id to those of the text, whose room doubles when it is full. */
static dpt_status keep(generation *g, int32_t id)
{
    if (g->n_ids == g->n_room) {
        const size_t room = g->n_room ? 2 * g->n_room : DEFAULT_TOKENS;
        int32_t *grown = realloc(g->ids, room * sizeof *grown);
        if (!grown) return no_memory(g);
        g->ids = grown;
        g->n_room = room;
    }
    g->ids[g->n_ids++] = id;
    return DPT_OK;
}

static dpt_status continue_text(generation *g)
{
    const cli_options *o = g->options;
    const size_t context = dpt_generator_context(g->generator), wanted = tokens_wanted(g);
    const dpt_sampling sampling = {.size = sizeof sampling,
                                   .temperature = o->temperature,
                                   .top_k = o->top_k,
                                   .top_p = o->top_p,
                                   .seed = o->seed};
    for (;;) {
        int32_t id;
        DPT_TRY(dpt_sample(g->session.context, dpt_generator_logits(g->generator), g->choices,
                           &sampling, g->n_ids, &id));
        g->reason = END_TOKEN;
        if (is_end(g, id)) return DPT_OK;
        DPT_TRY(keep(g, id));
        DPT_TRY(write_token(g, id));
        g->reason = TOKENS;
        if (g->n_ids == wanted) return DPT_OK;
        g->reason = CONTEXT;
        if (context > 0 && dpt_generator_tokens(g->generator) == context) return DPT_OK;
        DPT_TRY(dpt_generator_read(g->generator, &id, 1));
    }
}

static dpt_status generate(generation *g)
{
    DPT_TRY(open_all(g));
    const double begin = now();
    DPT_TRY(dpt_generator_read(g->generator, g->prompt, g->n_prompt));
    const double read = now();
    dpt_status status = continue_text(g);
    if (!cli_characters_end(&g->characters) && status == DPT_OK)
        status = dpt_fail(g->session.context, DPT_E_IO, "cannot write to standard output");
    if (isatty(STDOUT_FILENO)) printf("\n");
    g->prompt_seconds = read - begin;
    g->seconds = now() - read;
    return status;
}

/* ---- What is said at the end ----------------------------------------------------------------- */

static const char *device_of(const generation *g, dpt_device_info *info)
{
    *info = (dpt_device_info){.size = sizeof *info};
    dpt_device_describe(dpt_device_set_get(g->session.devices, 0), info);
    return info->id;
}

static void tell(const generation *g)
{
    static const char *const words[] = {[TOKENS] = "",
                                        [END_TOKEN] = ", then the token that ends a text",
                                        [CONTEXT] = ", then the context of the model was full"};
    dpt_device_info info;
    if (g->options->quiet) return;
    (void)cli_error(CLI_OK, "%s: %zu tokens read in %.2f s, %zu generated in %.2f s (%.1f/s)%s",
                    device_of(g, &info), g->n_prompt, g->prompt_seconds, g->n_ids, g->seconds,
                    g->seconds > 0 ? (double)g->n_ids / g->seconds : 0, words[g->reason]);
}

static json_t *list_of(const int32_t *ids, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_integer(ids[i]));
    return list;
}

static int write_json(const generation *g)
{
    static const char *const words[] = {
        [TOKENS] = "tokens", [END_TOKEN] = "end", [CONTEXT] = "context"};
    const cli_options *o = g->options;
    dpt_device_info info;
    json_t *root = json_pack(
        "{s:s?, s:s?, s:s?, s:f, s:I, s:f, s:I, s:o, s:o, s:s, s:f, s:f}", "model",
        g->session.model_name, "checkpoint", g->session.path, "device", device_of(g, &info),
        "temperature", o->temperature, "top_k", (json_int_t)o->top_k, "top_p",
        o->top_p > 0 ? o->top_p : 1, "seed", (json_int_t)(o->seed & INT64_MAX), "prompt",
        list_of(g->prompt, g->n_prompt), "ids", list_of(g->ids, g->n_ids), "stopped",
        words[g->reason], "prompt_seconds", g->prompt_seconds, "seconds", g->seconds);
    char *text = root ? json_dumps(root, JSON_INDENT(2)) : NULL;
    json_decref(root);
    const int code = text ? cli_new_file_write(o->json, text)
                          : cli_error(CLI_FAILURE, "cannot make %s: no memory", o->json);
    free(text);
    return code;
}

static int end(generation *g, int code)
{
    dpt_generator_destroy(g->generator);
    dpt_tokenizer_destroy(g->tokenizer);
    free(g->text);
    free(g->prompt);
    free(g->ids);
    return cli_session_close(&g->session, code);
}

int cli_generate(const cli_options *options)
{
    cli_options own = *options;
    if (!own.checkpoint)
        return cli_error(CLI_USAGE,
                         "generate needs weights: --checkpoint=FILE or --checkpoint=DIR");
    if (dpt_processes_launched() > 1)
        return cli_error(
            CLI_USAGE, "generate is for one process, and this is one of %zu: run it without mpirun",
            dpt_processes_launched());
    if (!own.prompt == !own.prompt_file)
        return cli_error(CLI_USAGE, "generate needs either --prompt TEXT or --prompt-file FILE");
    if (own.temperature == 0 && (own.top_k > 0 || own.top_p > 0))
        return cli_error(CLI_USAGE, "--top-k and --top-p draw tokens, which needs a --temperature "
                                    "above 0, such as 1");
    if (own.json && own.prompt_file && cli_is_same_file(own.json, own.prompt_file))
        return cli_error(CLI_USAGE, "--json: %s is the file of the prompt", own.json);
    if (own.json && cli_new_file_check(own.json) != CLI_OK) return CLI_FAILURE;
    if (!own.devices) own.devices = "cpu";
    generation g = {.options = &own};
    const dpt_status status = generate(&g);
    int code = CLI_OK;
    if (status != DPT_OK)
        code = cli_session_fail(&g.session, status);
    else
        tell(&g);
    if (status == DPT_OK && own.json) code = write_json(&g);
    return end(&g, code);
}
