/* The controller of the shards: it decides when shards change.  Reasons are the calibration, a
   gain that exceeds the noise, a lag, a step change of a device's speed, and a probe. */
#include "balance/balance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    CALIBRATED = 6,      /* observations after which the model's own error estimate is used */
    FIRST_INTERVAL = 50, /* steps without samples before a device is probed */
    LAST_INTERVAL = 1600,
    PROBE_STEPS = 2, /* a step change is recognised by two observations */
    FEW_UNITS = 4,   /* units to which every shard may grow at once */
    EAGER = 3,       /* choices after a step change for which small gains suffice */
    FIRST_PATIENCE = 16,
    LAST_PATIENCE = 128,
};

/* Shards change only for a gain of at least this part of a step and, by the models, of at least
   this many standard errors. */
static const double least_gain = 0.015, gain_errors = 3.0, calibration_gain = 0.01;
/* The part of all time that probes may cost. */
static const double probe_cost = 0.005;

typedef struct balanced_device {
    dpti_time_model model;
    size_t capacity;
    size_t kept; /* the capacity to restore when the device leaves standby */
    bool warm;   /* the device has done a step with samples; its first step tells nothing about the
                    next ones */
    size_t n_idle;      /* steps without samples since the last step with samples */
    size_t interval;    /* number of such steps before the device is probed */
    size_t n_probing;   /* steps of a probe that are still to be submitted */
    size_t probe_shard; /* samples of the device in a probe */
    int lag_side; /* the last change for a lag gave the device more samples (1) or fewer (-1) */
    bool lost;
} balanced_device;

struct dpti_balance {
    size_t n_devices, batch_size, quantum;
    balanced_device devices[DPTI_BALANCE_MAX_DEVICES];
    size_t shards[DPTI_BALANCE_MAX_DEVICES]; /* shards of full batches; all 0 before the first
                                                choice */
    bool started;
    bool settling;      /* no step with the present shards has been observed yet */
    bool calibrated;    /* shards have been chosen or confirmed by measurement */
    bool stepped;       /* a step change was seen since the last choice */
    size_t n_eager;     /* number of coming choices for which small gains suffice */
    bool bounded;       /* a device cannot hold its present shard, since the last choice */
    bool was_probing;   /* the last step was a probe */
    dpti_recent recent; /* times of steps with the present shards */
    size_t lag_patience, lag_wait; /* choices between two changes for a lag, and choices until the
                                      next one is allowed */
};

const char *dpti_balance_reason_words(dpti_balance_reason reason)
{
    static const char *const words[] = {
        [DPTI_BALANCE_SAME] = "same",
        [DPTI_BALANCE_START] = "start",
        [DPTI_BALANCE_CALIBRATION] = "calibration",
        [DPTI_BALANCE_GAIN] = "gain",
        [DPTI_BALANCE_LAG] = "lag",
        [DPTI_BALANCE_STEP_CHANGE] = "step change",
        [DPTI_BALANCE_PROBE] = "probe",
        [DPTI_BALANCE_PROBE_END] = "probe ended",
        [DPTI_BALANCE_MEMORY] = "memory",
        [DPTI_BALANCE_LOST] = "device lost",
        [DPTI_BALANCE_RETURNED] = "device readmitted",
        [DPTI_BALANCE_STANDBY] = "device standby",
        [DPTI_BALANCE_PRESENT] = "device present",
    };
    return words[reason];
}

dpti_balance *dpti_balance_create(const dpti_balance_options *options)
{
    dpti_balance *b = calloc(1, sizeof *b);
    if (!b) return NULL;
    b->n_devices = options->n_devices;
    b->batch_size = options->batch_size;
    b->quantum = options->quantum;
    for (size_t i = 0; i < b->n_devices; i++)
        b->devices[i] = (balanced_device){.model = dpti_time_model_new(),
                                          .capacity = options->capacities[i],
                                          .interval = FIRST_INTERVAL};
    return b;
}

void dpti_balance_destroy(dpti_balance *balance)
{
    free(balance);
}

bool dpti_balance_rates(const dpti_balance *balance, double *rates)
{
    const dpti_balance *b = balance;
    for (size_t i = 0; i < b->n_devices; i++) {
        const size_t n = b->shards[i] > 0 ? b->shards[i] : b->quantum;
        const double seconds = dpti_time_model_seconds(&b->devices[i].model, n);
        rates[i] = seconds > 0.0 && !b->devices[i].lost ? (double)n / seconds : 0.0;
    }
    return b->calibrated;
}

/* ---- Dividing -------------------------------------------------------------------------------- */

/* Divides the samples evenly, within the capacities.  Devices with free capacity take what is left
   over. */
static void divide_evenly(const dpti_balance *b, size_t n_samples, size_t *shards)
{
    size_t left = n_samples;
    memset(shards, 0, b->n_devices * sizeof *shards);
    while (left > 0) {
        size_t n_open = 0;
        for (size_t i = 0; i < b->n_devices; i++)
            n_open += shards[i] < b->devices[i].capacity;
        if (n_open == 0) return; /* cannot happen: the capacities together hold a batch */
        const size_t each = left / n_open > 0 ? left / n_open : 1;
        for (size_t i = 0; i < b->n_devices && left > 0; i++) {
            const size_t room = b->devices[i].capacity - shards[i];
            size_t more = each < room ? each : room;
            if (more > left) more = left;
            shards[i] += more;
            left -= more;
        }
    }
}

/* Returns the largest shard that a device may get next: twice its present shard, because a model
   is unreliable far beyond the sizes that it has seen.  A few units are always allowed: with a
   small batch, several devices may have to take samples from a slow device at once before a gain
   shows. */
static size_t growth_bound(const dpti_balance *b, size_t device, size_t factor)
{
    const balanced_device *d = &b->devices[device];
    const size_t few = FEW_UNITS * b->quantum;
    const size_t least = b->batch_size / 16 > few ? b->batch_size / 16 : few;
    const size_t grown = b->shards[device] > least / 2 ? 2 * b->shards[device] : least;
    const size_t bound = grown > d->capacity / factor ? d->capacity : grown * factor;
    return d->model.n_seen > 0 ? bound : 0;
}

/* What is divided among the devices. */
typedef struct division {
    size_t n_samples;
    size_t without;    /* this device gets no samples; n_devices: no such device */
    bool limit_growth; /* a shard grows within its bound only */
} division;

/* Finds the best division by the models. */
static bool divide(const dpti_balance *b, const division *wanted, size_t *shards, double *seconds)
{
    dpti_time_model models[DPTI_BALANCE_MAX_DEVICES];
    size_t bounds[DPTI_BALANCE_MAX_DEVICES];
    for (size_t i = 0; i < b->n_devices; i++)
        models[i] = b->devices[i].model;
    const dpti_balance_problem problem = {.n_devices = b->n_devices,
                                          .n_samples = wanted->n_samples,
                                          .quantum = b->quantum,
                                          .models = models,
                                          .bounds = bounds};
    /* The growth limit is widened if the shards do not fit within it. */
    for (size_t factor = wanted->limit_growth ? 1 : b->batch_size; factor <= b->batch_size;
         factor *= 2) {
        for (size_t i = 0; i < b->n_devices; i++)
            bounds[i] = i == wanted->without ? 0 : growth_bound(b, i, factor);
        if (dpti_balance_solve(&problem, shards, seconds)) return true;
    }
    return false;
}

static double seconds_of(const dpti_balance *b, const size_t *shards)
{
    double seconds = 0.0;
    for (size_t i = 0; i < b->n_devices; i++)
        seconds = fmax(seconds, dpti_time_model_seconds(&b->devices[i].model, shards[i]));
    return seconds;
}

double dpti_balance_without(const dpti_balance *balance, const bool *absent, const double *exchange)
{
    const dpti_balance *b = balance;
    dpti_time_model models[DPTI_BALANCE_MAX_DEVICES];
    size_t bounds[DPTI_BALANCE_MAX_DEVICES], shards[DPTI_BALANCE_MAX_DEVICES], n = 0, last = 0;
    double seconds = INFINITY;
    for (size_t i = 0; i < b->n_devices; i++) {
        models[i] = absent[i] ? dpti_time_model_new() : b->devices[i].model;
        bounds[i] = absent[i] ? 0 : b->devices[i].capacity;
        if (absent[i]) continue;
        if (models[i].n_seen == 0) return INFINITY;
        n++;
        last = i;
    }
    if (n == 1) models[last].a = fmax(models[last].a - exchange[last], 0.0);
    const dpti_balance_problem problem = {.n_devices = b->n_devices,
                                          .n_samples = b->batch_size,
                                          .quantum = b->quantum,
                                          .models = models,
                                          .bounds = bounds};
    return n > 0 && dpti_balance_solve(&problem, shards, &seconds) ? seconds : INFINITY;
}

/* ---- Deciding -------------------------------------------------------------------------------- */

/* Returns whether every device that has samples has been measured. */
static bool measured(const dpti_balance *b)
{
    for (size_t i = 0; i < b->n_devices; i++)
        if (b->shards[i] > 0 && b->devices[i].model.n_seen == 0) return false;
    return true;
}

/* Returns the gain that a change must promise, as a part of a step. */
static double needed_gain(const dpti_balance *b)
{
    double error = 0.0;
    if (b->n_eager > 0) return calibration_gain;
    for (size_t i = 0; i < b->n_devices; i++) {
        const dpti_time_model *model = &b->devices[i].model;
        if (b->shards[i] == 0) continue;
        if (model->n_seen < CALIBRATED) return calibration_gain;
        error = fmax(error, dpti_time_model_error(model, b->shards[i]));
    }
    return fmax(least_gain, gain_errors * error);
}

static void forget_recent(dpti_balance *b)
{
    b->recent.n_steps = b->recent.next = 0;
}

/* A device's speed has changed.  The recent steps, and the changes for lags, tell nothing about
   the new speed. */
static void forget_lags(dpti_balance *b)
{
    forget_recent(b);
    b->lag_patience = b->lag_wait = 0;
    for (size_t i = 0; i < b->n_devices; i++)
        b->devices[i].lag_side = 0;
}

static dpti_balance_reason take(dpti_balance *b, const size_t *shards, dpti_balance_reason reason)
{
    const size_t n_bytes = b->n_devices * sizeof *shards;
    if (memcmp(b->shards, shards, n_bytes) == 0) return DPTI_BALANCE_SAME;
    memcpy(b->shards, shards, n_bytes);
    b->settling = true;
    forget_recent(b);
    return reason;
}

static dpti_balance_reason start(dpti_balance *b)
{
    size_t shards[DPTI_BALANCE_MAX_DEVICES];
    b->started = true;
    divide_evenly(b, b->batch_size, shards);
    return take(b, shards, DPTI_BALANCE_START);
}

/* Gives fewer samples to a device that certainly lags, and more to the devices that are ahead, as
   if times were proportional to shards.  With times of the form a + b n, the fixed cost a makes
   the device that gets more samples faster than that, and the other one slower.  So the lag
   shrinks and does not become a lead.  If a model has learnt a wrong slope, this change corrects
   the shards, and the new shards correct the slope. */
static bool even_out(const dpti_balance *b, size_t *shards)
{
    dpti_time_model models[DPTI_BALANCE_MAX_DEVICES];
    size_t bounds[DPTI_BALANCE_MAX_DEVICES];
    double parts[DPTI_BALANCE_MAX_DEVICES], seconds = 0.0;
    if (!dpti_recent_compare(&b->recent, b->n_devices, b->shards, parts)) return false;
    for (size_t i = 0; i < b->n_devices; i++) {
        models[i] = dpti_time_model_new();
        bounds[i] = b->shards[i] > 0 ? growth_bound(b, i, 1) : 0;
        if (b->shards[i] > 0) models[i].b = parts[i] / (double)b->shards[i];
    }
    const dpti_balance_problem problem = {.n_devices = b->n_devices,
                                          .n_samples = b->batch_size,
                                          .quantum = b->quantum,
                                          .models = models,
                                          .bounds = bounds};
    return dpti_balance_solve(&problem, shards, &seconds) && seconds < 1.0 - least_gain;
}

/* Returns 1 if a device gets more samples than now, and -1 if it gets fewer. */
static int side_of(const dpti_balance *b, const size_t *shards, size_t device)
{
    return (shards[device] > b->shards[device]) - (shards[device] < b->shards[device]);
}

/* Returns whether a change undoes part of the last change for a lag. */
static bool turns_back(const dpti_balance *b, const size_t *shards)
{
    for (size_t i = 0; i < b->n_devices; i++)
        if (side_of(b, shards, i) * b->devices[i].lag_side < 0) return true;
    return false;
}

/* A lag that changes sides, or whose correction the models undo, does not come from the shards: it
   comes and goes by itself, or times grow in steps.  Changes for a lag then become rare. */
static void be_patient(dpti_balance *b)
{
    const size_t longer = b->lag_patience == 0 ? FIRST_PATIENCE : 2 * b->lag_patience;
    b->lag_patience = longer < LAST_PATIENCE ? longer : LAST_PATIENCE;
    b->lag_wait = b->lag_patience;
}

static bool follow_lag(dpti_balance *b, size_t *shards)
{
    if (b->lag_wait > 0) {
        b->lag_wait--;
        return false;
    }
    if (!even_out(b, shards)) return false;
    if (turns_back(b, shards)) be_patient(b);
    b->lag_wait = b->lag_patience;
    for (size_t i = 0; i < b->n_devices; i++) {
        const int side = side_of(b, shards, i);
        if (side != 0) b->devices[i].lag_side = side;
    }
    return true;
}

/* Chooses another division if there is a reason for one. */
static dpti_balance_reason reconsider(dpti_balance *b)
{
    size_t shards[DPTI_BALANCE_MAX_DEVICES];
    double seconds = 0.0;
    if (b->bounded && !(measured(b) && divide(b, &(division){b->batch_size, b->n_devices, true},
                                              shards, &seconds))) {
        b->bounded =
            false; /* the measured devices cannot hold a batch: unmeasured devices take the rest */
        divide_evenly(b, b->batch_size, shards);
        return take(b, shards, DPTI_BALANCE_MEMORY);
    }
    if (!measured(b) || (b->settling && !b->stepped && !b->bounded)) return DPTI_BALANCE_SAME;
    if (!divide(b, &(division){b->batch_size, b->n_devices, true}, shards, &seconds))
        return DPTI_BALANCE_SAME;
    const bool stepped = b->stepped, bounded = b->bounded, first = !b->calibrated;
    const double present = seconds_of(b, b->shards);
    if (b->n_eager > 0) b->n_eager--;
    if (stepped) b->n_eager = EAGER;
    if (!bounded && !(seconds < present * (1.0 - needed_gain(b)))) {
        b->stepped = false;
        b->calibrated = true; /* by the models no other shards are better */
        return !stepped && follow_lag(b, shards) ? take(b, shards, DPTI_BALANCE_LAG)
                                                 : DPTI_BALANCE_SAME;
    }
    if (!stepped && !bounded && turns_back(b, shards)) be_patient(b);
    b->stepped = b->bounded = false;
    b->calibrated = true;
    return take(b, shards,
                bounded   ? DPTI_BALANCE_MEMORY
                : stepped ? DPTI_BALANCE_STEP_CHANGE
                : first   ? DPTI_BALANCE_CALIBRATION
                          : DPTI_BALANCE_GAIN);
}

/* ---- Probing --------------------------------------------------------------------------------- */

/* Returns as many samples as fit into the time of a step, at least a quantum. */
static size_t probe_shard(const dpti_balance *b, const dpti_time_model *model, double seconds)
{
    size_t shard = b->quantum;
    while (2 * shard <= b->batch_size / 8 && dpti_time_model_seconds(model, 2 * shard) <= seconds)
        shard *= 2;
    return shard;
}

/* Returns a device that is due for a probe; n_devices: none. */
static size_t find_probe(dpti_balance *b)
{
    const double seconds = seconds_of(b, b->shards);
    for (size_t i = 0; i < b->n_devices; i++) {
        balanced_device *d = &b->devices[i];
        if (d->n_probing > 0) return i;
        if (b->shards[i] > 0 || d->capacity < b->quantum || d->n_idle < d->interval) continue;
        const size_t shard = probe_shard(b, &d->model, seconds);
        const double excess = dpti_time_model_seconds(&d->model, shard) - seconds;
        const double paid = probe_cost * seconds * (double)d->n_idle;
        if (excess * PROBE_STEPS > paid)
            continue; /* the device is due when the time without it has paid for the probe */
        d->probe_shard = shard;
        d->n_probing = PROBE_STEPS;
        d->interval = d->interval < LAST_INTERVAL ? 2 * d->interval : LAST_INTERVAL;
        return i;
    }
    return b->n_devices;
}

static bool probe(dpti_balance *b, size_t device, size_t n_samples, size_t *shards)
{
    balanced_device *d = &b->devices[device];
    double seconds = 0.0;
    d->n_probing--;
    const size_t shard = d->probe_shard < d->capacity ? d->probe_shard : d->capacity;
    if (shard > n_samples ||
        !divide(b, &(division){n_samples - shard, device, false}, shards, &seconds))
        return false;
    shards[device] = shard;
    return true;
}

/* ---- The controller -------------------------------------------------------------------------- */

/* A ragged batch is divided like the full batches until the devices are measured. */
static void divide_ragged(const dpti_balance *b, size_t n_samples, size_t *shards)
{
    double seconds = 0.0;
    if (!b->calibrated || !divide(b, &(division){n_samples, b->n_devices, false}, shards, &seconds))
        divide_evenly(b, n_samples, shards);
}

dpti_balance_reason dpti_balance_next(dpti_balance *balance, size_t n_samples, size_t *shards)
{
    dpti_balance *b = balance;
    if (n_samples != b->batch_size) {
        divide_ragged(b, n_samples, shards);
        return DPTI_BALANCE_SAME;
    }
    dpti_balance_reason reason = b->started ? reconsider(b) : start(b);
    const size_t probed = b->calibrated ? find_probe(b) : b->n_devices;
    const bool probing = probed < b->n_devices && probe(b, probed, n_samples, shards);
    if (!probing) memcpy(shards, b->shards, b->n_devices * sizeof *shards);
    if (reason == DPTI_BALANCE_SAME && probing != b->was_probing)
        reason = probing ? DPTI_BALANCE_PROBE : DPTI_BALANCE_PROBE_END;
    b->was_probing = probing;
    for (size_t i = 0; i < b->n_devices; i++)
        b->devices[i].n_idle = shards[i] > 0 ? 0 : b->devices[i].n_idle + 1;
    return reason;
}

void dpti_balance_observe(dpti_balance *balance, const size_t *shards, const double *seconds)
{
    dpti_balance *b = balance;
    bool comparable = memcmp(shards, b->shards, b->n_devices * sizeof *shards) == 0;
    if (comparable) b->settling = false;
    for (size_t i = 0; i < b->n_devices; i++) {
        balanced_device *d = &b->devices[i];
        if (shards[i] > 0 && !d->warm) {
            d->warm =
                true; /* in this step memory is touched and kernels are loaded for the first time */
            comparable = false;
            continue;
        }
        dpti_time_model_observe(&d->model, shards[i], seconds[i]);
        if (!d->model.stepped) continue;
        b->stepped = true;
        d->interval = FIRST_INTERVAL;
        forget_lags(b);
    }
    if (comparable) dpti_recent_add(&b->recent, b->n_devices, shards, seconds);
}

void dpti_balance_adopt(dpti_balance *balance, const size_t *shards)
{
    memcpy(balance->shards, shards, balance->n_devices * sizeof *shards);
}

bool dpti_balance_bound(dpti_balance *balance, size_t device, size_t most)
{
    dpti_balance *b = balance;
    balanced_device *d = &b->devices[device];
    const size_t whole = most - most % b->quantum;
    const size_t capacity = most < d->capacity ? whole : d->capacity;
    size_t sum = capacity;
    for (size_t i = 0; i < b->n_devices; i++)
        if (i != device) sum += b->devices[i].capacity; /* each capacity is at most twice a batch */
    if (sum < b->batch_size) return false;
    d->capacity = capacity;
    d->n_probing = 0;
    if (b->shards[device] > capacity) b->bounded = true;
    return true;
}

bool dpti_balance_lose(dpti_balance *balance, size_t device)
{
    if (!dpti_balance_bound(balance, device, 0)) return false;
    balance->devices[device].lost = true;
    return true;
}

void dpti_balance_readmit(dpti_balance *balance, size_t device, size_t capacity)
{
    dpti_balance *b = balance;
    balanced_device *d = &b->devices[device];
    size_t shards[DPTI_BALANCE_MAX_DEVICES];
    double seconds = 0.0;
    d->capacity = capacity;
    d->lost = d->warm = false;
    d->n_idle = d->n_probing = 0;
    d->interval = FIRST_INTERVAL;
    forget_lags(b);
    if (!b->started) return;
    const bool known = d->model.n_seen > 0 && measured(b);
    if (!known || !divide(b, &(division){b->batch_size, b->n_devices, false}, shards, &seconds)) {
        divide_evenly(b, b->batch_size, shards);
        b->calibrated = false;
    }
    (void)take(b, shards, DPTI_BALANCE_RETURNED);
}

bool dpti_balance_exclude(dpti_balance *balance, size_t device)
{
    balanced_device *d = &balance->devices[device];
    const size_t capacity = d->capacity;
    if (!dpti_balance_lose(balance, device)) return false;
    d->kept = capacity;
    return true;
}

size_t dpti_balance_excluded(const dpti_balance *balance, size_t device)
{
    const balanced_device *d = &balance->devices[device];
    return d->lost ? d->kept : d->capacity;
}

void dpti_balance_readd(dpti_balance *balance, size_t device)
{
    dpti_balance *b = balance;
    balanced_device *d = &b->devices[device];
    const bool warm = d->warm;
    dpti_balance_readmit(b, device, d->kept);
    d->warm = warm;
    if (!b->started || b->shards[device] > 0 || d->capacity < b->quantum) return;
    d->probe_shard = probe_shard(b, &d->model, seconds_of(b, b->shards));
    d->n_probing = PROBE_STEPS;
}

/* ---- From one process to the next ------------------------------------------------------------ */

bool dpti_balance_learnt(const dpti_balance *balance, dpti_time_model *models, size_t *shards,
                         bool *calibrated)
{
    const dpti_balance *b = balance;
    for (size_t i = 0; i < b->n_devices; i++) {
        models[i] = b->devices[i].model;
        shards[i] = b->shards[i];
    }
    *calibrated = b->calibrated;
    return b->started;
}

bool dpti_balance_resume(dpti_balance *balance, const dpti_time_model *models, const size_t *shards,
                         bool calibrated)
{
    dpti_balance *b = balance;
    size_t sum = 0;
    for (size_t i = 0; i < b->n_devices; i++) {
        if (shards[i] > b->devices[i].capacity) return false;
        if (calibrated && shards[i] > 0 && models[i].n_seen == 0) return false;
        sum += shards[i]; /* each shard is at most a capacity, which is at most twice a batch */
    }
    if (sum != b->batch_size) return false;
    for (size_t i = 0; i < b->n_devices; i++) {
        b->devices[i].model = models[i];
        b->devices[i].warm = false;
        b->shards[i] = shards[i];
    }
    b->calibrated = calibrated;
    b->started = b->settling = true;
    return true;
}
