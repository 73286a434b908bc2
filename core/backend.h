/* What a backend includes of dptrain: this header, and nothing else.

   A backend is a plug-in, libdptrain-NAME.so, with one exported symbol, dpt_backend_entry.  The
   symbol is a function that returns a constant descriptor of tables of functions.  The comment of
   each function in the tables begins with one of these words:
     Required   The backend implements the function.
     Defaulted  NULL takes the default that the comment names (core/device/buffer.c).
     Optional   NULL means that the backend cannot do this.  Core checks before it calls.

   Threads.  Core makes all calls for one device from one thread, the device's driver thread.  The
   exceptions are probe and describe.  Core calls these two before any device is open, from a thread
   that ends when all backends have answered.  Driver threads of different devices run at the same
   time.  If a call lasts too long, core gives the call and its thread up.

   Order.  What is enqueued on one stream happens in the order of the calls.  A backend may finish
   the work before the call returns.  The CPU backend does.

   Trust.  Core has validated shapes, types, bounds and alignment before it calls.  A backend need
   not check them again.  The exception is prepare, which says what a backend supports.

   Errors.  A call that can fail returns a dpt_status.  When it fails, it leaves the detail in the
   device's error record (DPT_FAIL).  A deferred failure is returned by sync, event_query or the
   next call.  DPT_E_DEVICE_LOST means that the whole fault domain is lost.  No call aborts or
   exits.

   The parts:
     dpt_types.h          status codes, element types, activations
     dpt_error.h          the error record and DPT_FAIL
     backend/abi.h        the version, the tables except that of operators, the descriptor
     backend/op_list.h    the list of operators: names, tensors, capability, formulas
     backend/operators.h  the structs of operators: descriptions, arguments, the table of functions
     backend/helpers.h    small functions over these structs */
#ifndef DPT_BACKEND_H
#define DPT_BACKEND_H

#include "backend/abi.h"
#include "backend/helpers.h"
#include "backend/op_list.h"
#include "backend/operators.h"
#include "dpt_error.h"
#include "dpt_types.h"

#endif
