/* Arrays of float32 on one device, their element-wise operations, and scattering a matrix over
   devices.
   Part of the public API: programs include dptrain.h. */
#ifndef DPTRAIN_ARRAY_H
#define DPTRAIN_ARRAY_H

#include "dptrain/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A float32 array on one device.  An operation on arrays is enqueued on the device and returns at
   once.  The device executes operations in the order of the calls.  A failure of an enqueued
   operation makes the result array invalid; dpt_array_wait and dpt_array_get of that array return
   the failure.  A successful dpt_array_set makes the array valid again. */
typedef struct dpt_array dpt_array;

/* Creates an array of zeros and waits for the allocation.  `rank` is 1 to 4; every extent in
   `shape` is at least 1.  The caller owns *out and destroys it with dpt_array_destroy.  Errors:
   DPT_E_INVALID if the rank is out of range, an extent is 0 or the size overflows; DPT_E_NO_MEMORY;
   the device's own failures. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_array_create(dpt_device *device, const size_t *shape,
                                                     size_t rank, dpt_array **out);
/* Waits for the work that uses the array, then destroys the array.  Accepts NULL.  A failure of
   that work is reported by dpt_device_set_wait.  Cannot fail. */
DPT_API void dpt_array_destroy(dpt_array *array);
/* Return the rank, the shape (rank extents, owned by the array), the number of elements and the
   device of an array.  Cannot fail. */
DPT_API size_t dpt_array_rank(const dpt_array *array);
DPT_API const size_t *dpt_array_shape(const dpt_array *array);
DPT_API size_t dpt_array_size(const dpt_array *array);
DPT_API dpt_device *dpt_array_device(const dpt_array *array);

/* Copies dpt_array_size elements from `host` before the call returns, and enqueues the upload.
   Errors: DPT_E_NO_MEMORY. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_array_set(dpt_array *array, const float *host);
/* Waits for the array and copies dpt_array_size elements to `host`.  Errors: the failure that made
   the array invalid; the device's own failures; DPT_E_NO_MEMORY. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_array_get(dpt_array *array, float *host);

/* Enqueue c = a * b, c = a + b and c = alpha * a + beta, element by element.  Errors: DPT_E_INVALID
   if the arrays differ in size or are on different devices; DPT_E_NO_MEMORY.  If an input array is
   invalid, c becomes invalid with the same failure. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_array_multiply(dpt_array *a, dpt_array *b, dpt_array *c);
DPT_API DPT_CHECK_RESULT dpt_status dpt_array_add(dpt_array *a, dpt_array *b, dpt_array *c);
DPT_API DPT_CHECK_RESULT dpt_status dpt_array_affine(dpt_array *a, float alpha, float beta,
                                                     dpt_array *c);

/* Waits until all work that was enqueued for this array is done.  Errors: the failure that made the
   array invalid; the device's own failures.
   DPT_E_DEVICE_LOST if the device does not answer in time. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_array_wait(dpt_array *array);
/* Scatters a row-major (n_rows, n_columns) matrix over the devices of a set.  Device i gets the
   next shards[i] rows.  out[i] becomes an array of shape (shards[i], n_columns), or NULL if
   shards[i] is 0.  The caller owns the arrays.  Errors: DPT_E_INVALID if the entries of `shards` do
   not add up to n_rows, n_columns is 0 or the sizes overflow; DPT_E_NO_MEMORY; the devices' own
   failures. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_scatter(dpt_device_set *devices, const float *host,
                                                size_t n_rows, size_t n_columns,
                                                const size_t *shards, dpt_array **out);

#ifdef __cplusplus
}
#endif

#endif
