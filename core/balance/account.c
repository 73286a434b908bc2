/* Sums of what devices did in the steps so far, and the rates that follow from these sums. */
#include "balance/account.h"

#include <stdlib.h>

bool dpti_account_create(size_t n_devices, size_t batch_size, dpti_account *out)
{
    *out = (dpti_account){.n_devices = n_devices, .batch_size = batch_size};
    out->devices = calloc(n_devices, sizeof *out->devices);
    if (!out->devices) return false;
    for (size_t i = 0; i < n_devices; i++)
        out->devices[i].model = dpti_time_model_new();
    return true;
}

void dpti_account_free(dpti_account *account)
{
    free(account->devices);
    *account = (dpti_account){.devices = NULL};
}

void dpti_account_add(dpti_account *account, size_t device, const dpti_device_step *step)
{
    const size_t n = step->n_samples;
    const double *seconds = step->seconds;
    dpti_device_account *d = &account->devices[device];
    const double own = seconds[DPTI_SPAN_COMPUTE] + seconds[DPTI_SPAN_UPLOAD];
    const double shared = seconds[DPTI_SPAN_EXCHANGE];
    d->step = (dpti_device_sums){
        .samples = n,
        .steps = n > 0,
        .busy = own + shared,
        .exchange = seconds[DPTI_SPAN_UPLOAD] + shared,
        .waiting = seconds[DPTI_SPAN_WAITING],
        .alone = n > 0 ? own : 0.0,
    };
    if (n > 0 && (step->first_run || !d->started))
        account->cold = d->started = true;
    else
        dpti_time_model_observe(&d->model, n, own);
}

static void add_sums(dpti_device_sums *to, const dpti_device_sums *step)
{
    to->samples += step->samples;
    to->steps += step->steps;
    to->busy += step->busy;
    to->exchange += step->exchange;
    to->waiting += step->waiting;
    to->alone += step->alone;
}

void dpti_account_add_step(dpti_account *account, size_t n, double seconds)
{
    const bool counts = !account->cold;
    account->cold = false;
    if (!counts) return;
    for (size_t i = 0; i < account->n_devices; i++)
        add_sums(&account->devices[i].sum, &account->devices[i].step);
    account->steps++;
    account->samples += n;
    account->seconds += seconds;
}

/* Returns amount / by, or 0 if `by` is 0. */
static double ratio(double amount, double by)
{
    return by > 0.0 ? amount / by : 0.0;
}

/* Returns the seconds that a device would take for a whole batch, or 0 if that is not known.  The
   time model tells how the time grows with the number of samples.  The device's speed is its mean
   over all steps, because the reported rates are means too; the model itself follows the latest
   steps. */
static double alone_seconds(const dpti_device_account *d, size_t batch_size)
{
    const dpti_time_model *m = &d->model;
    if (m->n_seen == 0) return 0.0;
    const double modelled = m->a * (double)d->sum.steps + m->b * (double)d->sum.samples;
    const double speed = modelled > 0.0 ? d->sum.alone / modelled : 1.0;
    return speed * (m->a + m->b * (double)batch_size);
}

dpt_device_report dpti_account_device(const dpti_account *account, size_t device)
{
    const dpti_device_account *d = &account->devices[device];
    return (dpt_device_report){
        .size = sizeof(dpt_device_report),
        .samples = d->sum.samples,
        .steps = d->sum.steps,
        .busy_seconds = d->sum.busy,
        .exchange_seconds = d->sum.exchange,
        .waiting_seconds = d->sum.waiting,
        .throughput = ratio((double)d->sum.samples, d->sum.busy),
        .alone_throughput =
            ratio((double)account->batch_size, alone_seconds(d, account->batch_size)),
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
        .size = sizeof(dpt_mix_report),
        .steps = account->steps,
        .samples = account->samples,
        .seconds = account->seconds,
        .throughput = throughput,
        .balance = ratio(throughput, as_given),
        .scaling = ratio(throughput, alone),
    };
}
