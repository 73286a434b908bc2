/* Device lists for several processes: one text that all processes are given and that says which of
   them opens which devices.  Knows neither devices nor MPI.

       text   = list / entry *(";" entry)
       entry  = "@" who "=" list            blanks around an entry, and empty entries, do not count
       who    = rank / host / "*"
       list   = a device list (devstring.h)

   A rank is a number from 0.  A host is a name as `hostname` prints it, with or without its domain;
   case does not count.  The entry of a rank goes before that of its host, and this before "*". */
#ifndef DPTI_PER_RANK_H
#define DPTI_PER_RANK_H

#include "context/context.h"

enum { DPTI_MAX_PER_RANK_ENTRIES = 4096, DPTI_MAX_PER_RANK_BYTES = 1 << 20 };

/* Whether the text has entries for processes, rather than being a list for whoever reads it. */
bool dpti_is_per_rank(const char *text);

/* The device list that `text` has for `process`; a list without entries is for every process.  The
   caller frees *out.  All entries are checked, so that all processes fail alike.
   DPT_E_INVALID: text that is not in the grammar, two entries for one process, or none; the message
   says which and what to do.  DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_per_rank_list(const char *text, const dpti_process_name *process,
                                               char **out, dpt_error *error);

#endif
