/* Finds all platforms and devices once in a process, and orders the devices. */
#include "platforms.h"
#include "contain.h"
#include "inquire.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- Finding --------------------------------------------------------------------------------- */

/* Returns the entry of a platform that ended the helper, or NULL. */
static const dpt_cl_absent *find_absent(const dpt_cl_listing *listing, cl_uint ordinal)
{
    for (size_t i = 0; i < listing->n_absent; i++)
        if (listing->absent[i].ordinal == ordinal) return &listing->absent[i];
    return NULL;
}

/* Adds the devices of a platform that are available and have a compiler.  Adds none if the platform
   returns an error. */
static void add_platform(cl_platform_id platform, cl_uint ordinal, dpt_cl_platforms *out)
{
    cl_device_id ids[DPT_CL_MOST_DEVICES];
    const cl_uint n_ids = dpt_cl_ask_device_ids(platform, ids);
    for (cl_uint i = 0; i < n_ids && out->n_devices < DPT_CL_MOST_DEVICES; i++) {
        dpt_cl_found *found = &out->devices[out->n_devices];
        if (!dpt_cl_ask_device(platform, ids[i], found)) continue;
        found->platform_ordinal = ordinal;
        found->device_ordinal = i;
        found->index = out->n_devices++; /* the order of the platform, which by_platform keeps */
    }
}

static int by_platform(const void *left, const void *right)
{
    const dpt_cl_found *a = left, *b = right;
    const int order = strcmp(a->platform_name, b->platform_name);
    if (order != 0) return order;
    return a->index < b->index ? -1 : a->index > b->index;
}

static void number(dpt_cl_platforms *platforms)
{
    dpt_cl_found *devices = platforms->devices;
    for (size_t i = 0; i < platforms->n_devices; i++) {
        devices[i].index = i;
        devices[i].index_in_group = 0;
        for (size_t j = 0; j < i; j++)
            devices[i].index_in_group += strcmp(devices[j].group, devices[i].group) == 0;
    }
}

/* Adds the devices of the platforms that did not end the helper. */
static void add_platforms(const dpt_cl_listing *listing, dpt_cl_platforms *out)
{
    cl_platform_id ids[DPT_CL_ASKED_PLATFORMS];
    cl_uint n_ids = 0;
    const cl_int code = dpt_cl_ask_platforms(ids, &n_ids);
    if (code != CL_SUCCESS) {
        (void)DPT_CL_FAIL(&out->problem, code, "clGetPlatformIDs");
        out->problem.status = DPT_E_ABSENT;
        return;
    }
    const dpt_cl_absent *absent = NULL;
    out->devices = calloc(DPT_CL_MOST_DEVICES, sizeof *out->devices);
    for (cl_uint i = 0; out->devices && i < n_ids; i++) {
        const dpt_cl_absent *found = find_absent(listing, i);
        if (!found)
            add_platform(ids[i], i, out);
        else if (!absent)
            absent = found;
    }
    if (absent)
        snprintf(out->absent, sizeof out->absent, "platform %.60s %s", absent->name, absent->words);
    if (out->n_devices == 0 && absent)
        (void)DPT_FAIL(&out->problem, DPT_E_ABSENT, "%s", out->absent);
    else if (out->n_devices == 0)
        (void)DPT_FAIL(&out->problem, DPT_E_ABSENT,
                       "OpenCL has %u platform%s and no device that can be used: install the "
                       "driver of the card, or PoCL for this machine's cores",
                       n_ids, n_ids == 1 ? "" : "s");
}

static void find_devices(dpt_cl_platforms *out)
{
    dpt_cl_listing listing;
    *out = (dpt_cl_platforms){.devices = NULL};
    dpt_cl_contain_listing(&listing);
    if (listing.unusable) {
        (void)DPT_FAIL(&out->problem, DPT_E_ABSENT, "the loader of OpenCL's drivers %s",
                       listing.words);
        return;
    }
    add_platforms(&listing, out);
    if (out->n_devices == 0) return;
    qsort(out->devices, out->n_devices, sizeof *out->devices, by_platform);
    number(out);
}

const dpt_cl_platforms *dpt_cl_platforms_get(void)
{
    /* Shared by the whole process, and constant once found. */
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static dpt_cl_platforms platforms;
    static bool found;
    pthread_mutex_lock(&lock);
    if (!found) find_devices(&platforms);
    found = true;
    pthread_mutex_unlock(&lock);
    return &platforms;
}
