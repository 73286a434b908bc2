/* Sums over steps, and the rates that follow from them. */
#include "train/account.h"

#include <stdlib.h>

bool dpti_account_create(size_t n_devices, size_t batch_size, dpti_account *out)
{
    *out = (dpti_account){.n_devices = n_devices, .batch_size = batch_size};
    out->devices = calloc(n_devices, sizeof *out->devices);
    if (!out->devices) return false;
    for (size_t i = 0; i < n_devices; i++)
        out->devices[i].alone = dpti_time_model_new();
    return true;
}

void dpti_account_free(dpti_account *account)
{
    free(account->devices);
    *account = (dpti_account){.devices = NULL};
}

void dpti_account_add(dpti_account *account, size_t device, size_t n, const dpti_times *times)
{
    dpti_device_account *d = &account->devices[device];
    const double own = times->seconds[DPTI_SPAN_COMPUTE] + times->seconds[DPTI_SPAN_UPLOAD];
    const double shared = times->seconds[DPTI_SPAN_EXCHANGE];
    if (n == 0 || d->steps > 0) dpti_time_model_observe(&d->alone, n, own);
    d->samples += n;
    d->steps += n > 0;
    d->busy += own + shared;
    d->exchange += times->seconds[DPTI_SPAN_UPLOAD] + shared;
    d->waiting += times->seconds[DPTI_SPAN_WAITING];
}

void dpti_account_add_step(dpti_account *account, size_t n, double seconds)
{
    account->samples += n;
    account->seconds += seconds;
}

/* 0 where there is nothing to divide by. */
static double ratio(double amount, double by)
{
    return by > 0.0 ? amount / by : 0.0;
}

dpt_device_report dpti_account_device(const dpti_account *account, size_t device)
{
    const dpti_device_account *d = &account->devices[device];
    const bool modelled = d->alone.n_seen > 0;
    const double alone = modelled ? dpti_time_model_seconds(&d->alone, account->batch_size) : 0.0;
    return (dpt_device_report){
        .samples = d->samples,
        .steps = d->steps,
        .busy_seconds = d->busy,
        .exchange_seconds = d->exchange,
        .waiting_seconds = d->waiting,
        .throughput = ratio((double)d->samples, d->busy),
        .alone_throughput = ratio((double)account->batch_size, alone),
    };
}

dpt_mix_report dpti_account_mix(const dpti_account *account)
{
    const double throughput = ratio((double)account->samples, account->seconds);
    double as_given = 0.0, alone = 0.0;
    for (size_t i = 0; i < account->n_devices; i++) {
        const dpt_device_report d = dpti_account_device(account, i);
        as_given += d.throughput;
        alone += d.alone_throughput;
    }
    return (dpt_mix_report){
        .samples = account->samples,
        .seconds = account->seconds,
        .throughput = throughput,
        .balance = ratio(throughput, as_given),
        .scaling = ratio(throughput, alone),
    };
}
