/* The division of a batch that makes the slowest device as fast as can be.

   Times never fall when samples are added, so units given one after the other, each to the device
   that would end first with it, are an optimum: had any other division less time T, then whenever
   a unit went beyond T every device held all that it can within T, which is the whole batch. */
#include "train/balance.h"

#include <math.h>
#include <string.h>

/* Adds units of a quantum until n_left is used up; false if the bounds are reached before. */
static bool fill(const dpti_balance_problem *p, size_t *shares, size_t n_left)
{
    double seconds[DPTI_BALANCE_MAX_DEVICES]; /* with one more unit */
    for (size_t i = 0; i < p->n_devices; i++)
        seconds[i] = dpti_time_model_seconds(&p->models[i], shares[i] + p->quantum);
    for (; n_left > 0; n_left -= p->quantum) {
        size_t best = p->n_devices;
        for (size_t i = 0; i < p->n_devices; i++) {
            const bool room = shares[i] <= p->bounds[i] && p->bounds[i] - shares[i] >= p->quantum;
            if (room && (best == p->n_devices || seconds[i] < seconds[best])) best = i;
        }
        if (best == p->n_devices) return false;
        shares[best] += p->quantum;
        seconds[best] = dpti_time_model_seconds(&p->models[best], shares[best] + p->quantum);
    }
    return true;
}

static double slowest(const dpti_balance_problem *p, const size_t *shares)
{
    double seconds = 0.0;
    for (size_t i = 0; i < p->n_devices; i++)
        seconds = fmax(seconds, dpti_time_model_seconds(&p->models[i], shares[i]));
    return seconds;
}

bool dpti_balance_solve(const dpti_balance_problem *problem, size_t *shares, double *seconds)
{
    const dpti_balance_problem *p = problem;
    const size_t rest = p->n_samples % p->quantum;
    const size_t n_bytes = p->n_devices * sizeof *shares;
    size_t tried[DPTI_BALANCE_MAX_DEVICES];
    bool found = false;
    /* What is less than a quantum goes to one device, and each is tried. */
    for (size_t i = 0; i < (rest > 0 ? p->n_devices : 1); i++) {
        memset(tried, 0, n_bytes);
        if (rest > 0 && p->bounds[i] < rest) continue;
        tried[i] = rest;
        if (!fill(p, tried, p->n_samples - rest)) continue;
        const double time = slowest(p, tried);
        if (found && !(time < *seconds)) continue;
        memcpy(shares, tried, n_bytes);
        *seconds = time;
        found = true;
    }
    return found;
}
