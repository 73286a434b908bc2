/* MAP: a program over elements (core/backend/op_list.h). */
#include "map_program.h"
#include "span.h"

/* The inputs -> y0, y1, y2.  Places are in bytes. */
KERNEL void dpt_map(OUT(u8, y0), OUT(u8, y1), OUT(u8, y2), MAP_MEMORY_ARGUMENTS,
                    const map_params given)
{
    const map_params *const p = &given;
    MAP_MEMORY(memory);
    GLOBAL u8 *const out[3] = {y0_base + y0_place, y1_base + y1_place, y2_base + y2_place};
    const u32 last = p->rank - 1;
#if DEVICE_IS_CPU
    const u64 first = GLOBAL_ID * SPAN;
    const u64 end = p->count - first < SPAN ? p->count : first + SPAN;
#else
    const u64 first = GLOBAL_ID;
    const u64 end = first < p->count ? first + 1 : first;
#endif
    map_values values;
    for (u64 i = first; i < end;) {
        map_cursor c;
        u32 n;
        map_origin(p, &c);
        map_seek(p, &c, ~0u, i);
        n = map_extent(p, last) - c.at[last];
        if (n > end - i) n = (u32)(end - i);
        if (n > MAP_TILE) n = MAP_TILE;
        map_compute(p, &memory, &c, n, &values);
        for (u32 k = 0; k < p->n_outputs; k++) {
            const u32 operand = MAP_INPUTS + k;
            const i64 stride = p->stride[operand][last];
            FOR_LANES(lane, n)
            map_store(out[k], p->type[operand], c.element[operand] + (i64)lane * stride,
                      values.place[p->result[k]][lane], p->accumulate);
        }
        i += n;
    }
}
