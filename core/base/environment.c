/* The one file that reads the environment. */
#include "base/environment.h"

#include <stdlib.h>

static const char *not_empty(const char *value)
{
    return value && *value ? value : NULL;
}

const char *dpti_environment(const char *name)
{
    return not_empty(getenv(name));
}

const char *dpti_environment_trusted(const char *name)
{
    return not_empty(secure_getenv(name));
}
