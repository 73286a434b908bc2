/* What a sum over processes costs, and what follows from it: how large buckets are, how many chunks
   are in flight, and by which route.  This is arithmetic; link_probe.h takes the times.

   A sum of n bytes takes alpha + beta n seconds: alpha is what messages cost however short they
   are, beta what a byte of the array costs.  Two timed sums tell both. */
#ifndef DPTI_BANDWIDTH_MODEL_H
#define DPTI_BANDWIDTH_MODEL_H

#include "collective/processes.h"
#include "graph/program.h"

typedef struct dpti_bandwidth_model {
    double alpha; /* s */
    double beta;  /* s a byte */
} dpti_bandwidth_model;

/* Bytes: what is summed for alpha, and for beta at least and at most. */
enum {
    DPTI_LINK_PROBE_SMALL = 16 * 1024,
    DPTI_LINK_PROBE_LEAST = 64 * 1024,
    DPTI_LINK_PROBE_MOST = 1024 * 1024,
};
/* Nothing is chosen for a model with fewer bytes of weights: no bucket is smaller. */
enum { DPTI_BANDWIDTH_LEAST_BUCKET = 64 * 1024 };

/* How much to sum next, where n_bytes have taken `seconds` more than DPTI_LINK_PROBE_SMALL: what
   may take most_seconds more, but no more than four times as much, since a burst tells little of a
   rate.  n_bytes, if that is not much more. */
size_t dpti_bandwidth_more_bytes(size_t n_bytes, double seconds, double most_seconds);

/* The model that fits two timed sums.  Where the line through both says that nothing would take
   less than no time, as on a link that lets bursts pass faster than its rate, all of the small one
   is alpha. */
dpti_bandwidth_model dpti_bandwidth_between(double small_seconds, size_t large_bytes,
                                            double large_seconds);

/* The bucket sizes for a network with so many weights, in elements.

   In m buckets T bytes cost m alpha + T beta, all of which backward may hide but for the last
   bucket, alpha + T beta / m.  What buckets add, to what the link has to do and to what is left for
   the end, is m alpha + T beta / m, which is least with m = sqrt(T beta / alpha): from 2 to 32.
   The first bucket has alpha / beta bytes, from 64 KiB to 1 MiB: half of its time is alpha, and
   less would cost more than it saves.  The others have no fewer. */
dpti_bucket_sizes dpti_bandwidth_buckets(dpti_bandwidth_model link, size_t weights);

/* How many chunks are in flight, of n processes, on the route that the link was timed on: so many
   that the link always has one to carry, within what a window can have.  t is what a chunk adds to
   the time of a large sum.

   Direct: every process's slice has a chunk, t = n chunk beta.  They take up the link for t and are
   alpha longer on their way, there and back; while they are summed, in less than t, it wants
   others.  So 2 + alpha / t.

   Ring: t = chunk beta.  A chunk takes t on each of 2 (n - 1) links, one after the other, and on
   all together alpha longer.  So 2 (n - 1) + alpha / t.

   What somebody waits for, such as batch-norm's statistics, waits for no more of that than what has
   not gone yet: about as long as it takes by itself where alpha is what makes a window wide. */
size_t dpti_bandwidth_window(dpti_bandwidth_model link, size_t n, dpti_route route);

/* The faster route: the ring only where it is faster by a tenth. */
dpti_route dpti_bandwidth_route(double direct_seconds, double ring_seconds);

#endif
