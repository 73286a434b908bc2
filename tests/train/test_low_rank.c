/* Tests sums over processes of which factors of low rank travel (collective/low_rank_sum.h): the
   same bits in every process, close to the reference; that over many sums nothing is lost; and that
   what is left out arrives. */
#include "collective/low_rank_sum.h"
#include "context/context.h"
#include "harness.h"
#include "reference/low_rank.h"
#include "train/processes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A matrix, a gap, and a vector. */
enum { MOST = 5, ROWS = 24, COLUMNS = 60, SIZE = ROWS * COLUMNS, GAP = 32, VECTOR = 17 };
enum { COUNT = SIZE + GAP + VECTOR };

typedef struct task {
    size_t n, rank, n_steps;
    bool constant; /* a process contributes the same in every step */
    float *sums[MOST], *residuals[MOST], *starts[MOST];
} task;

static bool contributes(const task *c, size_t rank, size_t step)
{
    return c->constant || (rank + step) % 3 != 0 || rank == step % c->n;
}

static float value_of(const task *c, size_t rank, size_t step, size_t i)
{
    const double at = (double)(i * 7 + rank * 1009 + (c->constant ? 0 : step * 31) + 1);
    return i >= SIZE && i < SIZE + GAP ? 0 : (float)(sin(at * at) + 0.5 * sin(0.01 * at));
}

static dpti_low_rank *make(size_t rank)
{
    dpti_low_rank *l = dpti_low_rank_create(COUNT, rank);
    if (l && dpti_low_rank_add(l, (dpti_range){0, SIZE}, ROWS) &&
        dpti_low_rank_add(l, (dpti_range){SIZE + GAP, COUNT}, 0) && dpti_low_rank_finish(l))
        return l;
    dpti_low_rank_destroy(l);
    return NULL;
}

static dpt_status sum_once(const task *c, dpti_processes *p, size_t step, dpti_low_rank_sum *sum)
{
    dpt_error error = {.status = DPT_OK};
    const size_t rank = dpti_processes_rank(p);
    bool who[MOST];
    for (size_t r = 0; r < c->n; r++)
        who[r] = contributes(c, r, step);
    for (size_t i = 0; i < COUNT; i++)
        sum->data[i] = who[rank] ? value_of(c, rank, step, i) : NAN;
    sum->contributes = who;
    dpti_low_rank_sum_start(p, sum);
    DPT_TRY(dpti_processes_finish_collectives(p, &error));
    return dpti_low_rank_sum_finish(p, sum, &error);
}

/* Keeps the sums of all steps, one behind the other, the last residual, and where the first step
   and each later one began. */
static dpt_status part(dpt_context *context, size_t rank, void *user)
{
    task *c = user;
    dpti_feedback f;
    bool finite = true;
    float *starts = c->starts[rank] = calloc(COUNT * c->n_steps + 1, sizeof(float));
    c->sums[rank] = calloc(COUNT * c->n_steps + 1, sizeof(float));
    c->residuals[rank] = calloc(COUNT, sizeof(float));
    if (!starts || !c->sums[rank] || !c->residuals[rank] ||
        !dpti_feedback_create_low_rank(make(c->rank), &f))
        return DPT_E_NO_MEMORY;
    dpt_status status = DPT_OK;
    for (size_t s = 0; s < c->n_steps && status == DPT_OK; s++) {
        dpti_low_rank_sum sum = {
            .feedback = &f, .data = c->sums[rank] + s * COUNT, .finite = &finite};
        memcpy(starts + s * COUNT, f.low_rank->start, COUNT * sizeof *starts);
        status = sum_once(c, context->processes, s, &sum);
        dpti_feedback_commit(&f);
    }
    memcpy(c->residuals[rank], f.residual, COUNT * sizeof(float));
    dpti_feedback_free(&f);
    return finite ? status : DPT_E_NOT_FINITE;
}

static bool run(test *t, task *c)
{
    char message[512] = "";
    if (CHECK_OK(stand_ins_run(c->n, part, c, message))) return true;
    FAIL("%s", message);
    return false;
}

static void free_task(task *c)
{
    for (size_t r = 0; r < MOST; r++) {
        free(c->sums[r]);
        free(c->residuals[r]);
        free(c->starts[r]);
        c->sums[r] = c->residuals[r] = c->starts[r] = NULL;
    }
}

static void check_same(test *t, const task *c)
{
    for (size_t r = 1; r < c->n; r++) {
        const size_t n_bytes = COUNT * c->n_steps * sizeof(float);
        CHECK(memcmp(c->sums[r], c->sums[0], n_bytes) == 0);
        CHECK(memcmp(c->starts[r], c->starts[0], n_bytes) == 0);
    }
}

/* The first step, to what bfloat16 rounds of the factors: 1/256 of a number at most. */
static void check_first(test *t, const task *c)
{
    static const double rounding = 1.0 / 64;
    const reference_matrix m = {ROWS, COLUMNS, c->rank};
    double sum[COUNT] = {0}, start[COUNT], out[SIZE], apart = 0, size = 0;
    for (size_t i = 0; i < COUNT; i++) {
        start[i] = (double)c->starts[0][i];
        for (size_t r = 0; r < c->n; r++)
            if (contributes(c, r, 0)) sum[i] += (double)value_of(c, r, 0, i);
    }
    REQUIRE(reference_low_rank(&m, sum, start, out));
    for (size_t i = 0; i < SIZE; i++) {
        apart += pow((double)c->sums[0][i] - out[i], 2);
        size += out[i] * out[i];
    }
    CHECK(sqrt(apart) <= rounding * sqrt(size));
    for (size_t i = SIZE; i < COUNT; i++)
        CHECK_NEAR(c->sums[0][i], sum[i], 1e-6 * (double)c->n);
}

static void as_the_reference(test *t)
{
    for (size_t n = 1; n <= MOST; n++)
        for (size_t rank = 1; rank <= 8; rank *= 2) {
            task c = {.n = n, .rank = rank, .n_steps = 5};
            if (run(t, &c)) {
                check_same(t, &c);
                check_first(t, &c);
            }
            free_task(&c);
        }
}

/* What was applied and what processes keep is what they have brought. */
static void nothing_is_lost(test *t)
{
    for (size_t n = 1; n <= MOST; n++) {
        task c = {.n = n, .rank = 2, .n_steps = 60};
        if (!run(t, &c)) return;
        size_t n_lost = 0, n_owed = 0;
        for (size_t i = 0; i < COUNT; i++) {
            double brought = 0, found = 0;
            for (size_t s = 0; s < c.n_steps; s++) {
                found += (double)c.sums[0][s * COUNT + i];
                for (size_t r = 0; r < n; r++)
                    if (contributes(&c, r, s)) brought += (double)value_of(&c, r, s, i);
            }
            for (size_t r = 0; r < n; r++) {
                found += (double)c.residuals[r][i];
                n_owed += i >= SIZE && c.residuals[r][i] != 0;
            }
            n_lost += !(fabs(found - brought) <= 1e-3);
        }
        CHECK_SIZE(n_lost, 0);
        CHECK_SIZE(n_owed, 0);
        free_task(&c);
    }
}

/* Of what is the same in every step all is applied in the mean, although it has all ranks. */
static void what_is_left_out_arrives(test *t)
{
    task c = {.n = 2, .rank = 2, .n_steps = 800, .constant = true};
    if (!run(t, &c)) return;
    double apart = 0, size = 0;
    for (size_t i = 0; i < SIZE; i++) {
        double mean = 0, wanted = 0;
        for (size_t s = 0; s < c.n_steps; s++)
            mean += (double)c.sums[0][s * COUNT + i] / (double)c.n_steps;
        for (size_t r = 0; r < c.n; r++)
            wanted += (double)value_of(&c, r, 0, i);
        apart += pow(mean - wanted, 2);
        size += wanted * wanted;
    }
    CHECK(sqrt(apart) <= 0.1 * sqrt(size));
    free_task(&c);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"as the reference", as_the_reference},
        {"over many sums nothing is lost", nothing_is_lost},
        {"what is left out arrives", what_is_left_out_arrives},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
