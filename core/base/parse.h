/* Numbers in text.  Each function parses a whole string: no white space, no sign, and '.' as the
   decimal point whatever locale the program has set.  Each returns false if the string is not such
   a number or the number is out of range. */
#ifndef DPTI_PARSE_H
#define DPTI_PARSE_H

#include "dpt_types.h"

/* Parses an integer, or a real number, from min to max. */
DPT_CHECK_RESULT bool dpti_parse_size(const char *text, size_t min, size_t max, size_t *out);
DPT_CHECK_RESULT bool dpti_parse_real(const char *text, double min, double max, double *out);
/* Parses a number of bytes: "64M", "2GiB", "1024".  The optional factors K, M, G and T, with or
   without iB, are powers of 1024. */
DPT_CHECK_RESULT bool dpti_parse_bytes(const char *text, size_t *out);
/* Parses a time of at most `max` seconds: "500us", "5ms", "0.02s".  The unit is required. */
DPT_CHECK_RESULT bool dpti_parse_seconds(const char *text, double max, double *out);

#endif
