/* The table at the end of training: what each device has done. */
#include "session.h"

#include <stdio.h>
#include <string.h>

static const char *id_of(const dpt_trainer *trainer, size_t i)
{
    dpt_device_info device = {.size = sizeof device};
    return dpt_trainer_device(trainer, i, &device) == DPT_OK ? device.id : "";
}

static int width_of_ids(const dpt_trainer *trainer)
{
    size_t widest = strlen("together");
    for (size_t i = 0; i < dpt_trainer_device_count(trainer); i++) {
        const size_t width = strlen(id_of(trainer, i));
        if (width > widest) widest = width;
    }
    return widest < 60 ? (int)widest : 60;
}

static double percent(double part, double of)
{
    return of > 0 ? 100 * part / of : 0;
}

/* The number of decimal places: one for small rates. */
static int places(double rate)
{
    return rate < 100 ? 1 : 0;
}

/* A rate of samples per second, in the unit of the data. */
static void write_rate(const cli_session *session, double samples, char text[32])
{
    const cli_unit unit = cli_unit_of(session->train);
    const double rate = samples * unit.per_sample;
    snprintf(text, 32, "%.*f %s", places(rate), rate, unit.name);
}

/* A device's line behind the id. */
static void print_device(const cli_session *session, const dpt_device_report *d,
                         const dpt_mix_report *mix)
{
    char alone[32] = "-";
    if (d->alone_throughput > 0) write_rate(session, d->alone_throughput, alone);
    printf("  %8.1f  %5.1f %%  %5.1f %%  %6.1f %%  %5.1f %%  %12s\n",
           (double)d->samples / (double)mix->steps,
           percent((double)d->samples, (double)mix->samples),
           percent(d->busy_seconds, mix->seconds), percent(d->exchange_seconds, mix->seconds),
           percent(d->waiting_seconds, mix->seconds), alone);
}

/* Says if the fastest device alone would be clearly faster than all devices.  The model knows that
   a device alone has no exchange.  It does not know whether the others slow the device down, so a
   measurement is advised. */
static void print_advice(const cli_session *session, const cli_options *options, size_t n,
                         const dpt_mix_report *mix)
{
    static const double worth_a_word = 1.2;
    enum { LEAST_STEPS = 20 };
    dpt_device_report device = {.size = sizeof device};
    double most = 0;
    size_t fastest = 0;
    for (size_t i = 0; i < n; i++) {
        if (dpt_trainer_device_report(session->trainer, i, &device) != DPT_OK) return;
        if (device.alone_throughput > most) fastest = i;
        if (device.alone_throughput > most) most = device.alone_throughput;
    }
    if (mix->steps < LEAST_STEPS || most < worth_a_word * mix->throughput) return;
    if (options->split && strcmp(options->split, "measured") != 0)
        return; /* the user chose the shards */
    const bool kept_awake = options->standby && strcmp(options->standby, "off") == 0 &&
                            !options->stop_on_loss && dpt_process_count(session->context) == 1;
    printf("by the model %s alone would be %.1f times as fast, because the others slow it down%s; "
           "dptrain bench mix measures it\n",
           id_of(session->trainer, fastest), most / mix->throughput,
           kept_awake ? " (--standby on leaves them out)" : "");
}

dpt_status cli_print_account(const cli_session *session, const cli_options *options)
{
    const size_t n = dpt_trainer_device_count(session->trainer);
    const int width = width_of_ids(session->trainer);
    dpt_mix_report mix = {.size = sizeof mix};
    DPT_TRY(dpt_trainer_mix_report(session->trainer, &mix));
    if (n < 2 || mix.steps == 0) return DPT_OK;
    printf("%-*s  %8s  %7s  %7s  %8s  %7s  %12s\n", width, "device", "per step", "shard", "busy",
           "exchange", "waiting", "alone");
    for (size_t i = 0; i < n; i++) {
        dpt_device_report device = {.size = sizeof device};
        DPT_TRY(dpt_trainer_device_report(session->trainer, i, &device));
        printf("%-*s", width, id_of(session->trainer, i));
        print_device(session, &device, &mix);
    }
    char together[32];
    write_rate(session, mix.throughput, together);
    printf("%-*s  %s, balance %.2f, scaling %.2f\n", width, "together", together, mix.balance,
           mix.scaling);
    print_advice(session, options, n, &mix);
    return DPT_OK;
}
