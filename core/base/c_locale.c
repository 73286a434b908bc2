/* The "C" locale of one thread. */
#include "base/c_locale.h"

dpti_locales dpti_enter_c_locale(void)
{
    const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return (dpti_locales){.plain = plain, .before = uselocale(plain)};
}

void dpti_leave_c_locale(const dpti_locales *locales)
{
    uselocale(locales->before);
    if (locales->plain) freelocale(locales->plain);
}
