/* The version of the library, the names of statuses, and the context, which owns every other
   object.
   Part of the public API: programs include dptrain.h. */
#ifndef DPTRAIN_CONTEXT_H
#define DPTRAIN_CONTEXT_H

#include "dpt_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DPT_VERSION "0.2.0"
/* Returns the version of the library that the program runs with.  That version may differ from
   DPT_VERSION, which is the version of this header.  Never NULL; the string is static.
   Cannot fail. */
DPT_API const char *dpt_version(void);

typedef struct dpt_context dpt_context;

/* Return the name of a status ("DPT_E_FORMAT") and a short description of a status ("malformed
   data").  An unknown status gives "DPT_E_?" and "unknown status".  Never NULL; the strings are
   static. */
DPT_API const char *dpt_status_name(dpt_status status);
DPT_API const char *dpt_status_words(dpt_status status);

/* Creates a context, loads the backend plug-ins and asks each backend for its devices.  An absent
   or broken backend is not a failure; dpt_backend_reason gives the reason.  The caller owns *out
   and destroys it with dpt_context_destroy.  Errors: DPT_E_NO_MEMORY. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_context_create(dpt_context **out);
typedef struct dpt_context_options {
    size_t size; /* sizeof(dpt_context_options) */
    /* The longest time in seconds that one call into a backend may take when no trainer sets a
       limit.  The limit is this value for closing a device and for work on arrays.  The limit is
       ten times this value for finding, opening and measuring devices, because these calls may
       compile kernels.  0 means ten minutes, and no limit for arrays.  At most 1e9.
       If a device does not answer in a collective, the arrays of that collective are never
       released and their devices are never closed, because the hung call may still read them. */
    double device_timeout;
    /* A device list.  Only the backends that this list names for this process are loaded, so that
       the program does not wait for other drivers; every other backend counts as absent.  NULL, or
       text that is not a device list, means all backends. */
    const char *devices;
} dpt_context_options;
/* Creates a context as dpt_context_create does, with options.  `options` may be NULL: all defaults.
   Errors: DPT_E_INVALID if the options have no size or a field that the library does not know, or
   device_timeout is negative, above 1e9 or not a number; DPT_E_NO_MEMORY. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_context_create_with(const dpt_context_options *options,
                                                            dpt_context **out);
/* Destroys a context.  Accepts NULL.  Cannot fail. */
DPT_API void dpt_context_destroy(dpt_context *context);

/* Returns the message of the last failed call on this context, or "no error".  Never NULL.  The
   string is valid until the next failure.  The message is always one line, even if a name or a path
   in the message contains control characters. */
DPT_API const char *dpt_error_message(const dpt_context *context);

/* A function of the program that gets notices: lines that say what a call has done in another way
   than a reader of its arguments may expect, such as "weights.safetensors: all names begin with
   module., which is left out".  `line` is valid during the call only and has no control characters.
 */
typedef void dpt_notice_function(void *user, const char *line);
/* Sets the function that gets the notices of later calls on this context, on the thread of the call
   that it is about.  The function must not call the library.  NULL: notices are dropped, as in the
   beginning.  Cannot fail. */
DPT_API void dpt_context_notices(dpt_context *context, dpt_notice_function *notice, void *user);

/* For code built on this library (models/, cli/).  Records a failure with a printf-style message in
   the context and returns `status` unchanged. */
DPT_API DPT_PRINTF(3, 4) dpt_status
    dpt_fail(dpt_context *context, dpt_status status, const char *format, ...);
/* Returns the entry of the NULL-terminated list `known` that is nearest to the misspelt `word`, or
   NULL if no entry is near.  Cannot fail. */
DPT_API const char *dpt_nearest(const char *word, const char *const *known);

/* Returns the number of threads that still wait for a device which does not answer.  Such a thread
   may wait in a step, in a release of memory or in the closing of a device.  Destroying a trainer
   or an array, and closing devices, wait for one call at most dpt_trainer_options.device_timeout
   (ten minutes if there was no trainer).  After that time the memory that was to be released stays
   with the thread.  The library never frees memory that a hung device may still access; for
   example, destroying a data set that such a device reads in place frees nothing.  A process with
   an abandoned thread must end with _exit, because exit handlers of vendor libraries may not
   return. Cannot fail. */
DPT_API size_t dpt_context_abandoned(const dpt_context *context);

#ifdef __cplusplus
}
#endif

#endif
