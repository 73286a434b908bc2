/* Memory that is never freed, because a thread that hangs may still use it. */
#ifndef DPTI_LEFT_BEHIND_H
#define DPTI_LEFT_BEHIND_H

/* Keeps the address of an object that is never freed, so that a search for memory leaks still finds
   a pointer to the object and does not report it. */
void dpti_leave_behind(const void *object);

#endif
