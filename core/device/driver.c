/* One thread per device, and a bounded queue of jobs in front of it.  All calls of the device's
   vtable are made there; the host puts work into the queue and goes on.  Nobody spins: on a machine
   whose cores are devices too, waiting must cost nothing. */
#include "device/driver.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

typedef struct driver_job {
    dpti_job *run;
    void *argument;
} driver_job;

struct dpti_driver {
    dpti_device *device;
    pthread_t thread;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t posted_changed, taken_changed, done_changed;
    driver_job queue[DPTI_DRIVER_JOBS]; /* job number k, from 0, stands at k % DPTI_DRIVER_JOBS */
    uint64_t n_posted, n_taken, n_done; /* n_done <= n_taken <= n_posted */
    bool stop;
};

/* False when the driver is to end and the queue is empty. */
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

static int start_thread(dpti_driver *driver)
{
    /* Signals are for the program's own threads. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int code = pthread_create(&driver->thread, NULL, drive, driver);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code == 0) {
        char name[16]; /* the system's limit */
        snprintf(name, sizeof name, "%.15s", driver->device->id);
        pthread_setname_np(driver->thread, name);
    }
    return code;
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
    pthread_cond_init(&driver->done_changed, NULL);
    const int code = start_thread(driver);
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
    while (driver->n_posted - driver->n_taken == DPTI_DRIVER_JOBS)
        pthread_cond_wait(&driver->taken_changed, &driver->mutex);
    driver->queue[driver->n_posted % DPTI_DRIVER_JOBS] =
        (driver_job){.run = job, .argument = argument};
    const uint64_t ticket = ++driver->n_posted;
    pthread_cond_signal(&driver->posted_changed);
    pthread_mutex_unlock(&driver->mutex);
    return ticket;
}

void dpti_driver_wait(dpti_device *device, uint64_t ticket)
{
    dpti_driver *driver = device->driver;
    pthread_mutex_lock(&driver->mutex);
    while (driver->n_done < ticket)
        pthread_cond_wait(&driver->done_changed, &driver->mutex);
    pthread_mutex_unlock(&driver->mutex);
}

void dpti_driver_call(dpti_device *device, dpti_job *job, void *argument)
{
    dpti_driver_wait(device, dpti_driver_post(device, job, argument));
}
