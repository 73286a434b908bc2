/* Elementary functions in double precision that have the same bits on every machine.  The functions
   of a C library may differ in the last bit, between libraries and between processors.

   These are built of operations that round correctly: additions, multiplications and divisions,
   compiled without contraction.  They are slower than those of a C library, and are for numbers
   that are computed once: initial weights, schedules, constants.  Errors are below two units in the
   last place, except for those of dpti_raise. */
#ifndef DPTI_ELEMENTARY_H
#define DPTI_ELEMENTARY_H

/* e^x: infinite above 709.8, and 0 below -745.2. */
double dpti_exp(double x);
/* The natural logarithm: -infinity of 0, NaN of a negative number. */
double dpti_log(double x);
/* cos(2 pi x), of x turns.  Multiples of a quarter turn are exact.  NaN of an infinity. */
double dpti_cos_turns(double x);
/* base^exponent, within 1e-12 of it.  An integer below 2^53 that is a power of integers is exact.
   The special values are those of C's pow. */
double dpti_raise(double base, double exponent);

#endif
