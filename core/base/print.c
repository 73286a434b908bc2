/* printf into memory. */
#include "base/print.h"
#include "base/c_locale.h"

#include <stdio.h>
#include <stdlib.h>

char *dpti_format(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length < 0) return NULL;
    char *text = malloc((size_t)length + 1);
    if (!text) return NULL;
    va_start(args, format);
    vsnprintf(text, (size_t)length + 1, format, args);
    va_end(args);
    return text;
}

int dpti_print_args(char *out, size_t n_bytes, const char *format, va_list args)
{
    const dpti_locales l = dpti_enter_c_locale();
    const int length = vsnprintf(out, n_bytes, format, args);
    dpti_leave_c_locale(&l);
    return length;
}

int dpti_print(char *out, size_t n_bytes, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int length = dpti_print_args(out, n_bytes, format, args);
    va_end(args);
    return length;
}
