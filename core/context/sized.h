/* Structs of the public API that begin with their size.  A program that was built against another
   release passes a shorter or a longer struct. */
#ifndef DPTI_SIZED_H
#define DPTI_SIZED_H

#include "dpt_error.h"
#include "dptrain.h"

/* A struct whose first field is `size_t size`, as the program has passed it. */
typedef struct dpti_sized {
    const char *name;  /* of the struct, for messages */
    const void *given; /* NULL: all fields are zero */
    size_t known;      /* the size of the struct in this release */
} dpti_sized;

/* Copies the given struct to `out` (`known` bytes).  Fields that a shorter struct lacks are zero.
   The size in the copy is `known`.  Errors: DPT_E_INVALID if the size cannot be one that the
   program has set (0, less than the size field, above 64 KiB), or if a longer struct has a byte
   other than zero behind the known fields: the program uses a field that this release does not
   have. */
DPT_CHECK_RESULT dpt_status dpti_read_sized(const dpti_sized *what, void *out, dpt_error *error);
/* The same; the message is that of the context. */
DPT_CHECK_RESULT dpt_status dpti_take_sized(dpt_context *context, const dpti_sized *what,
                                            void *out);

/* Checks, before a call begins, that the program has set the size of a struct that the call fills.
   `name` is that of the struct.  Errors: DPT_E_INVALID if `out` is NULL or has no size. */
DPT_CHECK_RESULT dpt_status dpti_check_sized(dpt_context *context, const char *name,
                                             const void *out);

/* Copies what a call returns to the program's struct, whose first field the program has set to the
   struct's size.  `from` is the struct of this release, of `known` bytes; its own size field is not
   read.  A shorter struct gets the fields that it has; the fields of a longer one that this release
   does not know become zero.  Returns false, and copies nothing, if the program cannot have set the
   size. */
bool dpti_give_sized(const void *from, size_t known, void *to);

#endif
