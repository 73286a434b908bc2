/* Dropout.  A work item draws the four words of one counter and treats four elements. */
#include "dropout.h"
#include "philox.h"
#include "span.h"

DEVICE void drop(GLOBAL act *y, GLOBAL const act *x, u64 e, u32 word, const dropout_params p)
{
    if (e >= p.count) return;
    const float kept = (word >> 8) >= p.border ? GET(x, e) * p.scale : 0.0f;
    PUT(y, e, p.accumulate ? GET(y, e) + kept : kept);
}

/* x (n,count), sample (n) -> y (n,count), which may be x.  The launch's dimensions are the counters of
   a sample, and the samples. */
KERNEL void dpt_dropout(OUT(act, y), IN(act, x), IN(u32, sample), IN(u32, step),
                        const dropout_params p)
{
    TENSOR_OUT(act, y);
    TENSOR_IN(act, x);
    TENSOR_IN(u32, sample);
    TENSOR_IN(u32, step);
    if (IS_EXTRA_GROUP(p.n_samples)) return;
    const u64 first = (u64)GROUP_ID(1) * p.count;
    const u32 key = sample[GROUP_ID(1)];
    FOR_ELEMENTS (block, (p.count + 3) / 4) {
        const philox_words word = philox(step, (u32)block, key, p.stream);
        drop(y + first, x + first, 4 * block, word.a, p);
        drop(y + first, x + first, 4 * block + 1, word.b, p);
        drop(y + first, x + first, 4 * block + 2, word.c, p);
        drop(y + first, x + first, 4 * block + 3, word.d, p);
    }
}
