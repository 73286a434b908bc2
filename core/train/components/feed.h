/* Records that are sent to a device with every step, where its memory does not hold the data set.

   The caller's thread gathers the records of a shard into host memory while the device computes the
   step before, and the device's driver thread uploads them before their step.  Host memory holds
   the records of two steps, device memory those of one.  The operation GATHER then finds the
   records in rows 0, 1, ...  Random changes of a record still depend on its own index in the data
   set, which is in the step buffer. */
#ifndef DPTI_FEED_H
#define DPTI_FEED_H

#include "data/ahead.h"
#include "device/buffer.h"
#include "device/device.h"
#include "graph/replica.h"

enum { DPTI_FEED_SLOTS = 2 };

typedef struct dpti_feed {
    dpti_device *device;              /* NULL: not in use */
    size_t capacity;                  /* records on the device at once */
    size_t host_capacity;             /* records in a slot: of a whole shard */
    size_t image_bytes, answer_bytes; /* bytes of one record, at most */
    bool targets;                     /* answers are targets, not labels */
    size_t n_parts; /* 2: there is as much room again for the records of partners; else 1 */
    dpti_buffer images, answers;     /* (capacity) records */
    dpti_buffer rows;                /* (capacity) U32: 0, 1, ...; and those of partners */
    uint8_t *slots[DPTI_FEED_SLOTS]; /* host memory: images, then answers */
} dpti_feed;

typedef struct dpti_feed_options {
    const dpt_dataset *data;
    dpt_loss loss;
    size_t capacity, host_capacity; /* as in dpti_feed */
    size_t n_slots;
    bool with_partners;
} dpti_feed_options;

/* [driver] Makes a feed for records of these data.  DPT_E_NO_MEMORY, or the device's failure; *out
   holds what was made then: destroy it. */
DPT_CHECK_RESULT dpt_status dpti_feed_create(dpti_device *device, const dpti_feed_options *options,
                                             dpti_feed *out);
void dpti_feed_destroy(dpti_feed *feed); /* accepts a zeroed one; zeroes it */
/* Bytes of device memory that the feed takes. */
size_t dpti_feed_bytes(const dpti_feed *feed);
/* Whether it has room for `capacity` records of these data at once. */
bool dpti_feed_serves(const dpti_feed *feed, const dpt_dataset *data, size_t capacity);
/* Where a program that is compiled for a feed (dpti_program_options.fed) finds the records. */
dpti_data_places dpti_feed_places(const dpti_feed *feed);

/* Where the host finds records: in memory or, with a reader, in the run of images with this key,
   for which the caller has waited (dpti_ahead_wait). */
typedef struct dpti_records_at {
    const dpt_dataset *data;
    dpti_ahead *ahead; /* or NULL */
    uint64_t key;
} dpti_records_at;

/* Indices of records. */
typedef struct dpti_records {
    const uint32_t *indices; /* (n) */
    size_t n;
    bool partners; /* they are partners, of a feed with partners */
} dpti_records;

/* Copies records into a slot whose last upload is over.  Any thread. */
void dpti_feed_gather(const dpti_feed *feed, const dpti_records_at *from, size_t slot,
                      dpti_records records);

/* Records [first, first + n) of a slot. */
typedef struct dpti_feed_range {
    size_t slot, first, n;
    bool partners; /* of the partners */
} dpti_feed_range;

/* [driver] Enqueues the upload of records.  Nothing if the feed is not in use. */
DPT_CHECK_RESULT dpt_status dpti_feed_upload(const dpti_feed *feed, const dpt_dataset *data,
                                             dpti_feed_range range);

#endif
