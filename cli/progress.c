/* What training shows while it runs: a bar on a terminal, and a line for each epoch on stdout. */
#include "cli.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* ---- The bar --------------------------------------------------------------------------------- */

enum { BAR_CELLS = 24, MIN_CELLS = 5, LINE_BYTES = 256 };

static const double redraw_seconds = 0.1;
static const double smoothing = 0.05;

static bool able(void)
{
    const char *term = getenv("TERM");
    return term && *term && strcmp(term, "dumb") != 0;
}

bool cli_can_redraw(int descriptor)
{
    return able() && isatty(descriptor);
}

void cli_progress_init(cli_progress *progress, bool quiet)
{
    const char *no_color = getenv("NO_COLOR");
    *progress = (cli_progress){
        .quiet = quiet,
        .bar = !quiet && cli_can_redraw(STDERR_FILENO) && isatty(STDOUT_FILENO),
        .colour = able() && !(no_color && *no_color),
    };
}

int cli_terminal_columns(void)
{
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
    return 80;
}

/* Seconds until the nearest limit; negative if there is no limit, or no step yet. */
static double seconds_left(const cli_progress *p, const dpt_fit_progress *now)
{
    double left = -1;
    if (now->steps_total > now->steps_done && now->steps_done > 0)
        left =
            now->seconds / (double)now->steps_done * (double)(now->steps_total - now->steps_done);
    if (p->max_seconds > 0 && (left < 0 || p->max_seconds - now->seconds < left))
        left = p->max_seconds > now->seconds ? p->max_seconds - now->seconds : 0;
    return left;
}

static void format_left(double seconds, char out[32])
{
    out[0] = '\0';
    if (!(seconds >= 0 && seconds < 1e8)) return;
    const unsigned long total = (unsigned long)(seconds + 0.5);
    if (total >= 3600)
        snprintf(out, 32, "  %lu:%02lu:%02lu left", total / 3600, total / 60 % 60, total % 60);
    else
        snprintf(out, 32, "  %lu:%02lu left", total / 60, total % 60);
}

static void format_epoch(const cli_progress *p, size_t epoch, char out[48])
{
    if (p->epochs)
        snprintf(out, 48, "epoch %zu/%zu", epoch, p->epochs);
    else
        snprintf(out, 48, "epoch %zu", epoch);
}

/* Draws "[####----]", at most BAR_CELLS wide, or nothing if there is too little room. */
static void draw_bar(const cli_progress *p, double done, int room)
{
    const int cells = room - 3 < BAR_CELLS ? room - 3 : BAR_CELLS;
    if (cells < MIN_CELLS) return;
    char bar[BAR_CELLS + 1];
    memset(bar, '-', (size_t)cells);
    memset(bar, '#', (size_t)(done * cells));
    bar[cells] = '\0';
    fprintf(stderr, " [%s%s%s]", p->colour ? "\033[32m" : "", bar, p->colour ? "\033[0m" : "");
}

static void draw(cli_progress *p, const dpt_fit_progress *now)
{
    char epoch[48], left[32], text[LINE_BYTES], accuracy[32] = "";
    const size_t total = p->samples_per_epoch ? p->samples_per_epoch : 1;
    const double done = fmin((double)p->epoch_samples / (double)total, 1);
    if (!p->regression)
        snprintf(accuracy, sizeof accuracy, "  acc %.4f",
                 p->epoch_labels ? (double)p->epoch_hits / (double)p->epoch_labels : 0);
    format_epoch(p, p->epoch, epoch);
    format_left(seconds_left(p, now), left);
    snprintf(text, sizeof text, " %3.0f %%  loss %.4f%s  %.0f %s%s", done * 100, p->loss, accuracy,
             p->unit.per_sample * p->rate, p->unit.name, left);
    /* A line that reaches the edge would wrap, and could not be erased. */
    const int columns = cli_terminal_columns() - 1;
    const int n_epoch = (int)strlen(epoch), n_text = (int)strlen(text);
    fprintf(stderr, "\r\033[K%.*s", columns, epoch);
    draw_bar(p, done, columns - n_epoch - n_text);
    if (n_epoch < columns) fprintf(stderr, "%.*s", columns - n_epoch, text);
    fflush(stderr);
    p->drawn = true;
    p->last_draw = now->seconds;
}

void cli_progress_end(cli_progress *progress)
{
    if (!progress->drawn) return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    progress->drawn = false;
}

void cli_progress_notice(dpt_notice kind, const char *text, void *user)
{
    cli_progress *p = user;
    if (p->quiet && kind == DPT_NOTICE_INFO) return;
    cli_progress_end(p);
    (void)cli_error(CLI_OK, "%s%s", kind == DPT_NOTICE_WARNING ? "warning: " : "", text);
}

/* ---- Steps and epochs ------------------------------------------------------------------------ */

static void take_step(cli_progress *p, const dpt_step_metrics *step)
{
    const double rate = step->seconds > 0 ? (double)step->samples / step->seconds : p->rate;
    const bool first = p->epoch == 0;
    if (step->epoch != p->epoch) {
        p->epoch = step->epoch;
        p->epoch_samples = p->epoch_labels = 0;
        p->epoch_hits = 0;
    }
    p->epoch_samples += step->samples;
    p->epoch_labels += step->labels;
    p->epoch_hits += step->hits;
    p->step_seconds += step->seconds;
    p->data_seconds += step->data_seconds;
    p->loss = first ? step->loss : p->loss + smoothing * (step->loss - p->loss);
    p->rate = first ? rate : p->rate + smoothing * (rate - p->rate);
}

/* A regression has no accuracy. */
static void print_part(const cli_progress *p, const char *part, double loss, double accuracy)
{
    printf("  %s loss %.4f", part, loss);
    if (!p->regression) printf(" accuracy %.4f", accuracy);
}

static void print_epoch(const cli_progress *p, const dpt_epoch_metrics *epoch)
{
    char name[48];
    format_epoch(p, epoch->epoch, name);
    printf("%s", name);
    print_part(p, "train", epoch->train_loss, epoch->train_accuracy);
    if (epoch->validated)
        print_part(p, "validation", epoch->validation_loss, epoch->validation_accuracy);
    if (epoch->tested) print_part(p, "test", epoch->test_loss, epoch->test_accuracy);
    printf("  %.1f s  %.0f %s\n", epoch->seconds, p->unit.per_sample * epoch->images_per_second,
           p->unit.name);
    fflush(stdout);
}

static void tell_event(const dpt_device_event *event)
{
    switch (event->kind) {
    case DPT_DEVICE_LOST:
        (void)cli_error(0, "device %s is lost, and step %zu is done without it: %s", event->id,
                        event->step, event->message);
        break;
    case DPT_ISLAND_LOST: (void)cli_error(0, "warning: %s", event->message); break;
    case DPT_REPLICA_RESTORED:
        (void)cli_error(0, "device %s, before step %zu: %s", event->id, event->step,
                        event->message);
        break;
    case DPT_DEVICE_READMITTED:
        (void)cli_error(0, "device %s is readmitted, and step %zu is done with it: %s", event->id,
                        event->step, event->message);
        break;
    case DPT_DEVICE_STANDBY:
        (void)cli_error(0, "device %s is on standby: %s", event->id, event->message);
        break;
    case DPT_DEVICE_PRESENT:
        (void)cli_error(0, "device %s takes part again: %s", event->id, event->message);
        break;
    case DPT_DEVICE_JOINED:
        (void)cli_error(0, "device %s takes part from step %zu on: %s", event->id, event->step,
                        event->message);
        break;
    case DPT_STEPS_IN_SEGMENTS:
        (void)cli_error(0, "warning: device %s is alone and cannot make single-launch steps: %s",
                        event->id, event->message);
        break;
    case DPT_DEVICE_NOT_FINITE: break; /* the error that ends training says so */
    }
}

int cli_progress_show(const dpt_fit_progress *progress, void *user)
{
    cli_progress *p = user;
    if (progress->event) {
        cli_progress_end(p);
        tell_event(progress->event);
    }
    if (progress->step) {
        take_step(p, progress->step);
        if (p->bar && (!p->drawn || progress->seconds - p->last_draw >= redraw_seconds))
            draw(p, progress);
    }
    if (progress->epoch && !p->quiet) {
        cli_progress_end(p);
        print_epoch(p, progress->epoch);
    }
    return cli_signals_caught(); /* which all processes learn */
}
