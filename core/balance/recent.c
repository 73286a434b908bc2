/* The comparison of devices by recent steps, without a model of any device's time. */
#include "balance/balance.h"

#include <math.h>
#include <string.h>

static const double certain_errors = 3.0;
/* The least standard deviation of a comparison in one step that is used. */
static const double least_deviation = 0.01;
/* All processes choose shards from the same numbers.  So the last bits of the logarithms are
   rounded away. */
static const double steps_of_parts = 1e6;

void dpti_recent_add(dpti_recent *recent, size_t n_devices, const size_t *shards,
                     const double *seconds)
{
    dpti_recent *r = recent;
    for (size_t i = 0; i < n_devices; i++)
        if (shards[i] > 0 && !dpti_is_step_time(seconds[i])) return;
    memcpy(r->seconds[r->next], seconds, n_devices * sizeof *seconds);
    r->next = (r->next + 1) % DPTI_RECENT_STEPS;
    if (r->n_steps < DPTI_RECENT_STEPS) r->n_steps++;
}

/* Returns the device whose times have the largest geometric mean. */
static size_t find_slowest(const dpti_recent *r, size_t n_devices, const size_t *shards)
{
    size_t slowest = n_devices;
    double most = -INFINITY;
    for (size_t i = 0; i < n_devices; i++) {
        double sum = 0.0;
        if (shards[i] == 0) continue;
        for (size_t k = 0; k < r->n_steps; k++)
            sum += log(r->seconds[k][i]);
        if (!(sum > most)) continue;
        most = sum;
        slowest = i;
    }
    return slowest;
}

/* Returns by how much `device` is certainly ahead of `slowest`, as the logarithm of a ratio. */
static double certain_lead(const dpti_recent *r, size_t slowest, size_t device)
{
    const double n = (double)r->n_steps;
    double sum = 0.0, squares = 0.0;
    for (size_t k = 0; k < r->n_steps; k++) {
        const double lead = log(r->seconds[k][slowest] / r->seconds[k][device]);
        sum += lead;
        squares += lead * lead;
    }
    const double mean = sum / n, variance = fmax((squares - sum * mean) / (n - 1.0), 0.0);
    const double deviation = fmax(sqrt(variance), least_deviation);
    return fmax(mean - certain_errors * deviation / sqrt(n), 0.0);
}

bool dpti_recent_compare(const dpti_recent *recent, size_t n_devices, const size_t *shards,
                         double *parts)
{
    if (recent->n_steps < DPTI_RECENT_LEAST) return false;
    const size_t slowest = find_slowest(recent, n_devices, shards);
    if (slowest == n_devices) return false;
    for (size_t i = 0; i < n_devices; i++)
        parts[i] = shards[i] > 0 ? ceil(steps_of_parts * exp(-certain_lead(recent, slowest, i))) /
                                       steps_of_parts
                                 : 0.0;
    return true;
}
