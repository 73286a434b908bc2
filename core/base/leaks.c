/* What is left to threads that do not come back: never freed, and known here, so that a search for
   leaks tells it from what was forgotten. */
#include "base/base.h"

#include <stdatomic.h>
#include <stdlib.h>

typedef struct left_object {
    const void *object;
    struct left_object *next;
} left_object;

/* Of the process, since it outlives contexts. */
static _Atomic(left_object *) left_objects;

void dpti_leave_behind(const void *object)
{
    left_object *left = malloc(sizeof *left);
    if (!left) return;
    *left = (left_object){.object = object, .next = atomic_load(&left_objects)};
    while (!atomic_compare_exchange_weak(&left_objects, &left->next, left)) {
    }
}
