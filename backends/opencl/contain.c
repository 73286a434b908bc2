/* Sends requests to helper processes, and draws verdicts from their answers (contain.h). */
#include "contain.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const double compile_seconds = 300.0, list_seconds = 60.0;

/* The environment decides once whether helpers are used.  The first helper that does not start sets
   `contained` to false. */
static pthread_once_t decided = PTHREAD_ONCE_INIT;
static atomic_bool contained;

static void decide(void)
{
    const char *text = secure_getenv("DPTRAIN_OPENCL_CONTAIN");
    atomic_store(&contained, !(text && strcmp(text, "0") == 0));
}

bool dpt_cl_contained(void)
{
    (void)pthread_once(&decided, decide);
    return atomic_load(&contained);
}

/* Returns how many seconds a request may take. */
static double limit(void)
{
    const char *text = secure_getenv("DPTRAIN_OPENCL_COMPILE_TIMEOUT");
    char *end = NULL;
    const double seconds = text ? strtod(text, &end) : 0.0;
    const bool valid = text && end != text && *end == '\0' && isfinite(seconds) && seconds > 0.0;
    return valid ? seconds : compile_seconds;
}

/* Starts a helper.  Returns NULL if this process makes the requests itself. */
static dpt_cl_child *start(void)
{
    dpt_cl_child *child = NULL;
    dpt_error error = {.status = DPT_OK};
    if (!dpt_cl_contained()) return NULL;
    if (dpt_cl_child_start(&child, &error) == DPT_OK) return child;
    if (atomic_exchange(&contained, false))
        fprintf(stderr,
                "dptrain: warning: a driver of OpenCL that crashes would end this process, since "
                "its helper cannot be used: %s\n",
                error.message);
    return NULL;
}

/* ---- Listing --------------------------------------------------------------------------------- */

/* Asks the platforms from `first` on.  Returns true if the helper has ended.  *asked is then the
   platform that it was asking; its name is empty if no platform was asked yet. */
static bool list_from(uint32_t first, dpt_cl_platform_notice *asked, char *words, size_t n_bytes)
{
    const dpt_cl_list_request request = {.first = first};
    const dpt_cl_part part = {&request, sizeof request};
    double seconds = fmin(limit(), list_seconds);
    bool ended = false, done = false;
    *asked = (dpt_cl_platform_notice){.ordinal = first};
    dpt_cl_child *child = start();
    if (!child) return false;
    ended = !dpt_cl_child_send(child, &(dpt_cl_request){DPT_CL_LIST, &part, 1}, &seconds);
    while (!ended && !done) {
        dpt_cl_answer answer;
        ended = !dpt_cl_child_receive(child, &answer, &seconds);
        if (ended) break;
        if (answer.head.kind == DPT_CL_PLATFORM && answer.head.n_bytes == sizeof *asked)
            memcpy(asked, answer.bytes, sizeof *asked);
        else
            done = true;
        free(answer.bytes);
    }
    if (ended)
        snprintf(words, n_bytes, "ended the process that asked for devices, %.240s",
                 dpt_cl_child_ending(child));
    dpt_cl_child_end(child);
    return ended;
}

void dpt_cl_contain_listing(dpt_cl_listing *out)
{
    dpt_cl_platform_notice asked;
    char words[sizeof out->words];
    uint32_t first = 0;
    *out = (dpt_cl_listing){.n_absent = 0};
    while (list_from(first, &asked, words, sizeof words)) {
        asked.name[sizeof asked.name - 1] = '\0';
        if (!asked.name[0] || out->n_absent == DPT_CL_MOST_PLATFORMS) {
            out->unusable = true;
            memcpy(out->words, words, sizeof words);
            return;
        }
        dpt_cl_absent *absent = &out->absent[out->n_absent++];
        absent->ordinal = asked.ordinal;
        snprintf(absent->name, sizeof absent->name, "%.120s", asked.name);
        memcpy(absent->words, words, sizeof words);
        first = asked.ordinal + 1;
    }
}

/* ---- Compiling ------------------------------------------------------------------------------- */

struct dpt_cl_compiler {
    const dpt_cl_found *found;
    dpt_cl_child *child; /* NULL: no helper runs */
    uint64_t *built;     /* the programs that the child has */
    size_t n_built;
};

dpt_cl_compiler *dpt_cl_compiler_create(const dpt_cl_found *found)
{
    dpt_cl_compiler *compiler = calloc(1, sizeof *compiler);
    if (compiler) compiler->found = found;
    return compiler;
}

static void end_child(dpt_cl_compiler *c)
{
    dpt_cl_child_end(c->child);
    c->child = NULL;
    free(c->built);
    c->built = NULL;
    c->n_built = 0;
}

void dpt_cl_compiler_destroy(dpt_cl_compiler *compiler)
{
    if (!compiler) return;
    end_child(compiler);
    free(compiler);
}

bool dpt_cl_compiler_has(const dpt_cl_compiler *compiler, uint64_t id)
{
    for (size_t i = 0; i < compiler->n_built; i++)
        if (compiler->built[i] == id) return true;
    return false;
}

/* Notes that the helper has a program.  If memory is short, the program is built again later. */
static void note_built(dpt_cl_compiler *c, uint64_t id)
{
    if (dpt_cl_compiler_has(c, id)) return;
    uint64_t *grown = realloc(c->built, (c->n_built + 1) * sizeof *grown);
    if (!grown) return;
    c->built = grown;
    c->built[c->n_built++] = id;
}

/* Makes the verdict for a helper that has ended. */
static void fatal(dpt_cl_compiler *c, dpt_cl_trial *trial)
{
    *trial = (dpt_cl_trial){.verdict = DPT_CL_FATAL};
    snprintf(trial->words, sizeof trial->words, "%s", dpt_cl_child_ending(c->child));
    end_child(c);
}

static dpt_cl_trial trial_of(const dpt_cl_answer *answer)
{
    switch ((dpt_cl_message_kind)answer->head.kind) {
    case DPT_CL_DONE:
        return (dpt_cl_trial){.verdict = DPT_CL_GOOD,
                              .bytes = answer->bytes,
                              .n_bytes = (size_t)answer->head.n_bytes};
    case DPT_CL_REFUSED:
        return (dpt_cl_trial){.verdict = DPT_CL_BAD,
                              .code = answer->head.code,
                              .bytes = answer->bytes,
                              .n_bytes = (size_t)answer->head.n_bytes};
    default: free(answer->bytes); return (dpt_cl_trial){.verdict = DPT_CL_UNTRIED};
    }
}

/* Sends a request and waits for its last answer. */
static dpt_cl_trial ask(dpt_cl_compiler *c, dpt_cl_message_kind kind, const dpt_cl_part *parts,
                        size_t n_parts)
{
    dpt_cl_trial trial = {.verdict = DPT_CL_UNTRIED};
    dpt_cl_answer answer;
    double seconds = limit();
    bool built = false;
    if (!c->child) c->child = start();
    if (!c->child) return trial;
    bool there = dpt_cl_child_send(c->child, &(dpt_cl_request){kind, parts, n_parts}, &seconds);
    if (there) there = dpt_cl_child_receive(c->child, &answer, &seconds);
    if (there && answer.head.kind == DPT_CL_BUILT) {
        built = true;
        free(answer.bytes);
        there = dpt_cl_child_receive(c->child, &answer, &seconds);
    }
    if (there) return trial_of(&answer);
    fatal(c, &trial);
    if (built) trial.verdict = DPT_CL_GOOD;
    return trial;
}

dpt_cl_trial dpt_cl_compiler_build(dpt_cl_compiler *compiler, const dpt_cl_text *text)
{
    const dpt_cl_found *found = compiler->found;
    dpt_cl_build_request request = {.id = text->id,
                                    .n_source = text->n_source,
                                    .n_options = (uint32_t)strlen(text->options),
                                    .wants_binary = text->wants_binary,
                                    .platform = found->platform_ordinal,
                                    .device = found->device_ordinal};
    snprintf(request.platform_name, sizeof request.platform_name, "%s", found->platform_name);
    snprintf(request.device_version, sizeof request.device_version, "%s", found->version);
    const dpt_cl_part parts[] = {{&request, sizeof request},
                                 {text->options, request.n_options},
                                 {text->source, text->n_source}};
    const dpt_cl_trial trial = ask(compiler, DPT_CL_BUILD, parts, 3);
    if (trial.verdict == DPT_CL_GOOD && compiler->child) note_built(compiler, text->id);
    return trial;
}

dpt_cl_trial dpt_cl_compiler_launch(dpt_cl_compiler *compiler, const dpt_cl_trial_launch *launch)
{
    enum { MOST_ARGUMENTS = 64 };
    dpt_cl_launch_request request = {.id = launch->id,
                                     .n_arguments = (uint32_t)launch->n_arguments};
    dpt_cl_part parts[2 + MOST_ARGUMENTS];
    if (launch->n_arguments > MOST_ARGUMENTS) return (dpt_cl_trial){.verdict = DPT_CL_UNTRIED};
    for (size_t i = 0; i < 3; i++) {
        request.n_groups[i] = launch->n_groups[i];
        request.group[i] = launch->group[i];
    }
    snprintf(request.kernel, sizeof request.kernel, "%s", launch->kernel);
    parts[0] = (dpt_cl_part){&request, sizeof request};
    parts[1] = (dpt_cl_part){launch->arguments, launch->n_arguments * sizeof *launch->arguments};
    memcpy(parts + 2, launch->values, launch->n_arguments * sizeof *parts);
    return ask(compiler, DPT_CL_LAUNCH, parts, 2 + launch->n_arguments);
}
