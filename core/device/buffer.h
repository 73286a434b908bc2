/* Device memory with checked bounds, and transfers on the main stream. */
#ifndef DPTI_BUFFER_H
#define DPTI_BUFFER_H

#include "device/device.h"

/* Device memory with its size, so that bounds can be checked. */
typedef struct dpti_buffer {
    dpti_device *device;
    dpt_buffer *handle;
    size_t n_bytes;
    size_t charged_bytes; /* counted in memory_used_bytes; 0 if the buffer wraps host memory */
    bool imagined;        /* made in a rehearsal (rehearsal.h): it has no memory of its size */
} dpti_buffer;

/* A run of bytes in a buffer. */
typedef struct dpti_slice {
    const dpti_buffer *buffer;
    size_t offset_bytes, n_bytes;
} dpti_slice;

/* Returns whether a slice lies in a buffer of this device: DPT_OK, or DPT_E_INTERNAL with the
   device's record filled in. */
DPT_CHECK_RESULT dpt_status dpti_slice_check(dpti_device *device, const dpti_slice *slice);
/* Returns the slice's first byte, for the vtable. */
dpt_location dpti_slice_location(const dpti_slice *slice);

/* [driver] Allocates within the device's memory limit.  DPT_E_NO_MEMORY beyond it; otherwise fails
   as the backend does.  *out is zeroed on failure.  In a rehearsal the buffer is imagined
   (rehearsal.h). */
DPT_CHECK_RESULT dpt_status dpti_alloc(dpti_device *device, size_t n_bytes, dpti_buffer *out);
/* [driver] Makes a buffer of read-only data that the caller keeps valid until the buffer is freed.
   The buffer wraps the host memory if the backend has wrap_host; otherwise the data are copied.
   Fails as dpti_alloc and dpti_upload do. */
DPT_CHECK_RESULT dpt_status dpti_alloc_data(dpti_device *device, const void *host, size_t n_bytes,
                                            dpti_buffer *out);
/* [driver] Counts host memory against the device's limit, as if it was allocated there.  Fails as
   dpti_alloc does beyond the limit.  And: counts it no more. */
DPT_CHECK_RESULT dpt_status dpti_charge(dpti_device *device, size_t n_bytes);
void dpti_discharge(dpti_device *device, size_t n_bytes);
/* [driver] Accepts a zeroed buffer; zeroes it. */
void dpti_free(dpti_buffer *buffer);
/* [driver] Returns the buffer's address if it lies in host memory, else NULL. */
void *dpti_host_pointer(const dpti_buffer *buffer);
/* [driver] Allocates host memory for transfers, aligned to 64 bytes.  DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_host_alloc(dpti_device *device, size_t n_bytes, void **out);
/* [driver] Accepts NULL.  The caller forgets the address before the call, because the call may
   never return. */
void dpti_host_free(dpti_device *device, void *host);

/* [driver] Enqueue transfers on the main stream.  DPT_E_INTERNAL if one leaves a buffer; otherwise
   they fail as the backend does. */
DPT_CHECK_RESULT dpt_status dpti_upload(const dpti_buffer *to, size_t offset_bytes,
                                        const void *host, size_t n_bytes);
DPT_CHECK_RESULT dpt_status dpti_download(void *host, const dpti_buffer *from, size_t offset_bytes,
                                          size_t n_bytes);
/* [driver] Copies within one device. */
DPT_CHECK_RESULT dpt_status dpti_copy(const dpti_buffer *to, size_t to_offset_bytes,
                                      const dpti_slice *from);
/* [driver] Repeats a pattern of 4 bytes.  offset_bytes and n_bytes are multiples of 4. */
DPT_CHECK_RESULT dpt_status dpti_fill(const dpti_buffer *to, size_t offset_bytes, uint32_t pattern,
                                      size_t n_bytes);

/* Returns whether one device can use the other's buffers: they are the same device, or they have
   the same backend and memory domain. */
bool dpti_shards_memory(const dpti_device *a, const dpti_device *b);
/* Returns whether the device is of this backend and in this memory domain. */
bool dpti_sees_memory(const dpti_device *device, const dpt_backend *backend, const char *domain);

#endif
