/* ATTENTION (core/backend/op_list.h).

   A group walks along tiles of scores, ATTENTION_ROWS x ATTENTION_COLUMNS, which are in registers
   and in local memory.  In the forward pass and for dq the rows are queries, and the columns are
   keys.  For dk and dv the rows are keys, and the columns are queries.  A group computes a chunk of
   channels of its rows.  Scores that are not read are zeros in sums. */
#include "attention.h"
#include "functions.h"

#define ROWS         4 /* of a work item */
#define COLUMNS      4
#define CHANNELS     8
#define ITEM_COLUMNS (ATTENTION_COLUMNS / COLUMNS) /* items that share their rows */
#define SLICE        16                            /* channels that are in local memory at once */
#define ROW_PITCH    (ATTENTION_ROWS + 4)          /* puts the terms of a line into different banks */
#define COLUMN_PITCH (ATTENTION_COLUMNS + 4)
#define ITEM_ROW     (LOCAL_ID / ITEM_COLUMNS * ROWS)
#define ITEM_COLUMN  (LOCAL_ID % ITEM_COLUMNS * COLUMNS)
#define ITEM_CHANNEL (LOCAL_ID % ITEM_COLUMNS * CHANNELS)

/* Far below every score, and finite. */
#define FAR_BELOW -1e38f

/* The rows of a head of a sample. */
typedef struct matrix {
    GLOBAL const act *data;
    u32 n, pitch;
} matrix;

DEVICE matrix matrix_of(GLOBAL const act *base, const attention_place place, u64 sample, u32 head,
                        u32 width, u32 n)
{
    matrix m;
    m.data = base + sample * place.sample + place.offset + (u64)head * width;
    m.n = n;
    m.pitch = place.pitch;
    return m;
}

/* to (SLICE, pitch) = channels of n_lines rows.  What does not exist is 0. */
DEVICE void fetch_slice(LOCAL float *to, const matrix m, u32 first, u32 n_lines, u32 pitch,
                        u32 channel, u32 width)
{
    for (u32 i = LOCAL_ID; i < n_lines * SLICE; i += ATTENTION_ITEMS) {
        const u32 line = i / SLICE, c = i % SLICE;
        const bool exists = first + line < m.n && channel + c < width;
        to[c * pitch + line] =
            exists ? GET(m.data, (u64)(first + line) * m.pitch + channel + c) : 0.0f;
    }
}

/* to (ATTENTION_COLUMNS, ATTENTION_CHUNK) = a chunk of channels of as many rows. */
DEVICE void fetch_chunk(LOCAL float *to, const matrix m, u32 first, u32 channel, u32 width)
{
    for (u32 i = LOCAL_ID; i < ATTENTION_COLUMNS * ATTENTION_CHUNK; i += ATTENTION_ITEMS) {
        const u32 line = i / ATTENTION_CHUNK, c = i % ATTENTION_CHUNK;
        const bool exists = first + line < m.n && channel + c < width;
        to[i] = exists ? GET(m.data, (u64)(first + line) * m.pitch + channel + c) : 0.0f;
    }
}

/* sum = rows of a times rows of b, over all channels in order.  slices: local memory of
   SLICE * (ROW_PITCH + COLUMN_PITCH) floats. */
DEVICE void find_products(float sum[ROWS][COLUMNS], const matrix a, u32 row, const matrix b,
                          u32 column, u32 width, LOCAL float *slices)
{
    LOCAL float *const a_slice = slices, *const b_slice = slices + SLICE * ROW_PITCH;
    UNROLL for (u32 i = 0; i < ROWS; i++) UNROLL for (u32 j = 0; j < COLUMNS; j++) sum[i][j] = 0.0f;
    for (u32 channel = 0; channel < width; channel += SLICE) {
        BARRIER();
        fetch_slice(a_slice, a, row, ATTENTION_ROWS, ROW_PITCH, channel, width);
        fetch_slice(b_slice, b, column, ATTENTION_COLUMNS, COLUMN_PITCH, channel, width);
        BARRIER();
        for (u32 k = 0; k < SLICE; k++) {
            float x[ROWS], z[COLUMNS];
            UNROLL for (u32 i = 0; i < ROWS; i++) x[i] = a_slice[k * ROW_PITCH + ITEM_ROW + i];
            UNROLL for (u32 j = 0; j < COLUMNS; j++) z[j] =
                b_slice[k * COLUMN_PITCH + ITEM_COLUMN + j];
            UNROLL for (u32 i = 0; i < ROWS; i++)
            {
                UNROLL for (u32 j = 0; j < COLUMNS; j++) sum[i][j] = FMA(x[i], z[j], sum[i][j]);
            }
        }
    }
    BARRIER();
}

/* tile (ATTENTION_COLUMNS, ROW_PITCH) = the scores of all items. */
DEVICE void put_tile(LOCAL float *tile, float from[ROWS][COLUMNS])
{
    UNROLL for (u32 j = 0; j < COLUMNS; j++)
    {
        UNROLL for (u32 i = 0; i < ROWS; i++) tile[(ITEM_COLUMN + j) * ROW_PITCH + ITEM_ROW + i] =
            from[i][j];
    }
}

/* sum += tile times chunk, over the columns in order. */
DEVICE void combine(float sum[ROWS][CHANNELS], LOCAL const float *tile, LOCAL const float *chunk)
{
    for (u32 k = 0; k < ATTENTION_COLUMNS; k++) {
        float x[ROWS], z[CHANNELS];
        UNROLL for (u32 i = 0; i < ROWS; i++) x[i] = tile[k * ROW_PITCH + ITEM_ROW + i];
        UNROLL for (u32 c = 0; c < CHANNELS; c++) z[c] =
            chunk[k * ATTENTION_CHUNK + ITEM_CHANNEL + c];
        UNROLL for (u32 i = 0; i < ROWS; i++)
        {
            UNROLL for (u32 c = 0; c < CHANNELS; c++) sum[i][c] = FMA(x[i], z[c], sum[i][c]);
        }
    }
}

/* Adds a tile of scores times rows of values.  All items call it. */
DEVICE void add_values(float sum[ROWS][CHANNELS], float s[ROWS][COLUMNS], const matrix values,
                       u32 key, u32 channel, u32 width, LOCAL float *tile, LOCAL float *chunk)
{
    put_tile(tile, s);
    fetch_chunk(chunk, values, key, channel, width);
    BARRIER();
    combine(sum, tile, chunk);
}

DEVICE void clear(float sum[ROWS][CHANNELS])
{
    UNROLL for (u32 i = 0; i < ROWS; i++)
    {
        UNROLL for (u32 c = 0; c < CHANNELS; c++) sum[i][c] = 0.0f;
    }
}

/* Stores channels of a row, multiplied by a factor. */
DEVICE void store_row(GLOBAL act *to, const float sum[CHANNELS], float factor, u32 channel,
                      u32 width, u32 accumulate)
{
    UNROLL for (u32 c = 0; c < CHANNELS; c++)
    {
        const u32 at = channel + ITEM_CHANNEL + c;
        const float value = (sum[c] + 0.0f) * factor;
        if (at < width) PUT(to, at, accumulate ? GET(to, at) + value : value);
    }
}

/* The number of keys that a query reads. */
DEVICE u32 n_keys_of(const attention_params *p, u32 query)
{
    const u32 n = p->causal ? query + p->keys - p->queries + 1 : p->keys;
    return query < p->queries ? n : 0;
}

/* The number of keys that any of the queries from `row` on reads. */
DEVICE u32 n_keys_of_tile(const attention_params *p, u32 row)
{
    const u32 last = row + ATTENTION_ROWS;
    return n_keys_of(p, (last < p->queries ? last : p->queries) - 1);
}

/* ---- Forward --------------------------------------------------------------------------------- */

#define COMBINED(result, all, OPERATION)                                                           \
    UNROLL for (u32 i = 0; i < ROWS; i++)                                                          \
    {                                                                                              \
        float value = (all)[(ITEM_ROW + i) * ITEM_COLUMNS];                                        \
        for (u32 t = 1; t < ITEM_COLUMNS; t++) {                                                   \
            const float other = (all)[(ITEM_ROW + i) * ITEM_COLUMNS + t];                          \
            value = OPERATION(value, other);                                                       \
        }                                                                                          \
        (result)[i] = value;                                                                       \
    }
#define PLUS(a, b)    ((a) + (b))
#define GREATER(a, b) ((b) > (a) ? (b) : (a))

/* own = the greatest value, or the sum, of all items that share the rows of an item.  shared:
   ATTENTION_ROWS * ITEM_COLUMNS floats. */
DEVICE void share(LOCAL float *shared, const float own[ROWS])
{
    BARRIER();
    UNROLL for (u32 i = 0; i < ROWS; i++) shared[(ITEM_ROW + i) * ITEM_COLUMNS +
                                                 LOCAL_ID % ITEM_COLUMNS] = own[i];
    BARRIER();
}

/* The products of a tile become scores; those of keys that a query does not read are far below. */
DEVICE void scale_scores(const attention_params *p, float s[ROWS][COLUMNS], u32 row, u32 key)
{
    UNROLL for (u32 i = 0; i < ROWS; i++)
    {
        const u32 n = n_keys_of(p, row + ITEM_ROW + i);
        UNROLL for (u32 j = 0; j < COLUMNS; j++) s[i][j] =
            key + ITEM_COLUMN + j < n ? s[i][j] * p->scale : FAR_BELOW;
    }
}

DEVICE void find_greatest(float most[ROWS], float s[ROWS][COLUMNS])
{
    UNROLL for (u32 i = 0; i < ROWS; i++)
    {
        UNROLL for (u32 j = 0; j < COLUMNS; j++) most[i] = GREATER(most[i], s[i][j]);
    }
}

/* s = exp(s - most) * factor, and 0 for keys that a query does not read */
DEVICE void exponentiate(const attention_params *p, float s[ROWS][COLUMNS], const float most[ROWS],
                         const float factor[ROWS], u32 row, u32 key)
{
    UNROLL for (u32 i = 0; i < ROWS; i++)
    {
        const u32 n = n_keys_of(p, row + ITEM_ROW + i);
        UNROLL for (u32 j = 0; j < COLUMNS; j++) s[i][j] =
            key + ITEM_COLUMN + j < n ? EXP(s[i][j] - most[i]) * factor[i] : 0.0f;
    }
}

#if DETERMINISTIC

#define SUM_LANES 8

/* Adds a row of a tile of exponentials to the lanes of the row's sum.  n: keys of the row. */
DEVICE void add_lanes(double lanes[SUM_LANES], LOCAL const float *tile, u32 row, u32 key, u32 n)
{
    const u32 whole = n / SUM_LANES * SUM_LANES;
    for (u32 k = 0; k < ATTENTION_COLUMNS; k += SUM_LANES) {
        UNROLL for (u32 lane = 0; lane < SUM_LANES; lane++)
        {
            const double value = (double)tile[(k + lane) * ROW_PITCH + row];
            const u32 at = key + k + lane;
            if (at < whole)
                lanes[lane] += value;
            else if (at < n)
                lanes[0] += value;
        }
    }
}

/* The greatest scores of an item's rows. */
DEVICE void find_most(const attention_params *p, const matrix q, u32 row, const matrix k,
                      LOCAL float *slices, LOCAL float *shared, float most[ROWS])
{
    float s[ROWS][COLUMNS];
    UNROLL for (u32 i = 0; i < ROWS; i++) most[i] = FAR_BELOW;
    for (u32 key = 0; key < n_keys_of_tile(p, row); key += ATTENTION_COLUMNS) {
        find_products(s, q, row, k, key, p->width, slices);
        scale_scores(p, s, row, key);
        find_greatest(most, s);
    }
    share(shared, most);
    COMBINED(most, shared, GREATER)
}

/* The inverse sums of the exponentials of an item's rows.  shared: the logarithmic sums of all
   rows. */
DEVICE void find_sums(const attention_params *p, const matrix q, u32 row, const matrix k,
                      LOCAL float *slices, LOCAL float *tile, LOCAL float *shared,
                      const float most[ROWS], float inverse[ROWS])
{
    const u32 own = LOCAL_ID % ATTENTION_ROWS, n_own = n_keys_of(p, row + own);
    const float one[ROWS] = {1.0f, 1.0f, 1.0f, 1.0f};
    double lanes[SUM_LANES], sum = 0.0;
    float s[ROWS][COLUMNS];
    UNROLL for (u32 lane = 0; lane < SUM_LANES; lane++) lanes[lane] = 0.0;
    for (u32 key = 0; key < n_keys_of_tile(p, row); key += ATTENTION_COLUMNS) {
        find_products(s, q, row, k, key, p->width, slices);
        scale_scores(p, s, row, key);
        exponentiate(p, s, most, one, row, key);
        put_tile(tile, s);
        BARRIER();
        add_lanes(lanes, tile, own, key, n_own);
    }
    UNROLL for (u32 lane = 0; lane < SUM_LANES; lane++) sum += lanes[lane];
    BARRIER();
    if (LOCAL_ID < ATTENTION_ROWS) {
        shared[own] = n_own > 0 ? (float)(1.0 / sum) : 0.0f;
        shared[ATTENTION_ROWS + own] = LOG((float)sum);
    }
    BARRIER();
    UNROLL for (u32 i = 0; i < ROWS; i++) inverse[i] = shared[ITEM_ROW + i];
    BARRIER();
    UNROLL for (u32 i = 0; i < ROWS; i++)
    {
        if (LOCAL_ID % ITEM_COLUMNS == 0)
            shared[ITEM_ROW + i] = most[i] + shared[ATTENTION_ROWS + ITEM_ROW + i];
    }
    BARRIER();
}

/* sum and factor: the values of an item's rows are their product.  shared: the logarithmic sums of
   all rows.  The keys are walked three times, because the probabilities are rounded before they are
   multiplied with values. */
DEVICE void attend(const attention_params *p, const matrix queries, u32 row, const matrix keys,
                   const matrix values, u32 channel, LOCAL float *slices, LOCAL float *tile,
                   LOCAL float *chunk, LOCAL float *shared, float sum[ROWS][CHANNELS],
                   float factor[ROWS])
{
    float s[ROWS][COLUMNS], most[ROWS], inverse[ROWS];
    find_most(p, queries, row, keys, slices, shared, most);
    find_sums(p, queries, row, keys, slices, tile, shared, most, inverse);
    for (u32 key = 0; key < n_keys_of_tile(p, row); key += ATTENTION_COLUMNS) {
        find_products(s, queries, row, keys, key, p->width, slices);
        scale_scores(p, s, row, key);
        exponentiate(p, s, most, inverse, row, key);
        add_values(sum, s, values, key, channel, p->width, tile, chunk);
    }
    UNROLL for (u32 i = 0; i < ROWS; i++) factor[i] = 1.0f;
}

#else

/* sum and factor: the values of an item's rows are their product.  shared: the logarithmic sums of
   all rows.  What is there is made smaller whenever a greater score is met. */
DEVICE void attend(const attention_params *p, const matrix queries, u32 row, const matrix keys,
                   const matrix values, u32 channel, LOCAL float *slices, LOCAL float *tile,
                   LOCAL float *chunk, LOCAL float *shared, float sum[ROWS][CHANNELS],
                   float factor[ROWS])
{
    float s[ROWS][COLUMNS], most[ROWS], total[ROWS], before[ROWS];
    const float one[ROWS] = {1.0f, 1.0f, 1.0f, 1.0f};
    UNROLL for (u32 i = 0; i < ROWS; i++)
    {
        most[i] = FAR_BELOW;
        total[i] = 0.0f;
    }
    for (u32 key = 0; key < n_keys_of_tile(p, row); key += ATTENTION_COLUMNS) {
        find_products(s, queries, row, keys, key, p->width, slices);
        scale_scores(p, s, row, key);
        UNROLL for (u32 i = 0; i < ROWS; i++) before[i] = most[i];
        find_greatest(most, s);
        share(shared, most);
        COMBINED(most, shared, GREATER)
        exponentiate(p, s, most, one, row, key);
        UNROLL for (u32 i = 0; i < ROWS; i++)
        {
            const float less = EXP(before[i] - most[i]);
            total[i] *= less;
            UNROLL for (u32 j = 0; j < COLUMNS; j++) total[i] += s[i][j];
            UNROLL for (u32 c = 0; c < CHANNELS; c++) sum[i][c] *= less;
        }
        add_values(sum, s, values, key, channel, p->width, tile, chunk);
    }
    share(shared, total);
    COMBINED(total, shared, PLUS)
    BARRIER();
    UNROLL for (u32 i = 0; i < ROWS; i++)
    {
        factor[i] = 1.0f / total[i];
        if (LOCAL_ID % ITEM_COLUMNS == 0) shared[ITEM_ROW + i] = most[i] + LOG(total[i]);
    }
    BARRIER();
}

#endif

KERNEL GROUP_OF(ATTENTION_ITEMS) void dpt_attention_forward(OUT(act, y), OUT(float, lse),
                                                            IN(act, q), IN(act, k), IN(act, v),
                                                            const attention_params given)
{
    SHARED float slices[SLICE * (ROW_PITCH + COLUMN_PITCH)];
    SHARED float tile[ATTENTION_COLUMNS * ROW_PITCH], chunk[ATTENTION_COLUMNS * ATTENTION_CHUNK];
    SHARED float shared[ATTENTION_ROWS * ITEM_COLUMNS];
    const attention_params *const p = &given;
    if (IS_EXTRA_GROUP(p->n_pairs)) return;
    const u64 sample = GROUP_ID(1) / p->heads;
    const u32 head = (u32)(GROUP_ID(1) % p->heads), key_head = head / p->group;
    const u32 row = GROUP_ID(0) / p->chunks * ATTENTION_ROWS;
    const u32 channel = GROUP_ID(0) % p->chunks * ATTENTION_CHUNK;
    const matrix queries =
        matrix_of(q_base + q_place, p->q, sample, head, p->width, p->queries);
    const matrix keys = matrix_of(k_base + k_place, p->k, sample, key_head, p->width, p->keys);
    const matrix values = matrix_of(v_base + v_place, p->v, sample, key_head, p->width, p->keys);
    float sum[ROWS][CHANNELS], factor[ROWS];
    clear(sum);
    attend(p, queries, row, keys, values, channel, slices, tile, chunk, shared, sum, factor);
    GLOBAL act *const to =
        y_base + y_place + sample * p->y.sample + p->y.offset + (u64)head * p->width;
    UNROLL for (u32 i = 0; i < ROWS; i++)
    {
        const u32 query = row + ITEM_ROW + i;
        if (query < p->queries)
            store_row(to + (u64)query * p->y.pitch, sum[i], factor[i], channel, p->width, 0);
    }
    if (p->saves && channel == 0 && LOCAL_ID < ATTENTION_ROWS && row + LOCAL_ID < p->queries)
        lse_base[lse_place + (sample * p->heads + head) * p->queries + row + LOCAL_ID] =
            shared[LOCAL_ID];
}

/* ---- Backward -------------------------------------------------------------------------------- */

#if DETERMINISTIC
typedef double mean_sum;
#else
typedef float mean_sum;
#endif

/* mean (n,heads,queries) = dy . y of each head and query.  A work item for each; n_pairs counts
   them. */
KERNEL void dpt_attention_mean(OUT(float, mean), IN(act, dy), IN(act, y),
                               const attention_params p)
{
    if (GLOBAL_ID >= p.n_pairs) return;
    const u64 pair = GLOBAL_ID / p.queries, sample = pair / p.heads;
    const u32 query = (u32)(GLOBAL_ID % p.queries), head = (u32)(pair % p.heads);
    const u64 at = sample * p.y.sample + p.y.offset + (u64)query * p.y.pitch + (u64)head * p.width;
    GLOBAL const act *const a = dy_base + dy_place + at, *const b = y_base + y_place + at;
    const u32 whole = p.width / 8 * 8;
    mean_sum lanes[8], sum = 0;
    UNROLL for (u32 k = 0; k < 8; k++) lanes[k] = 0;
    for (u32 c = 0; c < whole; c += 8)
        UNROLL for (u32 k = 0; k < 8; k++) lanes[k] +=
            (mean_sum)GET(a, c + k) * (mean_sum)GET(b, c + k);
    for (u32 c = whole; c < p.width; c++)
        lanes[0] += (mean_sum)GET(a, c) * (mean_sum)GET(b, c);
    UNROLL for (u32 k = 0; k < 8; k++) sum += lanes[k];
    mean_base[mean_place + GLOBAL_ID] = (float)sum;
}

/* The products of scores become probabilities, and those of gradients their gradients. */
DEVICE void differentiate(float *s, float *ds, float scale, float lse, float mean, bool is_read)
{
    const float p = is_read ? EXP(*s * scale - lse) : 0.0f;
    *s = p;
    *ds = is_read ? p * (*ds - mean) : 0.0f;
}

KERNEL GROUP_OF(ATTENTION_ITEMS) void dpt_attention_queries(OUT(act, dq), IN(act, dy),
                                                            IN(float, mean), IN(float, lse),
                                                            IN(act, q), IN(act, k), IN(act, v),
                                                            const attention_params given)
{
    SHARED float slices[SLICE * (ROW_PITCH + COLUMN_PITCH)];
    SHARED float tile[ATTENTION_COLUMNS * ROW_PITCH], chunk[ATTENTION_COLUMNS * ATTENTION_CHUNK];
    const attention_params *const p = &given;
    if (IS_EXTRA_GROUP(p->n_pairs)) return;
    const u64 sample = GROUP_ID(1) / p->heads;
    const u32 head = (u32)(GROUP_ID(1) % p->heads), key_head = head / p->group;
    const u32 row = GROUP_ID(0) / p->chunks * ATTENTION_ROWS;
    const u32 channel = GROUP_ID(0) % p->chunks * ATTENTION_CHUNK;
    const matrix queries =
        matrix_of(q_base + q_place, p->q, sample, head, p->width, p->queries);
    const matrix gradients =
        matrix_of(dy_base + dy_place, p->y, sample, head, p->width, p->queries);
    const matrix keys = matrix_of(k_base + k_place, p->k, sample, key_head, p->width, p->keys);
    const matrix values = matrix_of(v_base + v_place, p->v, sample, key_head, p->width, p->keys);
    const u64 first = (sample * p->heads + head) * p->queries;
    const u32 n_keys = n_keys_of_tile(p, row);
    float s[ROWS][COLUMNS], ds[ROWS][COLUMNS], sum[ROWS][CHANNELS], logs[ROWS], means[ROWS];
    clear(sum);
    UNROLL for (u32 i = 0; i < ROWS; i++)
    {
        const u32 query = row + ITEM_ROW + i;
        logs[i] = query < p->queries ? lse_base[lse_place + first + query] : 0.0f;
        means[i] = query < p->queries ? mean_base[mean_place + first + query] : 0.0f;
    }
    for (u32 key = 0; key < n_keys; key += ATTENTION_COLUMNS) {
        find_products(s, queries, row, keys, key, p->width, slices);
        find_products(ds, gradients, row, values, key, p->width, slices);
        UNROLL for (u32 i = 0; i < ROWS; i++)
        {
            const u32 n = n_keys_of(p, row + ITEM_ROW + i);
            UNROLL for (u32 j = 0; j < COLUMNS; j++)
                differentiate(&s[i][j], &ds[i][j], p->scale, logs[i], means[i],
                              key + ITEM_COLUMN + j < n);
        }
        add_values(sum, ds, keys, key, channel, p->width, tile, chunk);
    }
    GLOBAL act *const to =
        dq_base + dq_place + sample * p->q.sample + p->q.offset + (u64)head * p->width;
    UNROLL for (u32 i = 0; i < ROWS; i++)
    {
        const u32 query = row + ITEM_ROW + i;
        if (query < p->queries)
            store_row(to + (u64)query * p->q.pitch, sum[i], p->scale, channel, p->width,
                      p->accumulate);
    }
}

/* Of a tile whose rows are keys and whose columns are queries.  lse and mean: of the head. */
DEVICE void differentiate_columns(const attention_params *p, float s[ROWS][COLUMNS],
                                  float ds[ROWS][COLUMNS], u32 row, u32 query,
                                  GLOBAL const float *lse, GLOBAL const float *mean)
{
    UNROLL for (u32 j = 0; j < COLUMNS; j++)
    {
        const u32 column = query + ITEM_COLUMN + j, n = n_keys_of(p, column);
        const float own_lse = n > 0 ? lse[column] : 0.0f, own_mean = n > 0 ? mean[column] : 0.0f;
        UNROLL for (u32 i = 0; i < ROWS; i++)
            differentiate(&s[i][j], &ds[i][j], p->scale, own_lse, own_mean,
                          row + ITEM_ROW + i < n);
    }
}

/* n_pairs: samples times heads of keys */
KERNEL GROUP_OF(ATTENTION_ITEMS) void dpt_attention_keys(OUT(act, dk), OUT(act, dv), IN(act, dy),
                                                         IN(float, mean), IN(float, lse),
                                                         IN(act, q), IN(act, k), IN(act, v),
                                                         const attention_params given)
{
    SHARED float slices[SLICE * (ROW_PITCH + COLUMN_PITCH)];
    SHARED float tile[ATTENTION_COLUMNS * ROW_PITCH], chunk[ATTENTION_COLUMNS * ATTENTION_CHUNK];
    const attention_params *const p = &given;
    if (IS_EXTRA_GROUP(p->n_pairs)) return;
    const u32 key_heads = p->heads / p->group;
    const u64 sample = GROUP_ID(1) / key_heads;
    const u32 key_head = (u32)(GROUP_ID(1) % key_heads);
    const u32 row = GROUP_ID(0) / p->chunks * ATTENTION_ROWS;
    const u32 channel = GROUP_ID(0) % p->chunks * ATTENTION_CHUNK;
    const u32 before = p->keys - p->queries; /* causal: keys that every query reads */
    const u32 begin = p->causal && row > before ? row - before : 0;
    const matrix keys = matrix_of(k_base + k_place, p->k, sample, key_head, p->width, p->keys);
    const matrix values = matrix_of(v_base + v_place, p->v, sample, key_head, p->width, p->keys);
    float s[ROWS][COLUMNS], ds[ROWS][COLUMNS], dk[ROWS][CHANNELS], dv[ROWS][CHANNELS];
    clear(dk);
    clear(dv);
    for (u32 head = key_head * p->group; head < (key_head + 1) * p->group; head++) {
        const matrix queries =
            matrix_of(q_base + q_place, p->q, sample, head, p->width, p->queries);
        const matrix gradients =
            matrix_of(dy_base + dy_place, p->y, sample, head, p->width, p->queries);
        const u64 first = (sample * p->heads + head) * p->queries;
        for (u32 query = begin / ATTENTION_COLUMNS * ATTENTION_COLUMNS; query < p->queries;
             query += ATTENTION_COLUMNS) {
            find_products(s, keys, row, queries, query, p->width, slices);
            find_products(ds, values, row, gradients, query, p->width, slices);
            differentiate_columns(p, s, ds, row, query, lse_base + lse_place + first,
                                  mean_base + mean_place + first);
            add_values(dv, s, gradients, query, channel, p->width, tile, chunk);
            BARRIER();
            add_values(dk, ds, queries, query, channel, p->width, tile, chunk);
        }
    }
    GLOBAL act *const to_k =
        dk_base + dk_place + sample * p->k.sample + p->k.offset + (u64)key_head * p->width;
    GLOBAL act *const to_v =
        dv_base + dv_place + sample * p->v.sample + p->v.offset + (u64)key_head * p->width;
    UNROLL for (u32 i = 0; i < ROWS; i++)
    {
        const u32 key = row + ITEM_ROW + i;
        if (key >= p->keys) continue;
        store_row(to_k + (u64)key * p->k.pitch, dk[i], p->scale, channel, p->width, p->accumulate);
        store_row(to_v + (u64)key * p->v.pitch, dv[i], 1.0f, channel, p->width, p->accumulate);
    }
}
