/* The least memory with which a training fits (least_memory.h).

   Whether a training fits is found out as it would be when it is created: with a rehearsal, which
   takes every decision that depends on memory.  What this file adds is a search for the limits. */
#include "train/least_memory.h"

#include "device/rehearsal.h"
#include "device/set.h"

/* A search ends without a result behind so many rehearsals; few take more than fifty. */
enum { MOST_REHEARSALS = 500, FIRST_STEP = 256 };

typedef struct search {
    const dpti_creation *of;
    dpti_limits *limits;
    size_t n_rehearsals;
    size_t rank;  /* the device that lacked memory in the last rehearsal; n: not known */
    size_t needs; /* the least limit with which it could have gone on */
} search;

static dpti_device *device_of(const search *s, size_t i)
{
    return s->of->devices->devices[i];
}

/* Rehearses with the limits as they are. */
static bool fits(search *s)
{
    dpti_limits *l = s->limits;
    dpti_creation of = *s->of;
    dpti_obstacle obstacle;
    dpt_trainer *trainer = NULL;
    of.rehearsed = true;
    s->n_rehearsals++;
    for (size_t i = 0; i < l->n; i++)
        dpti_rehearsal_begin(device_of(s, i), l->least[i]);
    const dpt_status status = dpti_trainer_make(&of, &obstacle, &trainer);
    dpt_trainer_destroy(trainer);
    const bool is_short = status == DPT_E_NO_MEMORY && obstacle.kind == DPTI_OBSTACLE_MEMORY;
    s->rank = is_short ? obstacle.rank : l->n;
    s->needs = s->rank < l->n ? dpti_rehearsal_needs(device_of(s, s->rank)) : 0;
    for (size_t i = 0; i < l->n; i++)
        dpti_rehearsal_end(device_of(s, i));
    return status == DPT_OK;
}

static void add_up(dpti_limits *l)
{
    l->more = 0;
    for (size_t i = 0; i < l->n; i++)
        l->more += l->least[i] - l->now[i];
}

/* Raises a limit, so that at most `most` bytes are missing in all; false: that many are already. */
static bool add(dpti_limits *l, size_t i, size_t n_bytes, size_t most)
{
    const size_t left = most - l->more;
    if (left == 0 || l->least[i] == SIZE_MAX) return false;
    if (n_bytes > left) n_bytes = left;
    if (n_bytes > SIZE_MAX - l->least[i]) n_bytes = SIZE_MAX - l->least[i];
    l->least[i] += n_bytes;
    l->more += n_bytes;
    return true;
}

/* Raises the limit of the device that lacks memory, until the training fits: by what it needs at
   least, and by growing steps where its part grows with its limit. */
static bool raise(search *s, size_t most)
{
    dpti_limits *l = s->limits;
    size_t steps[DPTI_SPLIT_MAX_DEVICES] = {0};
    while (!fits(s)) {
        const size_t i = s->rank;
        if (i >= l->n || s->needs <= l->least[i] || s->n_rehearsals >= MOST_REHEARSALS)
            return false;
        size_t step = s->needs - l->least[i];
        if (step < steps[i]) {
            step = steps[i];
            steps[i] *= 2;
        } else if (steps[i] == 0) {
            steps[i] = FIRST_STEP;
        }
        if (!add(l, i, step, most)) return false;
    }
    return true;
}

/* Where to look next for the least limit, of which it is known to be above `low` and at most
 * `high`.
 */
typedef struct interval {
    size_t low, high;
    size_t gap;   /* doubled until something below `high` is too little */
    size_t guess; /* 0: none */
    bool halves;
} interval;

static size_t next_of(interval *v)
{
    const size_t guess = v->guess;
    v->guess = 0;
    if (guess > v->low && guess < v->high) return guess;
    if (v->gap > 0 && v->high - v->low > v->gap) return v->high - v->gap;
    return v->low + (v->high - v->low) / 2;
}

/* Lowers the limit of device i as far as the training fits. */
static bool lower(search *s, size_t i)
{
    dpti_limits *l = s->limits;
    interval v = {.low = l->now[i], .high = l->least[i], .gap = 1};
    l->least[i] = v.low; /* raising another limit may have been enough */
    if (fits(s)) return true;
    while (v.high - v.low > 1 && s->n_rehearsals < MOST_REHEARSALS) {
        const size_t at = l->least[i] = next_of(&v);
        if (fits(s)) {
            v.high = at;
            v.gap *= 2;
            continue;
        }
        v.low = at;
        v.gap = 0;
        v.halves = !v.halves; /* needs that grow with the limit are found by halving */
        if (v.halves && s->rank == i) v.guess = s->needs;
    }
    l->least[i] = v.high;
    return v.high - v.low <= 1;
}

bool dpti_find_least_memory(const dpti_creation *of, size_t most, dpti_limits *out)
{
    search s = {.of = of, .limits = out};
    out->n = of->devices->n_devices;
    out->more = 0;
    for (size_t i = 0; i < out->n; i++)
        out->now[i] = out->least[i] = dpti_memory_capacity(of->devices->devices[i]);
    if (!raise(&s, most) || out->more == 0) return false;
    for (size_t i = 0; i < out->n; i++)
        if (out->least[i] > out->now[i] && !lower(&s, i)) return false;
    add_up(out);
    return true;
}
