/* Puts the calling thread in the "C" locale for a while, in which '.' is the decimal point. */
#ifndef DPTI_C_LOCALE_H
#define DPTI_C_LOCALE_H

#include <locale.h>

/* The thread's locale before, and the locale that was made; what dpti_leave_c_locale undoes. */
typedef struct dpti_locales {
    locale_t plain, before;
} dpti_locales;

/* The "C" locale always exists.  If memory for it is short, the thread keeps its locale. */
dpti_locales dpti_enter_c_locale(void);
void dpti_leave_c_locale(const dpti_locales *locales);

#endif
