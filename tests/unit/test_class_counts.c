/* Tests counts of classes and areas under ROC curves.  The expected values are those of
   scikit-learn 1.9.1: classification_report, confusion_matrix, top_k_accuracy_score and
   roc_auc_score (tests/python/test_metrics.py compares more of them). */
#include "base/auc.h"
#include "base/class_counts.h"
#include "harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 7, SAMPLES = 40 };

/* Samples of classes 0 to `present` - 1, whose probabilities are multiples of 1/64 with many ties.
 */
typedef struct samples {
    size_t n, n_classes, present;
    size_t labels[SAMPLES];
    float p[SAMPLES * MOST];
} samples;

static unsigned state;

static unsigned draw(void)
{
    state = (state * 1103515245u + 12345u) & 0x7fffffffu;
    return state >> 16;
}

static void make(size_t n, size_t n_classes, size_t present, samples *out)
{
    *out = (samples){.n = n, .n_classes = n_classes, .present = present};
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < n_classes; k++)
            out->p[i * n_classes + k] = (float)(1 + draw() % 4) / 64;
        out->labels[i] = draw() % present;
    }
}

/* What scikit-learn says of them. */
typedef struct expected {
    size_t n, n_classes, present, hits, top;
    dpti_class_figures macro, weighted, class_1;
    double auc[MOST]; /* NaN: none */
    size_t confusion[MOST * MOST];
} expected;

static const expected all[] = {
    {.n = 40,
     .n_classes = 7,
     .present = 7,
     .hits = 5,
     .top = 30,
     .macro = {0.1239795918367347, 0.11904761904761904, 0.1173861852433281},
     .weighted = {0.13017857142857142, 0.125, 0.12325549450549451},
     .class_1 = {0.1, 0.16666666666666666, 0.125},
     .auc = {0.5686274509803921, 0.375, 0.5710784313725491, 0.2692307692307692, 0.5281385281385281,
             0.509765625, 0.47058823529411764},
     .confusion = {1, 2, 0, 3, 0, 0, 0, 1, 1, 2, 1, 1, 0, 0, 1, 1, 1, 2, 0, 0, 1, 0, 0, 1, 0,
                   0, 0, 0, 2, 1, 2, 0, 0, 1, 1, 2, 3, 1, 1, 1, 0, 0, 1, 2, 0, 1, 0, 0, 2}},
    {.n = 40,
     .n_classes = 7,
     .present = 6,
     .hits = 10,
     .top = 28,
     .macro = {0.24439775910364148, 0.22346938775510208, 0.19761904761904764},
     .weighted = {0.3056372549019608, 0.25, 0.2245833333333333},
     .class_1 = {0, 0, 0},
     .auc = {0.6320346320346321, 0.5942857142857143, 0.35416666666666663, 0.6015625,
             0.642156862745098, 0.52, NAN},
     .confusion = {5, 1, 0, 1, 0, 0, 0, 3, 0, 1, 0, 0, 1, 0, 1, 1, 1, 1, 0, 0, 0, 4, 2, 1, 0,
                   1, 0, 0, 1, 0, 1, 0, 3, 0, 1, 3, 1, 2, 0, 0, 1, 3, 0, 0, 0, 0, 0, 0, 0}},
    {.n = 30,
     .n_classes = 2,
     .present = 2,
     .hits = 15,
     .top = 30,
     .macro = {0.5044642857142857, 0.504524886877828, 0.4994438264738599},
     .weighted = {0.5133928571428571, 0.5, 0.5016685205784205},
     .class_1 = {0.5714285714285714, 0.47058823529411764, 0.5161290322580645},
     .auc = {0.504524886877828, 0.5610859728506787},
     .confusion = {7, 6, 9, 8}},
    {.n = 40,
     .n_classes = 3,
     .present = 3,
     .hits = 13,
     .top = 40,
     .macro = {0.3295055821371611, 0.3468013468013467, 0.3194805194805195},
     .weighted = {0.34184210526315784, 0.325, 0.31357142857142856},
     .class_1 = {0.2727272727272727, 0.2727272727272727, 0.2727272727272727},
     .auc = {0.5062695924764891, 0.42789968652037613, 0.4267676767676768},
     .confusion = {6, 2, 3, 5, 3, 3, 8, 6, 4}},
};

static void check_figures(test *t, dpti_class_figures a, dpti_class_figures b)
{
    CHECK_NEAR(a.precision, b.precision, 1e-14);
    CHECK_NEAR(a.recall, b.recall, 1e-14);
    CHECK_NEAR(a.f1, b.f1, 1e-14);
}

static void counts_are_scikit_learns(test *t)
{
    state = 12345;
    for (size_t e = 0; e < sizeof all / sizeof *all; e++) {
        const expected *x = &all[e];
        samples s;
        dpti_class_counts c;
        make(x->n, x->n_classes, x->present, &s);
        REQUIRE(dpti_class_counts_create(s.n_classes, &c));
        for (size_t i = 0; i < s.n; i++)
            (void)dpti_class_counts_add(&c, s.labels[i], s.p + i * s.n_classes);
        CHECK_SIZE(c.n_samples, x->n);
        CHECK_SIZE(c.hits, x->hits);
        CHECK_SIZE(c.top_hits, x->top);
        check_figures(t, dpti_class_means(&c, false), x->macro);
        check_figures(t, dpti_class_means(&c, true), x->weighted);
        check_figures(t, dpti_class_figures_of(&c, 1), x->class_1);
        for (size_t i = 0; i < s.n_classes * s.n_classes; i++)
            CHECK_SIZE(c.confusion[i], x->confusion[i]);
        dpti_class_counts_free(&c);
    }
}

/* In any order of the samples. */
static void areas_are_scikit_learns(test *t)
{
    state = 12345;
    for (size_t e = 0; e < sizeof all / sizeof *all; e++) {
        const expected *x = &all[e];
        samples s;
        size_t labels[MOST] = {0};
        make(x->n, x->n_classes, x->present, &s);
        for (size_t i = 0; i < s.n; i++)
            labels[s.labels[i]]++;
        for (size_t turn = 0; turn < 3; turn++) {
            dpti_auc auc;
            REQUIRE(dpti_auc_create(s.n_classes, labels, &auc));
            for (size_t i = 0; i < s.n; i++) {
                const size_t at = (i * 7 + turn) % s.n; /* 7 divides neither 30 nor 40 */
                dpti_auc_keep(&auc, s.labels[at], s.p[at * s.n_classes + s.labels[at]]);
            }
            dpti_auc_sort(&auc);
            for (size_t i = 0; i < s.n; i++) {
                const size_t at = turn == 1 ? s.n - 1 - i : i;
                dpti_auc_compare(&auc, s.labels[at], s.p + at * s.n_classes);
            }
            for (size_t k = 0; k < s.n_classes; k++) {
                const double area = dpti_auc_of(&auc, k);
                if (isnan(x->auc[k]))
                    CHECK(isnan(area));
                else
                    CHECK_NEAR(area, x->auc[k], 1e-14);
            }
            dpti_auc_free(&auc);
        }
    }
}

/* A class that has all samples has no area; one that parts them has the whole. */
static void areas_at_the_ends(test *t)
{
    static const size_t labels[] = {0, 4}, both[] = {2, 2};
    static const float p[4][2] = {{0.75f, 0.25f}, {0.625f, 0.375f}, {0.5f, 0.5f}, {0.25f, 0.75f}};
    dpti_auc auc;
    REQUIRE(dpti_auc_create(2, labels, &auc));
    for (size_t i = 0; i < 4; i++)
        dpti_auc_keep(&auc, 1, p[i][1]);
    dpti_auc_sort(&auc);
    for (size_t i = 0; i < 4; i++)
        dpti_auc_compare(&auc, 1, p[i]);
    CHECK(isnan(dpti_auc_of(&auc, 0)) && isnan(dpti_auc_of(&auc, 1)));
    dpti_auc_free(&auc);
    REQUIRE(dpti_auc_create(2, both, &auc));
    for (size_t i = 0; i < 4; i++)
        dpti_auc_keep(&auc, i / 2, p[i][i / 2]);
    dpti_auc_sort(&auc);
    for (size_t i = 0; i < 4; i++)
        dpti_auc_compare(&auc, i / 2, p[i]);
    CHECK_NEAR(dpti_auc_of(&auc, 0), 1, 0);
    CHECK_NEAR(dpti_auc_of(&auc, 1), 1, 0);
    dpti_auc_free(&auc);
}

static void many_classes_are_not_confused(test *t)
{
    const size_t n = DPTI_MOST_CONFUSED + 1;
    dpti_class_counts c;
    float *p = calloc(n, sizeof *p);
    REQUIRE(p && dpti_class_counts_create(n, &c));
    p[n - 1] = 1;
    CHECK_SIZE(dpti_class_counts_add(&c, 3, p), n - 1);
    CHECK(c.confusion == NULL);
    CHECK_SIZE(c.hits, 0);
    CHECK_SIZE(c.predicted[n - 1], 1);
    /* Of equal probabilities the last ones come first. */
    CHECK_SIZE(c.top_hits, 0);
    (void)dpti_class_counts_add(&c, n - 5, p);
    CHECK_SIZE(c.top_hits, 1);
    (void)dpti_class_counts_add(&c, n - 6, p);
    CHECK_SIZE(c.top_hits, 1);
    dpti_class_counts_free(&c);
    CHECK(!dpti_class_counts_create(SIZE_MAX / 2, &c) && !c.samples && !c.confusion);
    free(p);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"counts are scikit-learn's", counts_are_scikit_learns},
        {"areas are scikit-learn's", areas_are_scikit_learns},
        {"areas at the ends", areas_at_the_ends},
        {"many classes are not confused", many_classes_are_not_confused},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
