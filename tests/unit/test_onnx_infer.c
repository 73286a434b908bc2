/* Tests the inference of types and shapes: what it finds in the small files of tests/onnx, and what
   it refuses. */
#include "onnx_files.h"

static dpti_onnx_graph *infer_good(test *t, const dpti_onnx_model *model)
{
    dpt_error error = {.status = DPT_OK};
    dpti_onnx_graph *graph = NULL;
    if (model && !CHECK_OK(dpti_onnx_infer(model, &graph, &error))) FAIL("%s", error.message);
    return graph;
}

/* ---- Shapes ---------------------------------------------------------------------------------- */

static const struct expected {
    const char *file, *value, *shape;
    dpti_onnx_type type;
} expectations[] = {
    {"flatten_by_shape", "y", "[N, 12]", DPTI_ONNX_FLOAT},
    {"fold_time", "f", "[3*N, 4]", DPTI_ONNX_FLOAT},
    {"fold_time", "y", "[N, 3, 4]", DPTI_ONNX_FLOAT},
    {"multiply", "y", "[2*N, 2]", DPTI_ONNX_FLOAT},
    {"expand", "y", "[1, N, 2]", DPTI_ONNX_FLOAT},
    {"constants", "sl", "[3, 3]", DPTI_ONNX_FLOAT},
    {"constants", "y", "[N, 3, 3]", DPTI_ONNX_FLOAT},
    {"windows", "a", "[N, 6, 5, 4]", DPTI_ONNX_FLOAT},
    {"windows", "b", "[N, 6, 3, 2]", DPTI_ONNX_FLOAT},
    {"windows", "c", "[N, 5, 10, 5]", DPTI_ONNX_FLOAT},
    {"windows", "d", "[N, 5, 20, 7]", DPTI_ONNX_FLOAT},
    {"windows", "e", "[N, 5, 24, 13]", DPTI_ONNX_FLOAT},
    {"windows", "y", "[N, 5, 1, 1]", DPTI_ONNX_FLOAT},
    {"products", "b", "[N, 3, 4]", DPTI_ONNX_FLOAT},
    {"products", "d", "[3, 1, N, 2]", DPTI_ONNX_FLOAT},
    {"products", "f", "[1, N, 2]", DPTI_ONNX_FLOAT},
    {"products", "y", "[N, 5]", DPTI_ONNX_FLOAT},
    {"arithmetic", "y", "[N, 26]", DPTI_ONNX_FLOAT},
    {"moved", "d", "[4, 2]", DPTI_ONNX_INT64},
    {"moved", "y", "[N, 8]", DPTI_ONNX_FLOAT},
    {"elements", "m", "[N, 3, 4]", DPTI_ONNX_BOOL},
    {"elements", "e", "[N, 3, 4]", DPTI_ONNX_FLOAT},
    {"elements", "g", "[N, 3, 4]", DPTI_ONNX_FLOAT},
    {"elements", "i", "[N, 3, 4]", DPTI_ONNX_INT32},
    {"elements", "k", "[N, 3, 4]", DPTI_ONNX_BOOL},
    {"norms", "m", "[N, 4, 1]", DPTI_ONNX_FLOAT},
    {"norms", "s", "[4]", DPTI_ONNX_FLOAT},
    {"norms", "y", "[N, 4, 6]", DPTI_ONNX_FLOAT},
    {"attention", "a", "[N, 2, 3, 2]", DPTI_ONNX_FLOAT},
    {"attention", "b", "[N, 3, 4]", DPTI_ONNX_FLOAT},
    {"attention", "c", "[N, 3, 2, 2]", DPTI_ONNX_FLOAT},
    {"attention", "d", "[N, 2, 2]", DPTI_ONNX_FLOAT},
    {"attention", "y", "[3, 5, N]", DPTI_ONNX_FLOAT},
    {"layouts", "c", "[N, 3, 6]", DPTI_ONNX_FLOAT},
    {"layouts", "d", "[N, 6, 6]", DPTI_ONNX_FLOAT},
    {"layouts", "e", "[N, 3, 6]", DPTI_ONNX_FLOAT},
    {"layouts", "g", "[N, 3, 2]", DPTI_ONNX_INT64},
    {"layouts", "h", "[N, 2]", DPTI_ONNX_INT64},
    {"layouts", "i", "[N, 2, 7]", DPTI_ONNX_FLOAT},
    {"layouts", "y", "[N, 7]", DPTI_ONNX_FLOAT},
    {"own_rows", "y", "[N, 4]", DPTI_ONNX_FLOAT},
    {"own_places", "y", "[N, 4]", DPTI_ONNX_FLOAT},
};

static void finds_shapes(test *t)
{
    for (size_t i = 0; i < sizeof expectations / sizeof *expectations; i++) {
        const struct expected *e = &expectations[i];
        char name[64], shape[128];
        snprintf(name, sizeof name, "shapes/%s.onnx", e->file);
        dpti_onnx_model *model = onnx_open(t, name);
        dpti_onnx_graph *graph = infer_good(t, model);
        REQUIRE(graph != NULL);
        const size_t v = onnx_value(model, e->value);
        REQUIRE(v != DPTI_ONNX_NONE);
        dpti_onnx_print_shape(&graph->facts[v].shape, shape, sizeof shape);
        if (!CHECK_TEXT(shape, e->shape) || !CHECK(graph->facts[v].type == e->type))
            FAIL("value %s of %s", e->value, name);
        dpti_onnx_graph_free(graph);
        dpti_onnx_close(model);
    }
}

/* ---- What is known --------------------------------------------------------------------------- */

static void folds_shape_computations(test *t)
{
    static const struct {
        const char *file;
        size_t n_nodes;
    } files[] = {{"flatten_by_shape", 1}, {"multiply", 1},  {"expand", 1},
                 {"constants", 1},        {"parameter", 2}, {"fold_time", 2}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char name[64];
        snprintf(name, sizeof name, "shapes/%s.onnx", files[i].file);
        dpti_onnx_model *model = onnx_open(t, name);
        dpti_onnx_graph *graph = infer_good(t, model);
        REQUIRE(graph != NULL);
        if (!CHECK_SIZE(graph->n_nodes, files[i].n_nodes)) FAIL("nodes of %s", name);
        CHECK(graph->nodes[graph->n_nodes - 1] == &model->nodes[model->n_nodes - 1]);
        dpti_onnx_graph_free(graph);
        dpti_onnx_close(model);
    }
}

static void knows_extents_that_grow_with_the_batch(test *t)
{
    dpti_onnx_model *model = onnx_open(t, "shapes/multiply.onnx");
    dpti_onnx_graph *graph = infer_good(t, model);
    REQUIRE(graph != NULL);
    const dpti_onnx_fact *target = &graph->facts[onnx_value(model, "t")];
    REQUIRE(target->cells && target->n_cells == 2);
    CHECK(target->cells[0].times == 2 && target->cells[0].fixed == 0); /* 6 N / 2 - N */
    CHECK(target->cells[1].times == 0 && target->cells[1].fixed == 2);
    dpti_onnx_graph_free(graph);
    dpti_onnx_close(model);
}

/* The evaluated elements of a value, by make_models.py. */
static void check_cells(test *t, const char *file, const char *value, const double *expected)
{
    dpti_onnx_model *model = onnx_open(t, file);
    dpti_onnx_graph *graph = infer_good(t, model);
    REQUIRE(graph != NULL);
    const dpti_onnx_fact *fact = &graph->facts[onnx_value(model, value)];
    REQUIRE(fact->cells != NULL);
    for (size_t i = 0; i < fact->n_cells; i++)
        if (!CHECK_NEAR(fact->cells[i].real, expected[i], 0)) FAIL("element %zu of %s", i, value);
    CHECK(!fact->parameter);
    dpti_onnx_graph_free(graph);
    dpti_onnx_close(model);
}

static void evaluates_constants(test *t)
{
    /* Rows and columns of 0, 2, 4 are multiplied, and the rows are taken backwards. */
    static const double backwards[9] = {0, 8, 16, 0, 4, 8, 0, 0, 0};
    static const double moved[8] = {0, 1, 0, 4, 0, 1, 0, 4};
    /* Of 3 and -7: larger, smaller, -7 mod 3, -7 / 3, 7, 7, product, sum.  Of 2.5: down, up, to
       even. Of 4: root, reciprocal, 4 to the 4; 4 - 2.5, exp 0, log 1.  Then comparisons and logic.
     */
    static const double arithmetic[26] = {3,   -7,  2, -2, 7, 7, -21, -4, 2, 3, 2, 2, 0.25,
                                          256, 1.5, 1, 0,  1, 0, 0,   1,  0, 1, 1, 1, 0};
    check_cells(t, "shapes/constants.onnx", "sl", backwards);
    check_cells(t, "shapes/moved.onnx", "g", moved);
    check_cells(t, "shapes/arithmetic.onnx", "all", arithmetic);
}

/* A real initialiser may be trained: what depends on it is known, but stays in the graph. */
static void keeps_what_depends_on_parameters(test *t)
{
    dpti_onnx_model *model = onnx_open(t, "shapes/parameter.onnx");
    dpti_onnx_graph *graph = infer_good(t, model);
    REQUIRE(graph != NULL);
    const dpti_onnx_fact *negated = &graph->facts[onnx_value(model, "v")];
    REQUIRE(negated->cells != NULL);
    CHECK(negated->parameter);
    CHECK_NEAR(negated->cells[1].real, -0.125, 0);
    CHECK_TEXT(graph->nodes[0]->op, "Neg");
    dpti_onnx_graph_free(graph);
    dpti_onnx_close(model);
}

/* A view of all elements in their order is a reshape, and nothing computes its indices. */
static void replaces_views(test *t)
{
    dpti_onnx_model *model = onnx_open(t, "shapes/view.onnx");
    dpti_onnx_graph *graph = infer_good(t, model);
    REQUIRE(graph != NULL);
    if (CHECK_SIZE(graph->n_nodes, 2)) {
        CHECK_TEXT(graph->nodes[0]->op, "Reshape");
        CHECK_TEXT(graph->nodes[1]->op, "Reshape");
        CHECK_SIZE(graph->nodes[1]->n_inputs, 1);
    }
    dpti_onnx_graph_free(graph);
    dpti_onnx_close(model);
}

/* The branch of an If whose condition is known takes the place of the If; the other one need not
   fit. */
static void takes_branches(test *t)
{
    static const char *const ops[] = {"Mul",      "Neg",      "Identity", "Add",
                                      "Identity", "Identity", "Add"};
    dpti_onnx_model *model = onnx_open(t, "good/branches.onnx");
    dpti_onnx_graph *graph = infer_good(t, model);
    REQUIRE(graph != NULL);
    if (CHECK_SIZE(graph->n_nodes, sizeof ops / sizeof *ops))
        for (size_t i = 0; i < graph->n_nodes; i++)
            CHECK_TEXT(graph->nodes[i]->op, ops[i]);
    dpti_onnx_graph_free(graph);
    dpti_onnx_close(model);
}

/* ---- Refusals -------------------------------------------------------------------------------- */

static const struct {
    const char *file;
    dpt_status status;
    const char *says;
} refusals[] = {
    {"operator", DPT_E_UNSUPPORTED, "node \"n0\" (NonZero): the shape of its result depends on"},
    {"fixed_reshape", DPT_E_UNSUPPORTED, "[N, 3, 4] cannot become [2, 12] for every batch"},
    {"cut_reshape", DPT_E_UNSUPPORTED, "node \"n0\" (Reshape)"},
    {"range_of_batch", DPT_E_UNSUPPORTED,
     "node \"n3\" (Cast): it computes with the numbers of the"},
    {"counted_step", DPT_E_UNSUPPORTED, "node \"n11\" (ScatterND)"},
    {"counted_offset", DPT_E_UNSUPPORTED, "node \"n11\" (ScatterND)"},
    {"counted_other", DPT_E_UNSUPPORTED, "node \"n11\" (ScatterND)"},
    {"strided", DPT_E_UNSUPPORTED, "node \"n7\" (Gather): it computes with the numbers of the"},
    {"reversed", DPT_E_UNSUPPORTED, "node \"n7\" (Gather): it computes with the numbers of the"},
    {"number_as_data", DPT_E_UNSUPPORTED, "node \"n7\" (Cast)"},
    {"number_of_table", DPT_E_UNSUPPORTED, "node \"n7\" (Gather)"},
    {"number_shifted", DPT_E_UNSUPPORTED, "node \"n11\" (GatherND)"},
    {"number_beyond", DPT_E_UNSUPPORTED, "node \"n8\" (Add)"},
    {"number_unbounded", DPT_E_UNSUPPORTED, "node \"n9\" (Add)"},
    {"number_of_others", DPT_E_UNSUPPORTED, "node \"n8\" (Gather)"},
    {"branch_of_data", DPT_E_UNSUPPORTED,
     "node \"choice\" (If): its condition depends on the data"},
    {"branch_of_batch", DPT_E_UNSUPPORTED,
     "node \"choice\" (If): its condition depends on the data"},
    {"branch_of_parameter", DPT_E_UNSUPPORTED, "node \"choice\" (If): its condition depends"},
    {"branch_taken", DPT_E_UNSUPPORTED, "node \"then#1/wide\" (Expand): its input does not fit"},
    {"computes_with_batch", DPT_E_UNSUPPORTED, "output \"y\" is computed from the batch's extent"},
    {"pairs", DPT_E_UNSUPPORTED, "node \"n2\" (MatMul): its result [N, N] has the batch twice"},
    {"fixed_batch", DPT_E_UNSUPPORTED, "the batch extent of input \"x\" is fixed"},
    {"two_free", DPT_E_UNSUPPORTED, "input \"x\" has 2 extents that are not fixed"},
    {"part_of_batch", DPT_E_UNSUPPORTED, "node \"n0\" (Slice): the part that it takes of axis 0"},
    {"shapes", DPT_E_FORMAT, "the shapes [N, 3, 4] and [5] do not fit together"},
    {"channels", DPT_E_FORMAT, "node \"n0\" (Conv): the shapes of its input and its weights"},
    {"many_axes", DPT_E_UNSUPPORTED, "node \"n0\" (Conv): its input has 6 axes; 3 to 5 are taken"},
    {"window", DPT_E_FORMAT, "impossible shape [N, 4, -1, -1]"},
    {"data_shape", DPT_E_UNSUPPORTED, "node \"n1\" (ConstantOfShape): its input 0 is not known"},
    {"axis", DPT_E_FORMAT, "node \"n0\" (Softmax): axis out of range"},
    {"no_part", DPT_E_FORMAT, "node \"n1\" (SequenceAt): there is no part 2"},
    {"parts", DPT_E_FORMAT, "or the parts do not add up to the axis"},
    {"sequence", DPT_E_UNSUPPORTED,
     "node \"n0\" (SplitToSequence): a sequence is taken only where"},
    {"sequence_of_batch", DPT_E_UNSUPPORTED, "it splits the batch"},
};

static void refuses_with_a_reason(test *t)
{
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        char name[64];
        dpt_error error = {.status = DPT_OK};
        dpti_onnx_graph *graph = NULL;
        snprintf(name, sizeof name, "refused/%s.onnx", refusals[i].file);
        dpti_onnx_model *model = onnx_open(t, name);
        REQUIRE(model != NULL);
        CHECK_STATUS(dpti_onnx_infer(model, &graph, &error), refusals[i].status);
        CHECK(graph == NULL);
        CHECK_CONTAINS(error.message, refusals[i].says);
        CHECK(strncmp(error.message, model->path, strlen(model->path)) == 0);
        dpti_onnx_close(model);
    }
}

static void prints_shapes(test *t)
{
    char text[32];
    dpti_onnx_shape shape = {3, {{2, true}, {1, true}, {5, false}}};
    dpti_onnx_print_shape(&shape, text, sizeof text);
    CHECK_TEXT(text, "[2*N, N, 5]");
    dpti_onnx_print_shape(&shape, text, 6);
    CHECK_TEXT(text, "[2*N,");
    shape.rank = 0;
    dpti_onnx_print_shape(&shape, text, sizeof text);
    CHECK_TEXT(text, "[]");
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"finds shapes", finds_shapes},
        {"folds shape computations", folds_shape_computations},
        {"knows extents that grow with the batch", knows_extents_that_grow_with_the_batch},
        {"evaluates constants", evaluates_constants},
        {"keeps what depends on parameters", keeps_what_depends_on_parameters},
        {"replaces views", replaces_views},
        {"takes branches", takes_branches},
        {"refuses with a reason", refuses_with_a_reason},
        {"prints shapes", prints_shapes},
    };
#ifndef DPTRAIN_HAS_ONNX
    puts("this build has no protobuf-c");
    return TEST_SKIP_CODE;
#endif
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
