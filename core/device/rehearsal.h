/* Rehearsals: finding out how much of a device's memory some work would take, without taking it.

   While a device rehearses, dpti_alloc counts and takes nothing: it makes an imagined buffer, which
   has its size and no memory of that size.  Transfers to and from imagined buffers do nothing, and
   no operator may run on them.  The limit of the rehearsal takes the place of the device's, so that
   work can be tried with more memory than there is.  Operators are prepared as always. */
#ifndef DPTI_REHEARSAL_H
#define DPTI_REHEARSAL_H

#include "device/device.h"

/* Begins a rehearsal, or begins it anew, in which the device has this many bytes in all.  No job of
   the device runs. */
void dpti_rehearsal_begin(dpti_device *device, size_t limit_bytes);
/* Ends it.  What was made in it can be freed before and after that. */
void dpti_rehearsal_end(dpti_device *device);

/* The least limit with which one of the allocations that were refused in the rehearsal would not
   have been refused; 0: none was. */
size_t dpti_rehearsal_needs(const dpti_device *device);

/* The bytes that may be allocated on the device in all: its memory, its limit, or that of the
   rehearsal. */
size_t dpti_memory_capacity(const dpti_device *device);

#endif
