/* Keeps the addresses of objects that are left to threads that hang. */
#include "base/left_behind.h"

#include <stdatomic.h>
#include <stdlib.h>

typedef struct left_object {
    const void *object;
    struct left_object *next;
} left_object;

/* The list belongs to the process, because threads that hang outlive contexts. */
static _Atomic(left_object *) left_objects;

void dpti_leave_behind(const void *object)
{
    left_object *left = malloc(sizeof *left);
    if (!left) return;
    *left = (left_object){.object = object, .next = atomic_load(&left_objects)};
    while (!atomic_compare_exchange_weak(&left_objects, &left->next, left)) {
    }
}
