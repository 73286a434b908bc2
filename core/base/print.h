/* printf into memory. */
#ifndef DPTI_PRINT_H
#define DPTI_PRINT_H

#include "dpt_types.h"

#include <stdarg.h>

/* Allocates a string and prints into it.  NULL if memory is short. */
DPT_PRINTF(1, 2) char *dpti_format(const char *format, ...);
/* snprintf and vsnprintf with '.' as the decimal point, whatever locale the program has set.  Text
   for files and for comparisons is printed by these functions. */
DPT_PRINTF(3, 4) int dpti_print(char *out, size_t n_bytes, const char *format, ...);
DPT_PRINTF(3, 0)
int dpti_print_args(char *out, size_t n_bytes, const char *format, va_list args);

#endif
