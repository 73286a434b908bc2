/* Tests of evaluations that the program ends, and of what they leave in the folder of the
   checkpoints and in the log. */
#include "harness.h"
#include "io/folder.h"
#include "train/flat.h"
#include "train/resume.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Returns how many lines of a log are of such an event. */
static size_t count_events(const char *log, const char *event)
{
    static char line[1 << 16];
    char begins[64];
    size_t n = 0;
    snprintf(begins, sizeof begins, "{\"event\":\"%s\"", event);
    FILE *file = fopen(log, "r");
    while (file && fgets(line, sizeof line, file))
        n += strncmp(line, begins, strlen(begins)) == 0;
    if (file) fclose(file);
    return n;
}

/* Checkpoints are written in the background. */
static void await_file(const char *path)
{
    for (size_t i = 0; i < 30000 && access(path, F_OK) != 0; i++)
        (void)usleep(1000);
}

/* A record, and where training is to end. */
typedef struct watch {
    record record;       /* the first member, because notices are given to a record */
    size_t stop_asked;   /* in the evaluation behind this step; 0: nowhere */
    const char *awaited; /* the path of its checkpoint, for which it waits; NULL: none */
    bool found;          /* that checkpoint is there */
} watch;

/* dpt_fit_options.progress: asked in an evaluation whether training is to end. */
static int ends_evaluation(const dpt_fit_progress *progress, void *user)
{
    watch *w = user;
    if (progress->step || progress->epoch || progress->event)
        return resume_note(progress, &w->record);
    if (w->stop_asked == 0 || progress->steps_done != w->stop_asked) return 0;
    if (w->awaited) await_file(w->awaited);
    w->found = w->awaited && access(w->awaited, F_OK) == 0;
    return 1;
}

static dpt_fit_options watched_options(const setting *s, const char *folder, watch *w)
{
    dpt_fit_options fit = resume_fit_options(s, folder, &w->record);
    fit.progress = ends_evaluation;
    fit.user = w;
    return fit;
}

/* A training that is to end in an evaluation ends there, with the state of before, and evaluates
   first when it is resumed.  Its log is that of the whole. */
static void end_in_evaluation(test *t, size_t epoch, const training *whole,
                              const dpt_fit_result *result)
{
    const setting *s = t->user;
    char path[64];
    training w;
    snprintf(path, sizeof path, "broken/checkpoint-%09zu.safetensors", epoch * STEPS_PER_EPOCH);
    watch first = {.stop_asked = epoch * STEPS_PER_EPOCH, .awaited = epoch == 1 ? path : NULL},
          second = {.stop_asked = 0};
    resume_empty(t, "broken");
    (void)unlink("broken.jsonl");
    for (size_t part = 0; part < 2; part++) {
        dpt_fit_result r = {.size = sizeof r};
        if (!resume_open(t, resume_devices, &resume_sgd, &w)) return;
        dpt_fit_options fit = watched_options(s, "broken", part == 0 ? &first : &second);
        fit.checkpoint_every = (dpt_interval){.epochs = 1};
        fit.log = "broken.jsonl";
        fit.resume = part > 0;
        if (!CHECK_OK(dpt_fit(w.trainer, &fit, &r))) FAIL("%s", dpt_error_message(s->context));
        CHECK(r.stopped == (part == 0));
        CHECK_SIZE(r.epochs, part == 0 ? epoch - 1 : EPOCHS);
        CHECK_SIZE(r.steps, part == 0 ? epoch * STEPS_PER_EPOCH : STEPS);
        CHECK_SIZE(count_events("broken.jsonl", "epoch"), part == 0 ? epoch - 1 : EPOCHS);
        if (part > 0) resume_check_same(t, whole, &w);
        if (part > 0) resume_check_results(t, result, &r);
        resume_close(&w);
    }
    /* A later checkpoint may not be due, because that of the epoch before is being written. */
    CHECK(first.found == (epoch == 1));
    CHECK_SIZE(second.record.n_steps, STEPS - epoch * STEPS_PER_EPOCH);
    CHECK_SIZE(count_events("broken.jsonl", "step"), STEPS);
    CHECK_SIZE(count_events("broken.jsonl", "done"), 1);
    dpt_log_comparison seen = {.size = sizeof seen};
    if (!CHECK_OK(dpt_compare_logs(s->context, "whole.jsonl", "broken.jsonl", &seen))) return;
    CHECK_SIZE(seen.common_steps, STEPS);
    CHECK_SIZE(seen.common_weights, EPOCHS);
    CHECK(!seen.differs);
}

static void an_evaluation_breaks_off(test *t)
{
    const setting *s = t->user;
    training whole;
    record seen = {.n_steps = 0};
    dpt_fit_result result = {.size = sizeof result};
    if (resume_open(t, resume_devices, &resume_sgd, &whole)) {
        dpt_fit_options fit = resume_fit_options(s, NULL, &seen);
        fit.log = "whole.jsonl";
        CHECK_OK(dpt_fit(whole.trainer, &fit, &result));
        for (size_t epoch = 1; epoch <= EPOCHS; epoch++)
            end_in_evaluation(t, epoch, &whole, &result);
    }
    resume_close(&whole);
    resume_empty(t, "broken");
}

/* An evaluation at the end of a training that a limit ends within an epoch: what is resumed without
   a further step evaluates. */
static void the_last_evaluation_breaks_off(test *t)
{
    const setting *s = t->user;
    training w;
    watch r = {.stop_asked = 3};
    dpt_fit_result result = {.size = sizeof result};
    resume_empty(t, "part");
    for (size_t i = 0; i < 3; i++) {
        if (!resume_open(t, resume_devices, &resume_sgd, &w)) return;
        dpt_fit_options fit = watched_options(s, "part", &r);
        fit.validation = NULL;
        fit.test = s->validation;
        fit.epochs = 0;
        fit.max_steps = 3;
        fit.resume = i == 2;
        const dpt_status status = dpt_fit(w.trainer, &fit, &result);
        /* It has not ended, so it is not begun anew by accident. */
        CHECK_STATUS(status, i == 1 ? DPT_E_INVALID : DPT_OK);
        if (i != 1) CHECK(result.stopped == (i == 0));
        if (i != 1) CHECK(isnan(result.test_loss) == (i == 0));
        if (i != 1) CHECK_SIZE(result.steps, 3);
        resume_close(&w);
        r.stop_asked = 0;
    }
    resume_empty(t, "part");
}

/* Images whose loss is not finite. */
static dpt_status make_huge(dpt_context *context, dpt_dataset **out)
{
    enum { N = 4 };
    static float images[N * FLAT_PIXELS];
    static const int32_t labels[N] = {0};
    for (size_t i = 0; i < N * FLAT_PIXELS; i++)
        images[i] = 3e38f;
    const dpt_dataset_memory memory = {.size = sizeof memory,
                                       .images = images,
                                       .labels = labels,
                                       .count = N,
                                       .height = FLAT_SIDE,
                                       .width = FLAT_SIDE,
                                       .channels = FLAT_CHANNELS,
                                       .outputs = FLAT_CLASSES,
                                       .dtype = DPT_F32,
                                       .label_dtype = DPT_I32};
    return dpt_dataset_from_memory(context, &memory, out);
}

/* dpt_fit_options.wants_checkpoint: at the end of an epoch, even if another is being written. */
static bool wants_at_end(void *user)
{
    const record *r = user;
    return r->n_steps == STEPS_PER_EPOCH;
}

/* The weights of a checkpoint of before an evaluation are of no use if the loss is not finite: it
   is deleted, and the older one, if there is one, is still there. */
static void a_loss_that_is_not_finite_revokes(test *t)
{
    const setting *s = t->user;
    dpt_fit_result result = {.size = sizeof result};
    dpt_dataset *huge = NULL;
    REQUIRE_OK(make_huge(s->context, &huge));
    for (size_t older = 0; older < 2; older++) {
        size_t *numbers = NULL, n = 0;
        training w;
        record r = {.n_steps = 0};
        resume_empty(t, "huge");
        (void)unlink("huge.jsonl");
        if (resume_open(t, resume_devices, &resume_sgd, &w)) {
            dpt_fit_options fit = resume_fit_options(s, "huge", &r);
            fit.checkpoint_every = (dpt_interval){.steps = older ? 3 : STEPS};
            fit.wants_checkpoint = wants_at_end;
            fit.checkpoint_keep = 1;
            fit.validation = NULL;
            fit.test = huge;
            fit.log = "huge.jsonl";
            CHECK_STATUS(dpt_fit(w.trainer, &fit, &result), DPT_E_NOT_FINITE);
            CHECK_OK(dpti_folder_list("huge", &numbers, &n, NULL));
            if (CHECK_SIZE(n, older) && older) CHECK_SIZE(numbers[0], 3);
            CHECK_SIZE(count_events("huge.jsonl", "checkpoint"), older + 1);
            free(numbers);
        }
        resume_close(&w);
    }
    dpt_dataset_destroy(huge);
    resume_empty(t, "huge");
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"an evaluation breaks off", an_evaluation_breaks_off},
        {"the last evaluation breaks off", the_last_evaluation_breaks_off},
        {"a loss that is not finite revokes", a_loss_that_is_not_finite_revokes},
    };
    return resume_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
