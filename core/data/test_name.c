/* Names of test files (test_name.h). */
#include "data/test_name.h"

#include "base/print.h"

#include <string.h>

char *dpti_test_name(const char *path, const char *word)
{
    static const char train[] = "train";
    const char *slash = strrchr(path, '/'), *at = NULL;
    for (const char *next = strstr(slash ? slash : path, train); next;
         next = strstr(next + 1, train))
        at = next;
    if (!at) return NULL;
    return dpti_format("%.*s%s%s", (int)(at - path), path, word, at + sizeof train - 1);
}
