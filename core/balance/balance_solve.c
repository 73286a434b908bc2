/* The solver: it finds the division of a batch that makes the slowest device as fast as possible.

   Times never fall when samples are added.  So an optimum is found by giving units one after the
   other, each to the device that would end first with it.  Proof: suppose another division had a
   smaller time T.  When a unit first exceeds T, every device holds all that it can compute within
   T; by assumption that is the whole batch, so no unit is left.

   Most units need not be given one after the other: units that end within a time in which not all
   units end are given in any case, whatever their order.  Bisection finds such a time, after which
   about one unit per device is left. */
#include "balance/balance.h"

#include <math.h>
#include <string.h>

/* Enough to separate a unit of any device from the next one. */
enum { BISECTIONS = 40 };

static void count(const dpti_balance_problem *p, size_t n)
{
    if (p->n_looks) *p->n_looks += n;
}

static double time_of(const dpti_balance_problem *p, size_t device, size_t n)
{
    count(p, 1);
    return dpti_time_model_seconds(&p->models[device], n);
}

/* Returns the units that a device can still take. */
static size_t room_of(const dpti_balance_problem *p, size_t device, size_t shard, size_t n_left)
{
    const size_t samples = p->bounds[device] > shard ? p->bounds[device] - shard : 0;
    return (samples < n_left ? samples : n_left) / p->quantum;
}

/* A device's shard so far, and how many units it can still take. */
typedef struct load {
    size_t shard, room;
} load;

/* Returns how many of these units the device computes within a time. */
static size_t units_within(const dpti_balance_problem *p, size_t device, load now, double seconds)
{
    const dpti_time_model *m = &p->models[device];
    const double estimate = ((seconds - m->a) / m->b - (double)now.shard) / (double)p->quantum;
    size_t n = now.room; /* also if the estimate is not a number, since b may be 0 */
    if (estimate < (double)now.room) n = estimate > 0.0 ? (size_t)estimate : 0;
    while (n > 0 && time_of(p, device, now.shard + n * p->quantum) > seconds)
        n--; /* the estimate is rounded, and does not include the time of a step without samples */
    return n;
}

/* Gives units to devices that end within a time in which not all of n_left fit.  Returns the
   number of samples given. */
static size_t fill_most(const dpti_balance_problem *p, size_t *shards, size_t n_left)
{
    size_t rooms[DPTI_BALANCE_MAX_DEVICES], given = 0;
    double low = 0.0, high = 0.0;
    for (size_t i = 0; i < p->n_devices; i++) {
        rooms[i] = room_of(p, i, shards[i], n_left);
        high = fmax(high, time_of(p, i, shards[i] + rooms[i] * p->quantum));
    }
    for (int step = 0; step < BISECTIONS; step++) {
        const double middle = 0.5 * (low + high);
        size_t sum = 0;
        for (size_t i = 0; i < p->n_devices; i++)
            sum += units_within(p, i, (load){shards[i], rooms[i]}, middle);
        if (sum > n_left / p->quantum)
            high = middle;
        else
            low = middle;
    }
    for (size_t i = 0; i < p->n_devices; i++) {
        const size_t n = units_within(p, i, (load){shards[i], rooms[i]}, low) * p->quantum;
        shards[i] += n;
        given += n;
    }
    return given;
}

/* Gives units of a quantum until n_left is used up.  Returns false if the bounds are reached
   before. */
static bool fill(const dpti_balance_problem *p, size_t *shards, size_t n_left)
{
    double seconds[DPTI_BALANCE_MAX_DEVICES]; /* seconds with one more unit */
    n_left -= fill_most(p, shards, n_left);
    for (size_t i = 0; i < p->n_devices; i++)
        seconds[i] = time_of(p, i, shards[i] + p->quantum);
    for (; n_left > 0; n_left -= p->quantum) {
        size_t best = p->n_devices;
        count(p, p->n_devices);
        for (size_t i = 0; i < p->n_devices; i++) {
            const bool room = shards[i] <= p->bounds[i] && p->bounds[i] - shards[i] >= p->quantum;
            if (room && (best == p->n_devices || seconds[i] < seconds[best])) best = i;
        }
        if (best == p->n_devices) return false;
        shards[best] += p->quantum;
        seconds[best] = time_of(p, best, shards[best] + p->quantum);
    }
    return true;
}

static double slowest(const dpti_balance_problem *p, const size_t *shards)
{
    double seconds = 0.0;
    for (size_t i = 0; i < p->n_devices; i++)
        seconds = fmax(seconds, time_of(p, i, shards[i]));
    return seconds;
}

bool dpti_balance_solve(const dpti_balance_problem *problem, size_t *shards, double *seconds)
{
    const dpti_balance_problem *p = problem;
    const size_t rest = p->n_samples % p->quantum;
    const size_t n_bytes = p->n_devices * sizeof *shards;
    size_t tried[DPTI_BALANCE_MAX_DEVICES];
    bool found = false;
    /* The remainder below a quantum goes to one device.  Each device is tried. */
    for (size_t i = 0; i < (rest > 0 ? p->n_devices : 1); i++) {
        memset(tried, 0, n_bytes);
        if (rest > 0 && p->bounds[i] < rest) continue;
        tried[i] = rest;
        if (!fill(p, tried, p->n_samples - rest)) continue;
        const double time = slowest(p, tried);
        if (found && !(time < *seconds)) continue;
        memcpy(shards, tried, n_bytes);
        *seconds = time;
        found = true;
    }
    return found;
}
