/* What follows from what a sum over processes costs (bandwidth_model.h). */
#include "train/components/bandwidth_model.h"

#include "collective/route.h"

#include <math.h>

static const double least_buckets = 2, most_buckets = 32;
static const double largest_first = 1024 * 1024; /* bytes */
static const double ring_gain = 0.1;

/* Of NaN the least. */
static double within(double value, double least, double most)
{
    if (!(value > least)) return least;
    return value < most ? value : most;
}

size_t dpti_bandwidth_more_bytes(size_t n_bytes, double seconds, double most_seconds)
{
    const double most_times = seconds > 0 ? most_seconds / seconds : INFINITY;
    const double n = (double)n_bytes * within(most_times, 1, 4);
    const size_t next = (size_t)fmin(n, DPTI_LINK_PROBE_MOST) / sizeof(float) * sizeof(float);
    return next > n_bytes + n_bytes / 2 ? next : n_bytes;
}

dpti_bandwidth_model dpti_bandwidth_between(double small_seconds, size_t large_bytes,
                                            double large_seconds)
{
    const double more = (double)(large_bytes - DPTI_LINK_PROBE_SMALL);
    const double beta = within((large_seconds - small_seconds) / more, 0, INFINITY);
    const double alpha = small_seconds - beta * DPTI_LINK_PROBE_SMALL;
    return (dpti_bandwidth_model){.alpha = alpha > 0 ? alpha : small_seconds, .beta = beta};
}

static size_t elements(double n_bytes)
{
    return (size_t)(n_bytes / sizeof(float));
}

dpti_bucket_sizes dpti_bandwidth_buckets(dpti_bandwidth_model link, size_t weights)
{
    const double total = (double)weights * sizeof(float);
    /* Without an alpha as many as there may be; 0 / 0, nothing to be hidden, is the least. */
    const double n = within(sqrt(total * link.beta / link.alpha), least_buckets, most_buckets);
    const double first = within(link.alpha / link.beta, DPTI_BANDWIDTH_LEAST_BUCKET, largest_first);
    return (dpti_bucket_sizes){.first = elements(first),
                               .others = elements(fmax(total / n, first))};
}

size_t dpti_bandwidth_window(dpti_bandwidth_model link, size_t n, dpti_route route)
{
    const bool ring = route == DPTI_ROUTE_RING;
    const double chunk = DPTI_CHUNK * sizeof(float) * (ring ? 1 : (double)n);
    const double busy = ring ? 2 * ((double)n - 1) : 2;
    return (size_t)within(busy + ceil(link.alpha / (chunk * link.beta)), DPTI_LEAST_WINDOW,
                          DPTI_MOST_WINDOW);
}

dpti_route dpti_bandwidth_route(double direct_seconds, double ring_seconds)
{
    return ring_seconds < (1 - ring_gain) * direct_seconds ? DPTI_ROUTE_RING : DPTI_ROUTE_DIRECT;
}
