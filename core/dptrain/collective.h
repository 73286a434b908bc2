/* Collectives: sums and copies of arrays over devices and processes.
   Part of the public API: programs include dptrain.h. */
#ifndef DPTRAIN_COLLECTIVE_H
#define DPTRAIN_COLLECTIVE_H

#include "dptrain/array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Collectives.  Each array is on a device of its own.  With several processes the list of arrays
   continues in rank order: first the arrays of process 0, then those of process 1, and so on. Every
   process has at least one array, and all processes make the same call.  A call waits until the
   collective is done.  An array that a collective writes and does not read becomes valid, as after
   dpt_array_set.  After a failure the content of an array that the collective writes is undefined.
   The program may set such an array and make the call again.

   Errors of all collectives.  A call fails in all processes or in none.  The status is that of the
   first failure in rank order, and the message names the process.  DPT_E_INVALID: sizes do not fit
   or the list is not allowed.  DPT_E_NO_MEMORY.  Devices' own failures.  After such a failure all
   processes may continue.  A call without any array gives DPT_E_INVALID in the calling process;
   that process cannot tell the others, and the others wait for that process. If processes can no
   longer reach each other, or a process has no memory to tell the others, the call fails and every
   later call that the processes make together fails too.  The process must exit, which ends the
   other processes (see dpt_process_give_up). */

/* All-reduce: replaces every array by the sum of all arrays.  All arrays have the same size.  The
   sum is taken in the order of the list, so that every device gets the same bits.  Errors: as for
   all collectives above.  DPT_E_INVALID if the sizes do not fit. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_all_reduce(dpt_array *const *arrays, size_t n_arrays);

/* Broadcast: replaces every array by the array with the index `root`.  All arrays have the same
   size. `root` counts over the arrays of all processes.  Errors: as for all collectives above.
   DPT_E_INVALID if the sizes do not fit or there is no such root. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_broadcast(dpt_array *const *arrays, size_t n_arrays,
                                                  size_t root);

/* Reduce-scatter: sums the arrays as dpt_all_reduce does and gives every device one part of the
   sum. All arrays have the same size.  parts[i] is on the device of arrays[i].  parts[i] gets the
   elements that follow those of parts[i - 1]; the number of elements is the size of parts[i].  The
   sizes of the parts may differ.  The parts of all processes together have the size of one array.
   A NULL part has no elements.  The arrays are not changed.  A part must not be one of the arrays.
   Errors: as for all collectives above.  DPT_E_INVALID if the sizes do not fit. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_reduce_scatter(dpt_array *const *arrays,
                                                       dpt_array *const *parts, size_t n_arrays);

/* All-gather: writes all parts, one after the other, to every array.  Every array is as large as
   all parts together.  Errors: as for all collectives above.  DPT_E_INVALID if the sizes do not
   fit. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_all_gather(dpt_array *const *parts,
                                                   dpt_array *const *arrays, size_t n_arrays);

#ifdef __cplusplus
}
#endif

#endif
