/* The figures of a run as curves of TensorBoard. */
#include "fit/board.h"

#include "base/print.h"
#include "context/context.h"
#include "io/svg.h"
#include "train/evaluation/classify.h"
#include "train/peers/peers.h"
#include "train/plan/shards.h"
#include "train/recovery/recover.h"
#include "train/replicas/state_buffers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The curves that every step has, beside those of its devices. */
enum { STEP_CURVES = 4 };

/* ---- Begin and end --------------------------------------------------------------------------- */

static const char *const curve_names[DPTI_DEVICE_CURVES] = {
    [DPTI_CURVE_SHARE] = "share",
    [DPTI_CURVE_BUSY] = "busy_seconds",
    [DPTI_CURVE_EXCHANGE] = "exchange_seconds",
    [DPTI_CURVE_WAITING] = "waiting_seconds",
};

/* Names the curves of the devices.  Ids may be alike, so the number of the device is in the tag. */
static bool make_tags(dpti_board *board)
{
    const dpt_trainer *t = board->trainer;
    board->tags = calloc(t->n_devices * DPTI_DEVICE_CURVES, sizeof *board->tags);
    board->scalars =
        calloc(STEP_CURVES + t->n_devices * DPTI_DEVICE_CURVES, sizeof *board->scalars);
    if (!board->tags || !board->scalars) return false;
    for (size_t i = 0; i < t->n_devices; i++)
        for (size_t k = 0; k < DPTI_DEVICE_CURVES; k++) {
            char *tag = dpti_format("%s/%zu %s", curve_names[k], i, dpti_peers_device(t, i)->id);
            if (!tag) return false;
            board->tags[i * DPTI_DEVICE_CURVES + k] = tag;
        }
    return true;
}

static const char *speed_tag(const dpti_board *board, bool epoch)
{
    const bool tokens = board->trainer->data->vocabulary > 0;
    if (epoch) return tokens ? "speed/epoch_tokens_per_second" : "speed/epoch_images_per_second";
    return tokens ? "speed/tokens_per_second" : "speed/images_per_second";
}

/* The curves by which trainings are compared. */
static const char *const metrics[] = {"loss/step",    "loss/train",     "loss/validation",
                                      "loss/test",    "accuracy/train", "accuracy/validation",
                                      "accuracy/test"};
enum { LOSSES = 4, METRICS = sizeof metrics / sizeof *metrics };

static dpt_status add_parameters(dpti_board *board, const dpti_schedule *schedule, dpt_error *error)
{
    const dpt_trainer *t = board->trainer;
    enum { MORE = 2 };
    char devices[24];
    dpti_told *told = dpti_tell_settings(t, schedule);
    dpti_event_parameter *list = calloc(DPTI_SETTINGS + MORE, sizeof *list);
    if (told && list) {
        snprintf(devices, sizeof devices, "%zu", t->n_devices);
        size_t n = 0;
        for (; n < told->all.n; n++)
            list[n] = (dpti_event_parameter){told->list[n].name, told->list[n].value};
        list[n++] = (dpti_event_parameter){"devices", devices};
        list[n++] = (dpti_event_parameter){"split", dpti_shards_split_text(t)};
        dpti_events_parameters(board->events, &(dpti_event_parameters){
                                                  .list = list,
                                                  .n = n,
                                                  .metrics = metrics,
                                                  .n_metrics = board->classifies ? METRICS : LOSSES,
                                              });
    }
    const bool well = told && list;
    free(list);
    free(told);
    return well ? DPT_OK : DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for TensorBoard's events");
}

/* Writes the devices as a table of Markdown. */
static dpt_status add_devices(dpti_board *board, dpt_error *error)
{
    const dpt_trainer *t = board->trainer;
    dpti_svg text = {.text = NULL};
    dpti_svg_put(&text, "| device | backend | name | detail |\n|---|---|---|---|\n");
    for (size_t i = 0; i < t->n_devices; i++) {
        dpt_device_info device = {.size = sizeof device};
        if (dpt_trainer_device(t, i, &device) != DPT_OK) continue; /* cannot fail: it exists */
        dpti_svg_put(&text, "| %zu %s | %s | %s | %s |\n", i, device.id, device.backend,
                     device.name, device.detail ? device.detail : "");
    }
    if (!text.failed)
        dpti_events_text(board->events, dpt_trainer_steps(t),
                         &(dpti_event_text){"devices", text.text});
    const bool failed = text.failed;
    dpti_svg_free(&text);
    return failed ? DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for TensorBoard's events") : DPT_OK;
}

dpt_status dpti_board_begin(dpti_board *board, dpt_trainer *trainer,
                            const dpti_board_options *options, dpt_error *error)
{
    const dpt_dataset *data = trainer->data;
    *board = (dpti_board){.trainer = trainer,
                          .histograms = options->histograms,
                          .classifies = dpti_classifies(trainer),
                          .units_per_sample = data->vocabulary > 0 && dpti_dataset_has_labels(data)
                                                  ? (double)dpti_dataset_labels(data)
                                                  : 1};
    if (!make_tags(board))
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for TensorBoard's events");
    DPT_TRY(
        dpti_events_open(options->folder, dpt_trainer_steps(trainer) + 1, &board->events, error));
    DPT_TRY(add_parameters(board, options->schedule, error));
    DPT_TRY(add_devices(board, error));
    return dpti_events_flush(board->events, error);
}

dpt_status dpti_board_end(dpti_board *board, bool finished, dpt_error *error)
{
    if (board->events && finished) dpti_events_finished(board->events);
    const dpt_status status = dpti_events_close(board->events, error);
    for (size_t i = 0; board->tags && i < board->trainer->n_devices * DPTI_DEVICE_CURVES; i++)
        free(board->tags[i]);
    free(board->tags);
    free(board->scalars);
    *board = (dpti_board){.trainer = NULL};
    return status;
}

/* ---- Curves ---------------------------------------------------------------------------------- */

static size_t put_devices(const dpti_board *board, const dpt_step_metrics *step, dpti_scalar *out)
{
    size_t n = 0;
    for (size_t i = 0; i < step->n_devices; i++) {
        char *const *tags = board->tags + i * DPTI_DEVICE_CURVES;
        const double share = (double)step->shards[i] / (double)step->samples;
        out[n++] = (dpti_scalar){tags[DPTI_CURVE_SHARE], share};
        out[n++] = (dpti_scalar){tags[DPTI_CURVE_BUSY], step->device_seconds[i]};
        out[n++] = (dpti_scalar){tags[DPTI_CURVE_EXCHANGE], step->exchange_seconds[i]};
        out[n++] = (dpti_scalar){tags[DPTI_CURVE_WAITING], step->waiting_seconds[i]};
    }
    return n;
}

dpt_status dpti_board_step(dpti_board *board, const dpt_step_metrics *step, dpt_error *error)
{
    dpti_scalar *all = board->scalars;
    size_t n = 0;
    if (!board->events) return DPT_OK;
    all[n++] = (dpti_scalar){"loss/step", step->loss};
    if (board->classifies && step->labels > 0)
        all[n++] = (dpti_scalar){"accuracy/step", (double)step->hits / (double)step->labels};
    all[n++] = (dpti_scalar){"learning_rate", step->lr};
    if (step->seconds > 0)
        all[n++] = (dpti_scalar){speed_tag(board, false),
                                 board->units_per_sample * (double)step->samples / step->seconds};
    n += put_devices(board, step, all + n);
    dpti_events_scalars(board->events, step->step, all, n);
    return dpti_events_status(board->events, error);
}

/* Adds a histogram of each tensor of parameters. */
static dpt_status add_histograms(dpti_board *board, dpt_error *error)
{
    dpt_trainer *t = board->trainer;
    const dpt_model *m = t->model;
    float *flat = dpti_trainer_make_flat(t);
    dpt_status status = flat ? dpti_trainer_peek(t, flat) : DPT_E_NO_MEMORY;
    for (size_t i = 0; status == DPT_OK && i < m->n_parameters; i++) {
        const dpti_parameter *p = &m->parameters[i];
        char *tag = dpti_format("weights/%s", p->name);
        if (tag)
            dpti_events_histogram(board->events, dpt_trainer_steps(t),
                                  &(dpti_event_values){tag, flat + p->offset, p->size});
        else
            status = dpt_fail(t->context, DPT_E_NO_MEMORY, "no memory for TensorBoard's events");
        free(tag);
    }
    free(flat);
    if (status != DPT_OK) *error = t->context->error;
    return status;
}

dpt_status dpti_board_epoch(dpti_board *board, const dpt_epoch_metrics *epoch, dpt_error *error)
{
    dpti_scalar all[METRICS + 1];
    size_t n = 0;
    if (!board->events) return DPT_OK;
    const bool whole = epoch->images_per_second > 0, classifies = board->classifies;
    if (whole) all[n++] = (dpti_scalar){"loss/train", epoch->train_loss};
    if (whole && classifies) all[n++] = (dpti_scalar){"accuracy/train", epoch->train_accuracy};
    if (epoch->validated) all[n++] = (dpti_scalar){"loss/validation", epoch->validation_loss};
    if (epoch->validated && classifies)
        all[n++] = (dpti_scalar){"accuracy/validation", epoch->validation_accuracy};
    if (epoch->tested) all[n++] = (dpti_scalar){"loss/test", epoch->test_loss};
    if (epoch->tested && classifies)
        all[n++] = (dpti_scalar){"accuracy/test", epoch->test_accuracy};
    if (whole)
        all[n++] = (dpti_scalar){speed_tag(board, true),
                                 board->units_per_sample * epoch->images_per_second};
    dpti_events_scalars(board->events, dpt_trainer_steps(board->trainer), all, n);
    if (board->histograms) DPT_TRY(add_histograms(board, error));
    return dpti_events_flush(board->events, error);
}

dpt_status dpti_board_flush(dpti_board *board, dpt_error *error)
{
    return board->events ? dpti_events_flush(board->events, error) : DPT_OK;
}

void dpti_board_event(dpti_board *board, const dpt_device_event *event)
{
    if (!board->events) return;
    const char *name = dpti_log_event_name(event->kind);
    char *text =
        dpti_format("%s of device %zu, %s: %s", name, event->device, event->id, event->message);
    if (text) dpti_events_text(board->events, event->step, &(dpti_event_text){"events", text});
    free(text);
}
