/* Environment variables.  All of core reads them through these functions only. */
#ifndef DPTI_ENVIRONMENT_H
#define DPTI_ENVIRONMENT_H

/* Returns the value of a variable; NULL if the variable is unset or empty.  The value of a
   `trusted` variable decides what code is loaded: in a set-user-ID program it is NULL. */
const char *dpti_environment(const char *name);
const char *dpti_environment_trusted(const char *name);

#endif
