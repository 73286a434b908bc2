/* Tests files that are written during training: pipes without a reader, two writers of one file,
   and a file that may not grow. */
#include "harness.h"
#include "io/output.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static const char what[] = "the log ";

static void write_text(test *t, const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    if (!CHECK(file)) return;
    CHECK(fputs(text, file) >= 0 && fclose(file) == 0);
}

static bool holds(const char *path, const char *text)
{
    char found[64] = "";
    FILE *file = fopen(path, "r");
    const size_t n = file ? fread(found, 1, sizeof found - 1, file) : 0;
    if (file) (void)fclose(file);
    return n == strlen(text) && strcmp(found, text) == 0;
}

/* ---- Pipes ----------------------------------------------------------------------------------- */

static volatile sig_atomic_t n_signals;

static void count_signal(int number)
{
    (void)number;
    n_signals = n_signals + 1;
}

/* A pipe that somebody has opened for reading, and left. */
static bool open_deserted(const char *path, dpti_output *out, dpt_error *error)
{
    (void)unlink(path);
    if (mkfifo(path, 0600) != 0) return false;
    const int reader = open(path, O_RDONLY | O_NONBLOCK);
    const bool opened = reader >= 0 && dpti_output_open(what, path, out, error) == DPT_OK;
    return reader >= 0 && close(reader) == 0 && opened;
}

static void a_pipe_that_nobody_reads_any_more(test *t)
{
    dpt_error error = {0};
    dpti_output output;
    struct sigaction before = {.sa_handler = SIG_DFL}, now;
    const struct sigaction counting = {.sa_handler = count_signal};
    CHECK(sigaction(SIGPIPE, &counting, &before) == 0);
    n_signals = 0;
    if (CHECK(open_deserted("deserted", &output, &error))) {
        CHECK_STATUS(dpti_output_write(&output, "x\n", 2, &error), DPT_E_IO);
        CHECK(error.native == EPIPE);
        CHECK_CONTAINS(error.message, "the log deserted: Broken pipe; nobody reads it any more");
        CHECK_OK(dpti_output_close(&output, &error));
    }
    CHECK(n_signals == 0);
    CHECK(sigaction(SIGPIPE, &before, &now) == 0 && now.sa_handler == count_signal);
}

/* One of the program's own, which it has blocked and not taken yet. */
static void a_signal_that_waits_is_left(test *t)
{
    dpt_error error = {0};
    dpti_output output;
    sigset_t pipe, before, waiting;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    CHECK(sigprocmask(SIG_BLOCK, &pipe, &before) == 0 && raise(SIGPIPE) == 0);
    if (CHECK(open_deserted("waiting", &output, &error))) {
        CHECK_STATUS(dpti_output_write(&output, "x\n", 2, &error), DPT_E_IO);
        CHECK_OK(dpti_output_close(&output, &error));
    }
    CHECK(sigpending(&waiting) == 0 && sigismember(&waiting, SIGPIPE) == 1);
    int number = 0;
    CHECK(sigwait(&pipe, &number) == 0 && sigprocmask(SIG_SETMASK, &before, NULL) == 0);
}

static void a_pipe_that_nobody_reads_yet(test *t)
{
    dpt_error error = {0};
    dpti_output output;
    (void)unlink("unread");
    if (!CHECK(mkfifo("unread", 0600) == 0)) return;
    CHECK_STATUS(dpti_output_open(what, "unread", &output, &error), DPT_E_IO);
    CHECK(error.native == ENXIO);
}

/* ---- Files ----------------------------------------------------------------------------------- */

static void one_writer_at_a_time(test *t)
{
    dpt_error error = {0};
    dpti_output first, second;
    write_text(t, "held", "old");
    REQUIRE_OK(dpti_output_open(what, "held", &first, &error));
    CHECK_STATUS(dpti_output_open(what, "held", &second, &error), DPT_E_STATE);
    CHECK_CONTAINS(error.message, "another training writes the log held: name another file");
    CHECK(holds("held", "old"));
    CHECK_OK(dpti_output_cut(&first, 0, &error));
    CHECK_OK(dpti_output_write(&first, "new\n", 4, &error));
    CHECK_OK(dpti_output_close(&first, &error));
    CHECK(holds("held", "new\n"));
    REQUIRE_OK(dpti_output_open(what, "held", &second, &error));
    CHECK_OK(dpti_output_close(&second, &error));
}

static void what_does_not_fit_is_taken_back(test *t)
{
    dpt_error error = {0};
    dpti_output output;
    struct rlimit before;
    write_text(t, "cut", "abcdef");
    REQUIRE_OK(dpti_output_open(what, "cut", &output, &error));
    CHECK_OK(dpti_output_cut(&output, 3, &error));
    CHECK(signal(SIGXFSZ, SIG_IGN) != SIG_ERR && getrlimit(RLIMIT_FSIZE, &before) == 0);
    CHECK(setrlimit(RLIMIT_FSIZE, &(struct rlimit){5, before.rlim_max}) == 0);
    CHECK_STATUS(dpti_output_write(&output, "ghij", 4, &error), DPT_E_IO);
    CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
    CHECK(holds("cut", "abc"));
    CHECK_OK(dpti_output_write(&output, "k", 1, &error));
    CHECK_OK(dpti_output_close(&output, &error));
    CHECK(holds("cut", "abck"));
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"a_pipe_that_nobody_reads_any_more", a_pipe_that_nobody_reads_any_more},
        {"a_signal_that_waits_is_left", a_signal_that_waits_is_left},
        {"a_pipe_that_nobody_reads_yet", a_pipe_that_nobody_reads_yet},
        {"one_writer_at_a_time", one_writer_at_a_time},
        {"what_does_not_fit_is_taken_back", what_does_not_fit_is_taken_back},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
