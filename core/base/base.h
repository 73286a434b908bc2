/* What every part of core stands on: overflow-checked sizes, the environment, spelling suggestions,
   and counter-based random numbers.  Knows nothing of devices or models. */
#ifndef DPTI_BASE_H
#define DPTI_BASE_H

#include "dpt_error.h"
#include "dpt_types.h"

#include <pthread.h>

/* ---- Sizes: widen before you multiply, check once; memory ------------------------------------ */

/* *out = a * b, a + b; false on overflow, *out then unchanged. */
DPT_CHECK_RESULT bool dpti_multiply(size_t a, size_t b, size_t *out);
DPT_CHECK_RESULT bool dpti_add(size_t a, size_t b, size_t *out);
/* Rounds up to a multiple of a power of two.  The caller knows that it fits. */
size_t dpti_round_up(size_t value, size_t power_of_two);
/* malloc, aligned to 64 bytes: a cache line, and the widest vector of a CPU. */
DPT_CHECK_RESULT void *dpti_alloc_aligned(size_t n_bytes);
/* The bytes of memory that this process may use, of those that the machine has; SIZE_MAX if that is
   not known.  Linux gives more than there is, and using it then ends the process: what a file asks
   for is compared first. */
size_t dpti_machine_memory(void);
/* The least limit of the control groups that a file as /proc/self/cgroup lists, of version 1 or 2,
   mounted at `root`; SIZE_MAX without any. */
size_t dpti_group_memory(const char *groups, const char *root);

/* base^exponent by multiplications alone: the same bits on every machine, which pow's are not. */
double dpti_power(double base, size_t exponent);
/* sum (n) += from (n); where it is the first that is added, sum = from, which keeps a zero's sign.
 */
void dpti_add_up(float *sum, const float *from, size_t n, bool first);
/* Whether none is infinite or not a number. */
bool dpti_all_finite(const float *values, size_t n);
/* Of their bits.  Different for arrays of one size that differ in one bit; by chance the same for
   others that differ.  `seed` is the hash of what stands before. */
uint64_t dpti_hash_floats(const float *values, size_t n, uint64_t seed);

/* ---- Text ------------------------------------------------------------------------------------ */

/* A copy of a string, or of its first `length` characters; NULL without memory. */
char *dpti_strdup(const char *text);
char *dpti_strndup(const char *text, size_t length);
/* An allocated printf; NULL without memory. */
DPT_PRINTF(1, 2) char *dpti_format(const char *format, ...);
/* snprintf and vsnprintf of what goes into files or is compared with it: a decimal point is '.',
   whatever locale the program has set. */
DPT_PRINTF(3, 4) int dpti_print(char *out, size_t n_bytes, const char *format, ...);
DPT_PRINTF(3, 0)
int dpti_print_args(char *out, size_t n_bytes, const char *format, va_list args);
/* The bytes of the UTF-8 character that a text begins with, and its code point; 0 if it begins with
   none, as at its end. */
size_t dpti_character(const char *text, uint32_t *code);
/* How many bytes of a text stand before its end, or before the first that is a control character or
   no UTF-8: what is no part of a line for a person, or of JSON. */
size_t dpti_plain_bytes(const char *text);
/* The word of a NULL-terminated list that is nearest to `word` by edit distance (with
   transpositions), or NULL if none is near enough to be meant. */
const char *dpti_nearest(const char *word, const char *const *known);
/* Whole-string parses, no white space, no sign, with a decimal '.' whatever the locale: false if it
   is not a number or out of range. */
DPT_CHECK_RESULT bool dpti_parse_size(const char *text, size_t min, size_t max, size_t *out);
DPT_CHECK_RESULT bool dpti_parse_real(const char *text, double min, double max, double *out);
/* "64M", "2G", "1024": a number of bytes with an optional factor K, M, G, T (powers of 1024). */
DPT_CHECK_RESULT bool dpti_parse_bytes(const char *text, size_t *out);
/* "500us", "5ms", "0.02s": seconds, of which at most `max`; a unit is needed. */
DPT_CHECK_RESULT bool dpti_parse_seconds(const char *text, double max, double *out);

/* ---- Time and environment -------------------------------------------------------------------- */

double dpti_seconds(void); /* monotonic */
/* Environment variables are read through here only.  NULL if unset or empty, and for `trusted` ones
   also in a set-user-ID program. */
const char *dpti_environment(const char *name);
const char *dpti_environment_trusted(const char *name);

/* ---- Threads ----------------------------------------------------------------------------------
 */

/* Starts one that is called so, in at most 15 characters, and takes no signals: these are for the
   program's own threads.  The result is pthread_create's. */
DPT_CHECK_RESULT int dpti_thread_start(pthread_t *thread, void *(*body)(void *), void *argument,
                                       const char *name);

/* ---- Memory that is not freed ---------------------------------------------------------------- */

/* Keeps the address of an object that a thread which hangs may still use, and which is therefore
   never freed. */
void dpti_leave_behind(const void *object);

/* ---- Random numbers -------------------------------------------------------------------------- */

/* Philox4x32-10 (Salmon et al., SC 2011): out = f(counter, key), a pure function. */
void dpti_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* What a stream of numbers is for; goes into the counter, so that no two uses share numbers. */
typedef enum dpti_random_use {
    DPTI_RANDOM_INIT = 1,    /* index: position of the parameter */
    DPTI_RANDOM_SHUFFLE = 2, /* index: epoch */
    DPTI_RANDOM_DATA = 3,    /* index: sample */
    DPTI_RANDOM_SPLIT = 4,   /* index: 0 */
    DPTI_RANDOM_CROP = 5,    /* index: epoch << 32 | sample */
} dpti_random_use;

/* A sequence of numbers keyed by (seed, use, index). */
typedef struct dpti_random {
    uint32_t key[2];
    uint32_t counter[4];
    uint32_t block[4];
    unsigned left;
} dpti_random;

void dpti_random_init(dpti_random *random, uint64_t seed, dpti_random_use use, uint64_t index);
uint32_t dpti_random_u32(dpti_random *random);
/* Uniform in 0 .. bound-1, without bias; bound > 0. */
uint32_t dpti_random_below(dpti_random *random, uint32_t bound);
float dpti_random_uniform(dpti_random *random); /* [0, 1), 24 bits */
float dpti_random_normal(dpti_random *random);  /* N(0, 1), Box-Muller in double */

#endif
