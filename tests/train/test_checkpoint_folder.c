/* Tests of checkpoints that are damaged, of the folder that has them, and of full disks and missing
   folders. */
#include "harness.h"
#include "io/file.h"
#include "io/folder.h"
#include "io/safetensors.h"
#include "train/resume.h"
#include "train/support.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Damage ---------------------------------------------------------------------------------- */

static bool write_bytes(const char *path, const uint8_t *bytes, size_t n)
{
    FILE *file = fopen(path, "wb");
    const bool written = file && fwrite(bytes, 1, n, file) == n;
    return file && fclose(file) == 0 && written;
}

/* Returns whether these n bytes are taken for a file that is whole. */
static bool is_accepted(const uint8_t *bytes, size_t n)
{
    dpti_safetensors *file = NULL;
    dpt_error error;
    if (dpti_safetensors_parse_sealed(&(dpti_file_bytes){"x", bytes, n}, &file, &error) != DPT_OK)
        return false;
    dpti_safetensors_close(file);
    return true;
}

/* The file has n bytes, and room for one more. */
static void check_bytes(test *t, uint8_t *bytes, size_t n)
{
    static const uint8_t flips[] = {0x01, 0x20, 0x80, 0xff};
    size_t n_accepted = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t f = 0; f < sizeof flips; f++) {
            bytes[i] ^= flips[f];
            n_accepted += is_accepted(bytes, n);
            bytes[i] ^= flips[f];
        }
    for (size_t i = 0; i < n; i++)
        n_accepted += is_accepted(bytes, i);
    bytes[n] = 0;
    n_accepted += is_accepted(bytes, n + 1);
    CHECK_SIZE(n_accepted, 0);
    CHECK(is_accepted(bytes, n));
}

/* The trainer, which has the state of the file, stays as it is. */
static void check_loads(test *t, dpt_trainer *trainer, uint8_t *bytes, size_t n)
{
    static const char damaged[] = "damaged.safetensors";
    for (size_t i = 0; i < n; i += 97) {
        bytes[i] ^= 4;
        CHECK(write_bytes(damaged, bytes, n));
        CHECK_STATUS(dpt_trainer_load_state(trainer, damaged), DPT_E_FORMAT);
        /* Behind the seal's own place its weights are not for `load` either. */
        if (i > 60) CHECK_STATUS(dpt_trainer_load(trainer, damaged), DPT_E_FORMAT);
        bytes[i] ^= 4;
        CHECK(write_bytes(damaged, bytes, i));
        CHECK_STATUS(dpt_trainer_load_state(trainer, damaged), DPT_E_FORMAT);
    }
}

/* Any byte changed, any end missing, anything more: refused, whoever reads it. */
static void damage_is_never_loaded(test *t)
{
    static const char one[] = "cpu:threads=1", whole[] = "whole.safetensors";
    dpti_content file = {.bytes = NULL};
    dpt_error error;
    training w = {.devices = NULL}, before = w;
    if (resume_open(t, one, &resume_adamw, &w) && resume_open(t, one, &resume_adamw, &before)) {
        resume_make_steps(t, &w, 2);
        CHECK_OK(dpt_trainer_save_state(w.trainer, whole));
        CHECK_OK(dpt_trainer_load_state(before.trainer, whole));
        REQUIRE_OK(dpti_file_read(whole, &file, &error));
        uint8_t *bytes = realloc(file.bytes, file.n_bytes + 1);
        REQUIRE(bytes && file.n_bytes > 1000);
        check_bytes(t, bytes, file.n_bytes);
        check_loads(t, w.trainer, bytes, file.n_bytes);
        resume_check_same(t, &before, &w);
        free(bytes);
    }
    resume_close(&before);
    resume_close(&w);
}

/* ---- Folders --------------------------------------------------------------------------------- */

static dpt_status fit_in(training *w, const setting *s, const char *folder, size_t keep,
                         bool resume, record *r, dpt_fit_result *out)
{
    dpt_fit_options fit = resume_fit_options(s, folder, r);
    fit.checkpoint_keep = keep;
    fit.resume = resume;
    return dpt_fit(w->trainer, &fit, out);
}

static void the_newest_few_stay(test *t)
{
    const setting *s = t->user;
    size_t *numbers = NULL, n = 0;
    training w;
    record r = {.n_steps = 0};
    dpt_fit_result result = {.size = sizeof result};
    resume_empty(t, "few");
    if (resume_open(t, resume_devices, &resume_sgd, &w)) {
        CHECK_OK(fit_in(&w, s, "few", 3, false, &r, &result));
        CHECK_OK(dpti_folder_list("few", &numbers, &n, NULL));
        if (CHECK_SIZE(n, 3)) CHECK_SIZE(numbers[0], STEPS);
        free(numbers);
    }
    resume_close(&w);
}

/* A damaged one is passed over with a word, and an older one taken. */
static void a_damaged_one_is_passed_over(test *t)
{
    const setting *s = t->user;
    training w;
    record r = {.stop_after = 8};
    dpt_fit_result result = {.size = sizeof result};
    resume_empty(t, "damaged");
    if (resume_open(t, resume_devices, &resume_sgd, &w))
        CHECK_OK(fit_in(&w, s, "damaged", 9, false, &r, &result));
    resume_close(&w);
    const size_t n = forget_checkpoints(t, "damaged", STEPS);
    size_t *numbers = NULL, n_listed = 0;
    REQUIRE(n > 1 && dpti_folder_list("damaged", &numbers, &n_listed, NULL) == DPT_OK);
    char *newest = dpti_folder_path("damaged", numbers[0]);
    CHECK(newest && truncate(newest, 2000) == 0);
    r = (record){.n_steps = 0};
    if (resume_open(t, resume_devices, &resume_sgd, &w)) {
        CHECK_OK(fit_in(&w, s, "damaged", 9, true, &r, &result));
        CHECK_SIZE(r.n_warnings, 1);
        CHECK_SIZE(r.n_steps, STEPS - numbers[1]);
    }
    resume_close(&w);
    free(newest);
    free(numbers);
    /* Where none is sound, nothing is begun over them. */
    CHECK_OK(dpti_folder_list("damaged", &numbers, &n_listed, NULL));
    for (size_t i = 0; i < n_listed; i++) {
        char *path = dpti_folder_path("damaged", numbers[i]);
        CHECK(path && truncate(path, 100) == 0);
        free(path);
    }
    free(numbers);
    r = (record){.n_steps = 0};
    if (resume_open(t, resume_devices, &resume_sgd, &w)) {
        CHECK_STATUS(fit_in(&w, s, "damaged", 9, true, &r, &result), DPT_E_FORMAT);
        CHECK_SIZE(r.n_warnings, n_listed);
        CHECK_STATUS(fit_in(&w, s, "damaged", 9, false, &r, &result), DPT_E_INVALID);
        CHECK_SIZE(r.n_steps, 0);
    }
    resume_close(&w);
}

/* Files that the system does not let be read may be sound: nobody is told to remove them, nor that
   the training was interrupted. */
static void one_that_cannot_be_read_is_no_damage(test *t)
{
    const setting *s = t->user;
    training w;
    record r = {.n_steps = 0};
    dpt_fit_result result = {.size = sizeof result};
    resume_empty(t, "unread");
    (void)mkdir("unread", 0777);
    CHECK(symlink("checkpoint-000000015.safetensors", "unread/checkpoint-000000015.safetensors") ==
          0); /* a loop: no user may follow it, root neither */
    for (size_t resume = 0; resume < 2; resume++) {
        if (resume_open(t, resume_devices, &resume_sgd, &w)) {
            const char *message = dpt_error_message(s->context);
            CHECK_STATUS(fit_in(&w, s, "unread", 2, resume == 1, &r, &result), DPT_E_IO);
            CHECK_CONTAINS(message, strerror(ELOOP));
            CHECK_CONTAINS(message, "readable");
            CHECK(!strstr(message, "remove") && !strstr(message, "interrupted"));
        }
        resume_close(&w);
    }
    CHECK_SIZE(r.n_steps, 0);
    resume_empty(t, "unread");
}

/* An interrupted training is not begun over by accident; one that has ended is. */
static void an_interrupted_one_is_not_overwritten(test *t)
{
    const setting *s = t->user;
    training w;
    record r = {.stop_after = 4};
    dpt_fit_result result = {.size = sizeof result};
    resume_empty(t, "again");
    for (size_t i = 0; i < 4; i++) {
        if (resume_open(t, resume_devices, &resume_sgd, &w)) {
            const dpt_status status = fit_in(&w, s, "again", 2, i == 2, &r, &result);
            CHECK_STATUS(status, i == 1 ? DPT_E_INVALID : DPT_OK);
            if (i == 1)
                CHECK_CONTAINS(dpt_error_message(s->context), "a training that was interrupted");
        }
        resume_close(&w);
        r.stop_after = 0;
    }
    size_t *numbers = NULL, n = 0;
    CHECK_OK(dpti_folder_list("again", &numbers, &n, NULL));
    CHECK_SIZE(n, 2);
    free(numbers);
}

static void what_killed_runs_left_is_removed(test *t)
{
    const setting *s = t->user;
    training w;
    record r = {.n_steps = 0};
    dpt_fit_result result = {.size = sizeof result};
    resume_empty(t, "left");
    (void)mkdir("left", 0777);
    CHECK(write_bytes("left/.dptrain-999999999-0.tmp", (const uint8_t *)"x", 1));
    CHECK(write_bytes("left/.dptrain-1-0.tmp", (const uint8_t *)"x", 1)); /* process 1 is there */
    CHECK(write_bytes("left/checkpoint-12.safetensors", (const uint8_t *)"x", 1)); /* not ours */
    if (resume_open(t, resume_devices, &resume_sgd, &w)) {
        CHECK_OK(fit_in(&w, s, "left", 2, false, &r, &result));
        CHECK(access("left/.dptrain-999999999-0.tmp", F_OK) != 0);
        CHECK(access("left/.dptrain-1-0.tmp", F_OK) == 0);
        CHECK(access("left/checkpoint-12.safetensors", F_OK) == 0);
    }
    resume_close(&w);
}

/* ---- Disks ----------------------------------------------------------------------------------- */

static void limit_files(rlim_t n_bytes)
{
    struct rlimit limit = {.rlim_cur = n_bytes, .rlim_max = RLIM_INFINITY};
    (void)setrlimit(RLIMIT_FSIZE, &limit);
}

/* Checkpoints are written in the background, however long that takes on a busy machine: trouble
   begins when there is one, */
static void wait_for_one(const char *folder)
{
    for (size_t i = 0; i < 30000; i++) {
        size_t *numbers = NULL, n = 0;
        const bool found = dpti_folder_list(folder, &numbers, &n, NULL) == DPT_OK && n > 0;
        free(numbers);
        if (found) return;
        (void)usleep(1000);
    }
}

/* and is over when it has been told of. */
static bool is_over(const record *r, size_t step)
{
    return step >= 9 && r->n_warnings > 0;
}

static void fill_disk(record *r, size_t step)
{
    if (step == 4) {
        wait_for_one("full");
        limit_files(3000);
    }
    if (step > 4) (void)usleep(20000);
    if (is_over(r, step)) limit_files(RLIM_INFINITY);
}

static void take_folder_away(record *r, size_t step)
{
    if (step == 4) {
        wait_for_one("full");
        (void)rename("full", "away");
    }
    if (step > 4) (void)usleep(20000);
    if (is_over(r, step)) (void)rename("away", "full"); /* fails where it is back */
}

/* Training goes on, the older checkpoint stays sound, and later ones are written again. */
static void fails_over(test *t, void (*trouble)(record *r, size_t step), const char *word)
{
    const setting *s = t->user;
    training w = {.devices = NULL}, whole = w;
    record r = {.at = trouble}, quiet = {.n_steps = 0};
    dpt_fit_result result = {.size = sizeof result};
    resume_empty(t, "full");
    if (resume_open(t, resume_devices, &resume_sgd, &w) &&
        resume_open(t, resume_devices, &resume_sgd, &whole)) {
        CHECK_OK(fit_in(&w, s, "full", 2, false, &r, &result));
        CHECK_SIZE(r.n_steps, STEPS);
        CHECK(r.n_warnings >= 1 && r.n_warnings <= 2);
        CHECK_CONTAINS(r.last, word);
        dpt_fit_options fit = resume_fit_options(s, NULL, &quiet);
        CHECK_OK(dpt_fit(whole.trainer, &fit, &result));
        resume_check_same(t, &whole, &w);
        CHECK_SIZE(forget_checkpoints(t, "full", STEPS), 2);
    }
    resume_close(&whole);
    resume_close(&w);
}

static void a_full_disk_is_survived(test *t)
{
    signal(SIGXFSZ, SIG_IGN);
    fails_over(t, fill_disk, "cannot write");
    limit_files(RLIM_INFINITY);
}

static void a_folder_that_is_gone_is_survived(test *t)
{
    fails_over(t, take_folder_away, "cannot write");
}

static void stays_full(record *r, size_t step)
{
    (void)r;
    if (step != 4) return;
    wait_for_one("full");
    limit_files(3000);
}

/* What is not there in the end is a failure, and the older checkpoint is still sound. */
static void a_disk_that_stays_full_is_a_failure(test *t)
{
    const setting *s = t->user;
    training w;
    record r = {.at = stays_full};
    dpt_fit_result result = {.size = sizeof result};
    signal(SIGXFSZ, SIG_IGN);
    resume_empty(t, "full");
    if (resume_open(t, resume_devices, &resume_sgd, &w)) {
        CHECK_STATUS(fit_in(&w, s, "full", 2, false, &r, &result), DPT_E_IO);
        CHECK_SIZE(r.n_steps, STEPS);
        limit_files(RLIM_INFINITY);
        resume_close(&w);
        r = (record){.n_steps = 0};
        if (resume_open(t, resume_devices, &resume_sgd, &w))
            CHECK_OK(fit_in(&w, s, "full", 2, true, &r, &result));
        CHECK(r.n_steps >= STEPS - 4 && r.n_steps < STEPS);
    }
    limit_files(RLIM_INFINITY);
    resume_close(&w);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"damage is never loaded", damage_is_never_loaded},
        {"the newest few stay", the_newest_few_stay},
        {"a damaged one is passed over", a_damaged_one_is_passed_over},
        {"one that cannot be read is no damage", one_that_cannot_be_read_is_no_damage},
        {"an interrupted one is not overwritten", an_interrupted_one_is_not_overwritten},
        {"a full disk is survived", a_full_disk_is_survived},
        {"a folder that is gone is survived", a_folder_that_is_gone_is_survived},
        {"a disk that stays full is a failure", a_disk_that_stays_full_is_a_failure},
        {"what killed runs left is removed", what_killed_runs_left_is_removed},
    };
    return resume_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
