/* What --shard auto has chosen (chosen.h). */
#include "chosen.h"

#include <stdio.h>
#include <string.h>

static double mebibytes(size_t bytes)
{
    return (double)bytes / (1024.0 * 1024.0);
}

/* ---- The lines ------------------------------------------------------------------------------- */

/* The name of a device of the trainer. */
static const char *name_of(const cli_session *session, size_t device)
{
    dpt_device_info about = {.size = sizeof about};
    if (dpt_trainer_device(session->trainer, device, &about) != DPT_OK) return "a device";
    return about.id;
}

/* Why the first combination, which is the training as it is, was not taken. */
static void print_reason(const cli_session *session, const dpt_candidate *first)
{
    if (first->need_bytes > 0)
        printf(": with %s %s needs %zu bytes and has %zu\n", first->options,
               name_of(session, first->device), first->need_bytes, first->limit_bytes);
    else
        printf(": with %s it does not fit\n", first->options);
}

/* Of all devices: what is copied because of parts, and what is computed again. */
typedef struct costs {
    size_t in_step, in_micro_batch; /* bytes */
    double again, all;              /* operations */
} costs;

static dpt_status add_up(const cli_session *session, costs *out)
{
    *out = (costs){.in_step = 0};
    for (size_t i = 0; i < dpt_trainer_device_count(session->trainer); i++) {
        dpt_device_plan plan = {.size = sizeof plan};
        DPT_TRY(dpt_trainer_plan(session->trainer, i, &plan));
        out->in_step += plan.update_bytes;
        out->in_micro_batch += plan.gathered_bytes;
        out->again += plan.recomputed_flops;
        out->all += plan.flops;
    }
    return DPT_OK;
}

static dpt_status print_costs(const cli_session *session, int indent)
{
    costs c;
    DPT_TRY(add_up(session, &c));
    printf("%*sit copies %.1f MiB in each step", indent, "", mebibytes(c.in_step));
    if (c.in_micro_batch > 0)
        printf(" and %.1f MiB in each micro-batch", mebibytes(c.in_micro_batch));
    printf(" between host memory and the devices, and computes %.1f %% of the operations again\n",
           c.all > 0 ? 100.0 * c.again / c.all : 0.0);
    return DPT_OK;
}

dpt_status cli_print_chosen(const cli_session *session, const char *label)
{
    const size_t n = dpt_trainer_candidate_count(session->trainer);
    dpt_candidate first = {.size = sizeof first}, chosen = {.size = sizeof chosen};
    if (n == 0) return DPT_OK;
    DPT_TRY(dpt_trainer_candidate(session->trainer, 0, &first));
    DPT_TRY(dpt_trainer_candidate(session->trainer, n - 1, &chosen));
    printf("%s--shard auto chose %s", label, chosen.options);
    if (n == 1) {
        printf(": the training fits as it is\n");
        return DPT_OK;
    }
    print_reason(session, &first);
    return print_costs(session, (int)strlen(label));
}

/* ---- The table ------------------------------------------------------------------------------- */

/* The device that the chosen combination fills most. */
static dpt_status find_fullest(const cli_session *session, dpt_candidate *chosen)
{
    double most = -1;
    for (size_t i = 0; i < dpt_trainer_device_count(session->trainer); i++) {
        dpt_device_plan plan = {.size = sizeof plan};
        dpt_device_info about = {.size = sizeof about};
        DPT_TRY(dpt_trainer_plan(session->trainer, i, &plan));
        DPT_TRY(dpt_trainer_device(session->trainer, i, &about));
        const double part = (double)cli_plan_bytes(&plan) / ((double)about.memory_bytes + 1);
        if (part <= most) continue;
        most = part;
        chosen->device = i;
        chosen->need_bytes = cli_plan_bytes(&plan);
        chosen->limit_bytes = about.memory_bytes;
    }
    return DPT_OK;
}

/* The widths of the columns of text. */
typedef struct widths {
    int options, device;
} widths;

static void print_row(const cli_session *session, const widths *w, const dpt_candidate *c)
{
    char needs[24] = "-", has[24] = "-";
    const bool known = c->need_bytes > 0;
    if (known) snprintf(needs, sizeof needs, "%zu", c->need_bytes);
    if (known && c->limit_bytes > 0) snprintf(has, sizeof has, "%zu", c->limit_bytes);
    printf("%-*s  %-*s  %14s %14s  %s", w->options, c->options, w->device,
           known ? name_of(session, c->device) : "-", needs, has, c->fits ? "yes" : "no");
}

static dpt_status find_options_width(const cli_session *session, int *out)
{
    size_t width = sizeof "OPTIONS" - 1;
    for (size_t i = 0; i < dpt_trainer_candidate_count(session->trainer); i++) {
        dpt_candidate c = {.size = sizeof c};
        DPT_TRY(dpt_trainer_candidate(session->trainer, i, &c));
        if (strlen(c.options) > width) width = strlen(c.options);
    }
    *out = (int)width;
    return DPT_OK;
}

dpt_status cli_print_candidates(const cli_session *session, double step_seconds)
{
    const size_t n = dpt_trainer_candidate_count(session->trainer);
    widths w = {.device = cli_id_width(session->devices)};
    if (n == 0) return DPT_OK;
    DPT_TRY(find_options_width(session, &w.options));
    printf("%-*s  %-*s  %14s %14s  %s%s\n", w.options, "OPTIONS", w.device, "DEVICE", "NEEDS BYTES",
           "HAS BYTES", "FITS", step_seconds > 0 ? "     STEP MS" : "");
    for (size_t i = 0; i < n; i++) {
        dpt_candidate c = {.size = sizeof c};
        DPT_TRY(dpt_trainer_candidate(session->trainer, i, &c));
        if (c.fits) DPT_TRY(find_fullest(session, &c));
        print_row(session, &w, &c);
        if (step_seconds > 0 && c.fits) printf("%12.3f", 1e3 * step_seconds);
        if (step_seconds > 0 && !c.fits) printf("%13s", "-");
        printf("\n");
    }
    return DPT_OK;
}
