/* Tests the proof that samples are independent, on the small files of tests/onnx. */
#include "onnx/batch_parallel.h"
#include "onnx_files.h"

/* A file whose graph must be inferred; false after a noted failure. */
static bool load(test *t, const char *name, dpti_onnx_model **model, dpti_onnx_graph **graph)
{
    dpt_error error = {.status = DPT_OK};
    *graph = NULL;
    *model = onnx_open(t, name);
    if (*model && !CHECK_OK(dpti_onnx_infer(*model, graph, &error))) FAIL("%s", error.message);
    return *graph != NULL;
}

/* ---- Proofs ---------------------------------------------------------------------------------- */

static const struct {
    const char *file, *value;
    size_t axis;
    int64_t outer;
} places[] = {
    {"time_in_batch", "a", 0, 1}, {"time_in_batch", "c", 0, 1}, {"time_in_batch", "y", 0, 1},
    {"time_first", "a", 1, 1},    {"time_first", "c", 0, 3},    {"time_first", "d", 1, 1},
    {"batch_norm", "y", 0, 1},    {"tile", "a", 0, 2},          {"tile", "b", 1, 1},
    {"indices", "c", 0, 1},       {"indices", "y", 0, 1},       {"attention", "b", 0, 1},
    {"attention", "y", 0, 1},     {"attention", "h0", 0, 1},    {"embedding", "y", 0, 1},
    {"embedding", "w", 2, 1},     {"joined", "a", 0, 3},        {"joined", "b", 0, 2},
    {"joined", "d", 0, 1},        {"joined", "y", 0, 1},
};

static void follows_the_samples(test *t)
{
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char name[64];
        dpt_error error = {.status = DPT_OK};
        dpti_onnx_model *model = NULL;
        dpti_onnx_graph *graph = NULL;
        const dpti_onnx_samples *samples = NULL;
        snprintf(name, sizeof name, "parallel/%s.onnx", places[i].file);
        REQUIRE(load(t, name, &model, &graph));
        if (!CHECK_OK(dpti_onnx_prove(graph, &samples, &error))) FAIL("%s", error.message);
        REQUIRE(samples != NULL);
        const size_t v = onnx_value(model, places[i].value);
        REQUIRE(v != DPTI_ONNX_NONE);
        if (!CHECK_SIZE(samples[v].axis, places[i].axis) ||
            !CHECK(samples[v].outer == places[i].outer))
            FAIL("value %s of %s", places[i].value, name);
        dpti_onnx_graph_free(graph);
        dpti_onnx_close(model);
    }
}

/* The first output of real numbers is the mean over the batch of numbers that are computed of each
 * sample alone. */
static void finds_losses(test *t)
{
    static const struct {
        const char *file;
        bool loss;
    } files[] = {
        {"several/squares_default.onnx", true}, {"several/squares_older.onnx", true},
        {"several/classes_default.onnx", true}, {"several/places_older.onnx", true},
        {"several/masked_default.onnx", false}, {"parallel/batch_norm.onnx", false},
        {"parallel/loss_second.onnx", true},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        dpt_error error = {.status = DPT_OK};
        dpti_onnx_model *model = NULL;
        dpti_onnx_graph *graph = NULL;
        REQUIRE(load(t, files[i].file, &model, &graph));
        if (!CHECK_OK(dpti_onnx_prove(graph, NULL, &error))) FAIL("%s", error.message);
        if (!CHECK(graph->gives_loss == files[i].loss)) FAIL("%s", files[i].file);
        dpti_onnx_graph_free(graph);
        dpti_onnx_close(model);
    }
}

/* ---- Refusals -------------------------------------------------------------------------------- */

static const struct {
    const char *file, *says;
} refusals[] = {
    {"reduce", "node \"n0\" (ReduceMean): it mixes the samples of a batch: it reduces over the "
               "batch axis"},
    {"reduce_all", "node \"n0\" (ReduceSum): it mixes the samples of a batch: it reduces over the "
                   "batch axis; a loss is trained as a mean over the batch"},
    {"softmax", "it computes over the batch axis"},
    {"concat", "its inputs have the samples in different orders"},
    {"slice", "it takes a part of the samples"},
    {"cumsum", "it sums along the batch axis"},
    {"gather", "it picks samples out of the batch"},
    {"transposing_reshape", "node \"n1\" (Reshape): it mixes the samples of a batch: the new shape "
                            "cuts across samples"},
    {"orders", "node \"n3\" (Add): it mixes the samples of a batch: its inputs have the samples in "
               "different orders"},
    {"gemm", "it sums over the batch axis"},
    {"pool", "its window moves over the batch axis"},
    {"lstm_time", "it takes the batch for time"},
    {"matmul",
     "node \"n1\" (MatMul): it mixes the samples of a batch: it sums over the batch axis"},
    {"einsum", "it sums over the batch axis"},
    {"split", "it takes a part of the samples"},
    {"argmax", "it reduces over the batch axis"},
    {"layer_norm", "it normalises over the batch axis"},
    {"trilu", "its rows or columns are samples"},
    {"elements", "it picks elements of other samples"},
    {"scatter", "its indices reach every sample"},
    {"plane", "the batch is not its axis 0"},
    {"weights", "a parameter of it depends on the sample"},
    {"loss_root",
     "node \"n1\" (Sqrt): it mixes the samples of a batch: it computes with a mean over "
     "the batch"},
    {"loss_square", "node \"n1\" (Mul): it mixes the samples of a batch: it computes with a mean"},
    {"loss_spread", "node \"n1\" (Sub): it mixes the samples of a batch: it computes with a mean"},
    {"loss_inverse", "node \"n1\" (Div): it mixes the samples of a batch: it computes with a mean"},
    {"loss_sum",
     "(SoftmaxCrossEntropyLoss): it mixes the samples of a batch: it sums over the batch; "
     "a loss is trained as a mean: export it with reduction='mean'"},
    {"loss_ignored",
     "with class weights or ignored labels its divisor is not the number of samples"},
    {"output_order", "the output \"y\" does not have the elements of a sample one after another"},
};

static void refuses_what_mixes_samples(test *t)
{
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        char name[64];
        dpt_error error = {.status = DPT_OK};
        dpti_onnx_model *model = NULL;
        dpti_onnx_graph *graph = NULL;
        snprintf(name, sizeof name, "mixed/%s.onnx", refusals[i].file);
        REQUIRE(load(t, name, &model, &graph));
        CHECK_STATUS(dpti_onnx_prove(graph, NULL, &error), DPT_E_UNSUPPORTED);
        CHECK_CONTAINS(error.message, refusals[i].says);
        dpti_onnx_graph_free(graph);
        dpti_onnx_close(model);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"follows the samples", follows_the_samples},
        {"finds losses", finds_losses},
        {"refuses what mixes samples", refuses_what_mixes_samples},
    };
#ifndef DPTRAIN_HAS_ONNX
    puts("this build has no protobuf-c");
    return TEST_SKIP_CODE;
#endif
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
