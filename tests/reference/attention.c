/* ATTENTION.  One pair of functions computes both the result and the size of its terms: the size of
   a term takes absolute values, and magnifies what the exponential magnifies. */
#include "reference.h"

#include <math.h>
#include <stdlib.h>

/* Where the rows of queries, keys or values of a sample lie. */
typedef struct part {
    const double *data;
    double *out; /* their gradient, or NULL */
    size_t pitch;
} part;

typedef struct parts {
    part q, k, v;
} parts;

/* first_in, first_out: the slots of x or q, and of their gradients. */
static parts parts_of(const dpt_attention_desc *d, size_t sample, const reference_args *args,
                      size_t first_in, bool gradients)
{
    const size_t width = d->heads * d->width, key_width = d->key_heads * d->width;
    part p[3];
    if (d->packed) {
        const size_t pitch = dpt_attention_pitch(d), at = sample * d->queries * pitch;
        const size_t begin[] = {0, width, width + key_width};
        for (size_t i = 0; i < 3; i++)
            p[i] = (part){args->in[first_in] + at + begin[i],
                          gradients ? args->out[0] + at + begin[i] : NULL, pitch};
    } else {
        const size_t pitch[] = {width, key_width, key_width};
        const size_t length[] = {d->queries, d->keys, d->keys};
        for (size_t i = 0; i < 3; i++)
            p[i] =
                (part){args->in[first_in + i] + sample * length[i] * pitch[i],
                       gradients ? args->out[i] + sample * length[i] * pitch[i] : NULL, pitch[i]};
    }
    return (parts){p[0], p[1], p[2]};
}

/* A head and a query of a sample. */
typedef struct place {
    size_t sample, head, query;
} place;

static size_t n_keys_of(const dpt_attention_desc *d, size_t query)
{
    return d->causal ? query + d->keys - d->queries + 1 : d->keys;
}

static double dot(const double *a, const double *b, size_t n, bool absolute)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++)
        sum += absolute ? fabs(a[i] * b[i]) : a[i] * b[i];
    return sum;
}

static const double *row_of(const dpt_attention_desc *d, const part *p, size_t row, size_t head)
{
    return p->data + row * p->pitch + head * d->width;
}

/* scores and sizes (keys): the scores of a query, and the sum of the absolute values of their
   terms.  Returns the number of keys that it reads. */
static size_t find_scores(const dpt_attention_desc *d, const parts *of, place at, double *scores,
                          double *sizes)
{
    const size_t n = n_keys_of(d, at.query), key_head = at.head / (d->heads / d->key_heads);
    const double *q = row_of(d, &of->q, at.query, at.head);
    for (size_t j = 0; j < n; j++) {
        const double *k = row_of(d, &of->k, j, key_head);
        scores[j] = (double)d->scale * dot(q, k, d->width, false);
        sizes[j] = fabs((double)d->scale) * dot(q, k, d->width, true);
    }
    return n;
}

/* p, terms (keys): the probabilities of n scores, and how much their rounding is magnified. */
static double normalise(const double *scores, const double *sizes, size_t n, double *p,
                        double *terms)
{
    double most = scores[0], sum = 0.0;
    for (size_t j = 0; j < n; j++)
        most = scores[j] > most ? scores[j] : most;
    for (size_t j = 0; j < n; j++)
        sum += exp(scores[j] - most);
    for (size_t j = 0; j < n; j++) {
        p[j] = exp(scores[j] - most) / sum;
        terms[j] = 2.0 + sizes[j] + most - scores[j];
    }
    return most + log(sum);
}

static void forward_query(const dpt_attention_desc *d, const parts *of, place at,
                          const reference_args *args, bool magnitude)
{
    double *s = calloc(4 * d->keys, sizeof *s);
    double *sizes = s + d->keys, *p = sizes + d->keys, *terms = p + d->keys;
    if (!s) abort();
    const size_t n = find_scores(d, of, at, s, sizes);
    const double lse = normalise(s, sizes, n, p, terms), mean = dot(p, terms, n, false);
    double *y =
        args->out[0] + ((at.sample * d->queries + at.query) * d->heads + at.head) * d->width;
    for (size_t c = 0; c < d->width; c++)
        y[c] = 0.0;
    for (size_t j = 0; j < n; j++) {
        const double *v = row_of(d, &of->v, j, at.head / (d->heads / d->key_heads));
        for (size_t c = 0; c < d->width; c++)
            y[c] += magnitude ? p[j] * fabs(v[c]) * (terms[j] + mean) : p[j] * v[c];
    }
    if (args->out[1])
        args->out[1][(at.sample * d->heads + at.head) * d->queries + at.query] =
            magnitude ? mean + 2.0 * fabs(lse) : lse;
    free(s);
}

static void add_gradient(const dpt_attention_desc *d, const part *p, size_t row, size_t head,
                         double factor, const double *of, bool magnitude)
{
    double *to = p->out + row * p->pitch + head * d->width;
    for (size_t c = 0; c < d->width; c++)
        to[c] += magnitude ? factor * fabs(of[c]) : factor * of[c];
}

static void backward_query(const dpt_attention_desc *d, const parts *of, place at,
                           const reference_args *args, bool magnitude)
{
    const size_t key_head = at.head / (d->heads / d->key_heads);
    const size_t row = ((at.sample * d->queries + at.query) * d->heads + at.head) * d->width;
    const double *dy = args->in[0] + row, *y = args->in[1] + row;
    const double *q = row_of(d, &of->q, at.query, at.head);
    const double lse = args->in[2][(at.sample * d->heads + at.head) * d->queries + at.query];
    const double sum = dot(dy, y, d->width, magnitude), scale = (double)d->scale;
    double *s = calloc(2 * d->keys, sizeof *s), *sizes = s + d->keys;
    if (!s) abort();
    const size_t n = find_scores(d, of, at, s, sizes);
    for (size_t j = 0; j < n; j++) {
        const double *k = row_of(d, &of->k, j, key_head), *v = row_of(d, &of->v, j, key_head);
        const double all = dot(dy, v, d->width, magnitude);
        double p = exp(s[j] - lse);
        if (magnitude) p *= 2.0 + sizes[j] + fabs(s[j]) + fabs(lse);
        const double ds = magnitude ? fabs(scale) * p * (all + sum) : scale * p * (all - sum);
        add_gradient(d, &of->q, at.query, at.head, ds, k, magnitude);
        add_gradient(d, &of->k, j, key_head, ds, q, magnitude);
        add_gradient(d, &of->v, j, key_head, p, dy, magnitude);
    }
    free(s);
}

/* Sets the gradients to zero, or their sizes to those of what is there. */
static void begin_gradients(const dpt_attention_desc *d, size_t n, const reference_args *args,
                            bool magnitude)
{
    const size_t q = n * d->queries * d->heads * d->width;
    const size_t k = n * d->keys * d->key_heads * d->width;
    const size_t sizes[] = {d->packed ? n * d->queries * dpt_attention_pitch(d) : q, k, k};
    for (size_t i = 0; i < (d->packed ? 1 : 3); i++)
        for (size_t e = 0; e < sizes[i]; e++)
            args->out[i][e] = !args->accumulate ? 0.0
                              : magnitude       ? fabs(args->out[i][e])
                                                : args->out[i][e];
}

static void attend(const dpt_op_desc *desc, size_t n, const reference_args *args, bool magnitude)
{
    const dpt_attention_desc *d = &desc->u.attention;
    const bool backward = desc->kind == DPT_OP_ATTENTION_BACKWARD;
    if (backward) begin_gradients(d, n, args, magnitude);
    for (size_t s = 0; s < n; s++) {
        const parts of = parts_of(d, s, args, backward ? 3 : 0, backward);
        for (size_t h = 0; h < d->heads; h++)
            for (size_t i = 0; i < d->queries; i++)
                (backward ? backward_query : forward_query)(d, &of, (place){s, h, i}, args,
                                                            magnitude);
    }
}

void reference_attention(const dpt_op_desc *desc, size_t n, const reference_args *args)
{
    attend(desc, n, args, false);
}

void magnitude_attention(const dpt_op_desc *desc, size_t n, const reference_args *args)
{
    attend(desc, n, args, true);
}
