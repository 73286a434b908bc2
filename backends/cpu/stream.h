/* Executing or recording works.  A stream of this backend executes a work before the call that
   enqueues the work returns. */
#ifndef DPT_CPU_STREAM_H
#define DPT_CPU_STREAM_H

#include "state.h"

/* Executes a work, or adds the work to the stream's recording if the stream is recording.  Sets
   work.call.team itself.  DPT_E_NO_MEMORY if the recording cannot grow. */
DPT_CHECK_RESULT dpt_status dpt_cpu_stream_do(dpt_stream *stream, dpt_cpu_work work);

/* Executes works in order as one job of the team, with a barrier between two works. */
void dpt_cpu_team_do(dpt_cpu_team *team, const dpt_cpu_work *works, size_t n_works);

#endif
