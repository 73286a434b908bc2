/* Records that are sent to a device with every step, where its memory does not hold the data set.

   The caller's thread gathers the records of a share into host memory while the device computes the
   step before, and the device's driver uploads them in front of their step: the host memory is
   double, that of the device is not.  GATHER then finds them in rows 0, 1, ...; random numbers stay
   keyed by the records' own indices, in the step buffer. */
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
    size_t host_capacity;             /* records in a slot: of a whole share */
    size_t image_bytes, answer_bytes; /* the most of a record */
    bool targets;                     /* answers are targets, not labels */
    dpti_buffer images, answers;      /* (capacity) records */
    dpti_buffer rows;                 /* (capacity) U32: 0, 1, ... */
    uint8_t *slots[DPTI_FEED_SLOTS];  /* host memory: images, then answers */
} dpti_feed;

typedef struct dpti_feed_size {
    size_t capacity, host_capacity, n_slots;
} dpti_feed_size;

/* [driver] On failure *out holds what was made: destroy it. */
DPT_CHECK_RESULT dpt_status dpti_feed_create(dpti_device *device, const dpt_dataset *data,
                                             dpt_loss loss, const dpti_feed_size *size,
                                             dpti_feed *out);
void dpti_feed_destroy(dpti_feed *feed); /* accepts a zeroed one; zeroes it */
size_t dpti_feed_bytes(const dpti_feed *feed);
/* Whether it has room for `capacity` records of these data at once. */
bool dpti_feed_serves(const dpti_feed *feed, const dpt_dataset *data, size_t capacity);
/* Where a program with as many `fed` records finds them. */
dpti_data_places dpti_feed_places(const dpti_feed *feed);

/* Where records are: in memory or, with a reader, images in a run that was waited for. */
typedef struct dpti_records_at {
    const dpt_dataset *data;
    dpti_ahead *ahead; /* or NULL */
    uint64_t key;
} dpti_records_at;

/* Copies n records into a slot whose upload has passed.  Any thread. */
void dpti_feed_gather(const dpti_feed *feed, const dpti_records_at *from, size_t slot,
                      const uint32_t *records, size_t n);
/* [driver] Enqueues the upload of records [first, first + n) of a slot.  Nothing if the feed is not
   in use. */
DPT_CHECK_RESULT dpt_status dpti_feed_upload(const dpti_feed *feed, const dpt_dataset *data,
                                             size_t slot, size_t first, size_t n);

#endif
