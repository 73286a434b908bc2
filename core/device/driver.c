/* One thread per device, with a bounded queue of jobs.  All calls of the device's vtable are made
   on this thread; other threads put jobs into the queue and go on.  Waiting threads sleep and never
   spin, because the cores of the machine may be devices too. */
#include "device/driver.h"

#include "base/left_behind.h"
#include "base/thread.h"
#include "context/context.h"
#include "device/dispatch.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct driver_job {
    dpti_job *run;
    void *argument;
} driver_job;

struct dpti_driver {
    dpti_device *device;
    pthread_t thread;
    pthread_mutex_t mutex; /* guards the fields below */
    pthread_cond_t posted_changed, taken_changed, done_changed;
    driver_job queue[DPTI_DRIVER_JOBS]; /* job number k, from 0, is at k % DPTI_DRIVER_JOBS */
    uint64_t n_posted, n_taken, n_done; /* n_done <= n_taken <= n_posted */
    bool stop;
    bool abandoned; /* the thread was abandoned */
    bool returned;  /* the abandoned thread has returned from its call and ended */
};

/* The bit of dpti_device.calls that says: the thread was abandoned within this call. */
static const unsigned long long given_up = 1ULL << 63;

/* Takes the next job.  Returns false when the thread is to end and the queue is empty. */
static bool take(dpti_driver *driver, driver_job *out)
{
    pthread_mutex_lock(&driver->mutex);
    while (driver->n_taken == driver->n_posted && !driver->stop)
        pthread_cond_wait(&driver->posted_changed, &driver->mutex);
    const bool some = driver->n_taken != driver->n_posted;
    if (some) {
        *out = driver->queue[driver->n_taken++ % DPTI_DRIVER_JOBS];
        pthread_cond_signal(&driver->taken_changed);
    }
    pthread_mutex_unlock(&driver->mutex);
    return some;
}

static void *drive(void *argument)
{
    dpti_driver *driver = argument;
    driver_job job;
    while (take(driver, &job)) {
        job.run(driver->device, job.argument);
        pthread_mutex_lock(&driver->mutex);
        driver->n_done++;
        pthread_cond_broadcast(&driver->done_changed);
        pthread_mutex_unlock(&driver->mutex);
    }
    return NULL;
}

void dpti_enter_call(dpti_device *device)
{
    atomic_fetch_add(&device->calls, 1);
}

void dpti_leave_call(dpti_device *device)
{
    unsigned long long call = atomic_load(&device->calls);
    if (!(call & given_up) && atomic_compare_exchange_strong(&device->calls, &call, call + 1))
        return;
    dpti_driver *driver = device->driver;
    pthread_mutex_lock(&driver->mutex);
    driver->returned = true;
    pthread_mutex_unlock(&driver->mutex);
    pthread_exit(NULL);
}

static void release(dpti_driver *driver)
{
    pthread_cond_destroy(&driver->done_changed);
    pthread_cond_destroy(&driver->taken_changed);
    pthread_cond_destroy(&driver->posted_changed);
    pthread_mutex_destroy(&driver->mutex);
    free(driver);
}

dpt_status dpti_driver_start(dpti_device *device, dpt_error *error)
{
    dpti_driver *driver = calloc(1, sizeof *driver);
    if (!driver) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the driving thread");
    driver->device = device;
    pthread_mutex_init(&driver->mutex, NULL);
    pthread_cond_init(&driver->posted_changed, NULL);
    pthread_cond_init(&driver->taken_changed, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&driver->done_changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    const int code = dpti_thread_start(&driver->thread, drive, driver, driver->device->id);
    if (code != 0) {
        release(driver);
        return DPT_FAIL_NATIVE(error, DPT_E_INTERNAL, code,
                               "cannot start a thread (%s): is the limit on processes reached?",
                               strerror(code));
    }
    device->driver = driver;
    return DPT_OK;
}

void dpti_driver_stop(dpti_device *device)
{
    dpti_driver *driver = device->driver;
    if (!driver) return;
    pthread_mutex_lock(&driver->mutex);
    driver->stop = true;
    pthread_cond_signal(&driver->posted_changed);
    pthread_mutex_unlock(&driver->mutex);
    pthread_join(driver->thread, NULL);
    release(driver);
    device->driver = NULL;
}

uint64_t dpti_driver_post(dpti_device *device, dpti_job *job, void *argument)
{
    dpti_driver *driver = device->driver;
    pthread_mutex_lock(&driver->mutex);
    while (driver->n_posted - driver->n_taken == DPTI_DRIVER_JOBS && !driver->abandoned)
        pthread_cond_wait(&driver->taken_changed, &driver->mutex);
    const bool here = driver->abandoned;
    const uint64_t ticket = here ? 0 : ++driver->n_posted;
    if (!here) {
        driver->queue[(ticket - 1) % DPTI_DRIVER_JOBS] =
            (driver_job){.run = job, .argument = argument};
        pthread_cond_signal(&driver->posted_changed);
    }
    pthread_mutex_unlock(&driver->mutex);
    if (here) job(device, argument);
    return ticket;
}

uint64_t dpti_driver_last_ticket(dpti_device *device)
{
    dpti_driver *driver = device->driver;
    pthread_mutex_lock(&driver->mutex);
    const uint64_t n = driver->n_posted;
    pthread_mutex_unlock(&driver->mutex);
    return n;
}

/* Returns the time in so many seconds, by the clock of the condition. */
static struct timespec time_in(double seconds)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    const double whole = floor(seconds);
    at.tv_sec += (time_t)whole;
    at.tv_nsec += (long)((seconds - whole) * 1e9);
    if (at.tv_nsec >= 1000000000) {
        at.tv_nsec -= 1000000000;
        at.tv_sec++;
    }
    return at;
}

bool dpti_driver_wait_for(dpti_device *device, uint64_t ticket, double seconds)
{
    dpti_driver *driver = device->driver;
    const struct timespec until = time_in(seconds);
    int code = 0;
    pthread_mutex_lock(&driver->mutex);
    while (driver->n_done < ticket && !driver->abandoned && code == 0)
        code = pthread_cond_timedwait(&driver->done_changed, &driver->mutex, &until);
    const bool done = driver->n_done >= ticket;
    pthread_mutex_unlock(&driver->mutex);
    return done;
}

void dpti_driver_wait(dpti_device *device, uint64_t ticket)
{
    dpti_driver *driver = device->driver;
    pthread_mutex_lock(&driver->mutex);
    while (driver->n_done < ticket && !driver->abandoned)
        pthread_cond_wait(&driver->done_changed, &driver->mutex);
    pthread_mutex_unlock(&driver->mutex);
}

/* ---- Threads that hang ---------------------------------------------------------------------- */

bool dpti_driver_is_running(dpti_device *device)
{
    dpti_driver *driver = device->driver;
    pthread_mutex_lock(&driver->mutex);
    const bool abandoned = driver->abandoned;
    pthread_mutex_unlock(&driver->mutex);
    return !abandoned;
}

bool dpti_driver_is_own_thread(const dpti_device *device)
{
    return pthread_equal(device->driver->thread, pthread_self());
}

unsigned long long dpti_driver_call_now(dpti_device *device)
{
    const unsigned long long call = atomic_load(&device->calls);
    return (call & given_up) || call % 2 == 0 ? 0 : call;
}

bool dpti_driver_abandon(dpti_device *device, unsigned long long call, const dpt_error *error)
{
    dpti_driver *driver = device->driver;
    if (!atomic_compare_exchange_strong(&device->calls, &call, call | given_up)) return false;
    device->lost = true;
    device->given_up = *error;
    device->given_up.status = DPT_E_DEVICE_LOST;
    if (device->context) device->context->n_abandoned++;
    pthread_mutex_lock(&driver->mutex);
    driver->abandoned = true;
    pthread_cond_broadcast(&driver->taken_changed);
    pthread_cond_broadcast(&driver->done_changed);
    pthread_mutex_unlock(&driver->mutex);
    return true;
}

void dpti_driver_leave(dpti_device *device)
{
    pthread_detach(device->driver->thread); /* nobody will join it */
    dpti_leave_behind(device);
}

bool dpti_driver_revive(dpti_device *device)
{
    dpti_driver *driver = device->driver;
    pthread_mutex_lock(&driver->mutex);
    const bool abandoned = driver->abandoned, returned = driver->returned;
    pthread_mutex_unlock(&driver->mutex);
    if (!abandoned) return true;
    if (!returned) return false;
    pthread_join(driver->thread, NULL);
    driver->n_taken = driver->n_done = driver->n_posted;
    driver->abandoned = driver->returned = false;
    atomic_store(&device->calls, 0);
    if (dpti_thread_start(&driver->thread, drive, driver, driver->device->id) != 0) {
        driver->abandoned = true; /* and stays abandoned: there is no thread */
        return false;
    }
    if (device->context) device->context->n_abandoned--;
    return true;
}

void dpti_driver_call(dpti_device *device, dpti_job *job, void *argument)
{
    dpti_driver_wait(device, dpti_driver_post(device, job, argument));
}
