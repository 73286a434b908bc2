/* The size of a rectangle that an augmentation erases (dpt_augment).  All arithmetic is in
   integers, so that every device and every processor draws the same, with double precision or
   without.

   Source for OpenCL C 1.2, CUDA C++ and C17. */
#ifndef DPT_KERNELS_ERASE_H
#define DPT_KERNELS_ERASE_H

#include "dialect.h"

#if defined(__OPENCL_VERSION__) || defined(__CUDACC__)
#define ERASE_FUNCTION DEVICE
#define ERASE_TABLE    CONSTANT
#define ERASE_ROOT(x)  SQRT(x)
#else
#include <math.h>

#define ERASE_FUNCTION    static inline
#define ERASE_TABLE       static const
#define ERASE_ROOT(x)     sqrtf(x)
#define MUL_HIGH_64(a, b) erase_high(a, b)

/* The upper 64 bits of a product. */
static inline u64 erase_high(u64 a, u64 b)
{
    const u64 a_low = (u32)a, a_high = a >> 32, b_low = (u32)b, b_high = b >> 32;
    const u64 across = a_high * b_low + (a_low * b_low >> 32);
    return a_high * b_high + (across >> 32) + (((u32)across + a_low * b_high) >> 32);
}
#endif

/* 11^-(2^-k) for k = 0 to 24, in units of 2^-64. */
ERASE_TABLE u64 roots_of_inverse_11[25] = {
    0x1745D1745D1745D1ul, 0x4D2FD8F455A09787ul, 0x8C91D978EBCC1E91ul, 0xBDB309A83D0FE490ul,
    0xDC5EC74FDCA59588ul, 0xED8498A5508D6302ul, 0xF695FC3D40E4868Bul, 0xFB3FB4B90434E8FCul,
    0xFD9D013AF1C8C4F1ul, 0xFECDC97A473F3420ul, 0xFF66B6D8E0CA4811ul, 0xFFB34FEFEF151227ul,
    0xFFD9A51869064C2Eul, 0xFFECD1D4431A415Cul, 0xFFF668BC2379CFE5ul, 0xFFFB34529200EEFEul,
    0xFFFD9A26690A948Dul, 0xFFFECD127C86F4F1ul, 0xFFFF66891043C990ul, 0xFFFFB3447CA1F51Cul,
    0xFFFFD9A23B70FE34ul, 0xFFFFECD11D007FF6ul, 0xFFFFF6688E524030ul, 0xFFFFFB34471DA025ul,
    0xFFFFFD9A238BF016ul};

/* 11^-(n / 2^24) in units of 2^-64, n up to 2^24. */
ERASE_FUNCTION u64 inverse_power_of_11(u32 n)
{
    u64 power = ~(u64)0;
    for (u32 k = 0; k <= 24; k++)
        if (n >> (24 - k) & 1u) power = MUL_HIGH_64(power, roots_of_inverse_11[k]);
    return power;
}

/* round(sqrt(v)) of 4 v in units of 2^-29, v below 2^32: r with (2r-1)^2 <= 4 v < (2r+1)^2. */
ERASE_FUNCTION u64 rounded_root(u64 v_4)
{
    u64 r = (u64)(0.5f * ERASE_ROOT((float)(v_4 >> 29)) + 0.5f);
    while (r > 0 && (2 * r - 1) * (2 * r - 1) << 29 > v_4)
        r--;
    while ((2 * r + 1) * (2 * r + 1) << 29 <= v_4)
        r++;
    return r;
}

typedef struct erase_size {
    u32 height, width; /* 0: it does not fit into the image */
} erase_size;

/* The size in an image of height times width, from two random words:
     area = h w (2 * 2^24 + 31 u) / (100 * 2^24), ratio = 3/10 11^u' = 33/10 11^-(1-u'),
     4 area ratio = h w (..) 11^-(1-u') 0.528 / (4 * 2^24), 4 area / ratio with 11^-u' 8/15. */
ERASE_FUNCTION erase_size erase_size_of(u32 word, u32 next_word, u32 height, u32 width)
{
    const u64 area = (u64)height * width * ((2u << 24) + 31u * (u64)(word >> 8)) << 3;
    const u32 exponent = next_word >> 8;
    const u64 tall = MUL_HIGH_64(area, inverse_power_of_11((1u << 24) - exponent));
    const u64 wide = MUL_HIGH_64(area, inverse_power_of_11(exponent));
    const u64 rows = rounded_root(MUL_HIGH_64(tall, (u64)0x872B020C49BA5E35ul));
    const u64 columns = rounded_root(MUL_HIGH_64(wide, (u64)0x8888888888888889ul));
    const u32 fits = rows >= 1 && columns >= 1 && rows < height && columns < width;
    erase_size size;
    size.height = fits ? (u32)rows : 0;
    size.width = fits ? (u32)columns : 0;
    return size;
}

#endif
