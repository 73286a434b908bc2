/* Messages between the ranks of a communicator that spans several processes: each rank appends its
   calls, with their data, to a file of its own in the working folder, and the other ranks read the
   file. */
#ifndef DPT_TEST_FAULT_MAIL_H
#define DPT_TEST_FAULT_MAIL_H

#include "backend.h"

enum { FAULT_MOST_RANKS = 16 };

typedef struct fault_mail fault_mail;

/* One call: so many floats are behind it. */
typedef struct fault_letter {
    uint64_t kind, count, root;
} fault_letter;

/* A name that nobody else has. */
void fault_mail_name(char out[96]);

/* Opens the files of the ranks that are here and waits for those of the others.  DPT_E_UNSUPPORTED
   if one of them comes with another word; DPT_E_DEVICE if one does not come. */
dpt_status fault_mail_open(const dpt_group *group, const char *name, uint64_t word,
                           fault_mail **out, dpt_error *error);
void fault_mail_close(fault_mail *mail); /* accepts NULL */

/* Of a rank that is here. */
bool fault_mail_send(fault_mail *mail, size_t rank, const fault_letter *letter, const float *data);
/* Whether the next letter of every rank is there; then reads that of one. */
bool fault_mail_has_come(fault_mail *mail);
bool fault_mail_read(fault_mail *mail, size_t rank, fault_letter *letter, float *data, size_t most);

#endif
