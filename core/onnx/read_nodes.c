/* The nodes of the graph, with the body of a function in place of each node that calls it, and the
   bodies of both branches in front of each If. */
#include "onnx/read_state.h"

#include <string.h>

enum { MAX_DEPTH = 32 };

/* A list of nodes in the place where it is: the graph, the body of a function that was called, or a
   branch of an If. */
typedef struct frame frame;
struct frame {
    const Dpti__Onnx__Function *function; /* NULL: the graph, or a branch of it */
    const Dpti__Onnx__Graph *branch;      /* of an If; NULL: none */
    frame *around;                        /* of a branch: what the If is in */
    size_t depth;
    const char *prefix;    /* of the names inside */
    dpti_onnx_names names; /* inside a function: what its inputs and outputs are outside; inside a
                              branch: what its own names are */
    const dpti_onnx_flat_node *caller;
};

typedef struct flattening {
    dpti_onnx_reading *reading;
    dpti_onnx_names functions;
} flattening;

static dpt_status flatten_all(flattening *f, frame *in, dpt_error *error);

static bool is_default_domain(const char *domain)
{
    return domain[0] == 0 || strcmp(domain, "ai.onnx") == 0;
}

/* ---- Functions ------------------------------------------------------------------------------- */

/* The name of a function in the table: domain, name and overload. */
static char *function_key(dpti_onnx_arena *arena, const char *domain, const char *name,
                          const char *overload)
{
    return dpti_onnx_take_text(arena, "%s\n%s\n%s", dpti_onnx_text(domain), dpti_onnx_text(name),
                               dpti_onnx_text(overload));
}

static dpt_status list_functions(flattening *f, dpt_error *error)
{
    dpti_onnx_reading *r = f->reading;
    for (size_t i = 0; i < r->proto->n_functions; i++) {
        const Dpti__Onnx__Function *function = r->proto->functions[i];
        char *key = function_key(r->arena, function->domain, function->name, function->overload);
        if (!key) return dpti_onnx_no_memory(error);
        if (dpti_onnx_names_find(&f->functions, key))
            return dpti_onnx_fail(error, DPT_E_FORMAT, "%s: function \"%.80s\" is defined twice",
                                  r->model->path, dpti_onnx_text(function->name));
        if (!dpti_onnx_names_add(&f->functions, r->arena, key, (dpti_onnx_meaning){i, function}))
            return dpti_onnx_no_memory(error);
    }
    return DPT_OK;
}

static dpt_status find_function(flattening *f, const Dpti__Onnx__Node *node,
                                const Dpti__Onnx__Function **out, dpt_error *error)
{
    *out = NULL;
    if (f->functions.n == 0) return DPT_OK;
    dpti_onnx_arena *arena = f->reading->arena;
    char *key = function_key(arena, node->domain, node->op_type, node->overload);
    if (!key) return dpti_onnx_no_memory(error);
    const dpti_onnx_meaning *found = dpti_onnx_names_find(&f->functions, key);
    *out = found ? found->pointer : NULL;
    dpti_onnx_give_back(arena, key);
    return DPT_OK;
}

/* The operators of a body mean what they mean in the graph only if both name the same opset. */
static dpt_status check_opset(const flattening *f, const Dpti__Onnx__Function *function,
                              dpt_error *error)
{
    const dpti_onnx_model *model = f->reading->model;
    for (size_t i = 0; i < function->n_opset_import; i++) {
        const Dpti__Onnx__OpsetId *opset = function->opset_import[i];
        if (is_default_domain(dpti_onnx_text(opset->domain)) && opset->version != model->opset)
            return dpti_onnx_fail(error, DPT_E_UNSUPPORTED,
                                  "%s: function \"%.80s\" is written for opset %lld and the graph "
                                  "for %lld; convert the model to one opset",
                                  model->path, dpti_onnx_text(function->name),
                                  (long long)opset->version, (long long)model->opset);
    }
    return DPT_OK;
}

/* Names inputs or outputs of a function by what the caller passes; what it leaves out is "" for an
   input, and keeps an inner name for an output. */
static dpt_status bind_names(flattening *f, frame *in, bool outputs, dpt_error *error)
{
    const Dpti__Onnx__Function *function = in->function;
    const dpti_onnx_flat_node *caller = in->caller;
    char *const *inner = outputs ? function->output : function->input;
    const size_t n_inner = outputs ? function->n_output : function->n_input;
    const char *const *outer = (const char *const *)(outputs ? caller->outputs : caller->inputs);
    const size_t n_outer = outputs ? caller->n_outputs : caller->n_inputs;
    dpti_onnx_reading *r = f->reading;
    if (n_outer > n_inner)
        return dpti_onnx_fail(
            error, DPT_E_FORMAT, "%s: node %s passes %zu %s to a function that has %zu",
            r->model->path, caller->label, n_outer, outputs ? "outputs" : "inputs", n_inner);
    for (size_t i = 0; i < n_inner; i++) {
        const char *name = i < n_outer ? outer[i] : "";
        if (outputs && !name[0]) continue;
        if (dpti_onnx_names_find(&in->names, inner[i]))
            return dpti_onnx_fail(error, DPT_E_FORMAT,
                                  "%s: function \"%.80s\" names \"%.80s\" twice among its inputs "
                                  "and outputs",
                                  r->model->path, dpti_onnx_text(function->name), inner[i]);
        if (!dpti_onnx_names_add(&in->names, r->arena, inner[i], (dpti_onnx_meaning){i, name}))
            return dpti_onnx_no_memory(error);
    }
    return DPT_OK;
}

static dpt_status call_function(flattening *f, const frame *from, const frame *what,
                                dpt_error *error)
{
    frame in = *what;
    dpti_onnx_reading *r = f->reading;
    in.depth = from->depth + 1;
    if (in.depth > MAX_DEPTH)
        return dpti_onnx_fail(error, DPT_E_FORMAT,
                              "%s: node %s: functions call one another more than %d deep, or in a "
                              "circle",
                              r->model->path, in.caller->label, MAX_DEPTH);
    DPT_TRY(check_opset(f, in.function, error));
    in.prefix = dpti_onnx_take_text(r->arena, "%.200s%.80s#%zu/", from->prefix,
                                    dpti_onnx_text(in.function->name), r->n_nodes_seen);
    if (!in.prefix) return dpti_onnx_no_memory(error);
    DPT_TRY(bind_names(f, &in, false, error));
    DPT_TRY(bind_names(f, &in, true, error));
    return flatten_all(f, &in, error);
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

/* The name outside of a name that a node of the frame uses. */
static const char *name_of(flattening *f, const frame *in, const char *name)
{
    if (!name[0]) return name;
    const dpti_onnx_meaning *found = dpti_onnx_names_find(&in->names, name);
    if (found) return found->pointer;
    if (in->around) return name_of(f, in->around, name); /* a branch takes it from outside */
    if (!in->function) return name;
    return dpti_onnx_take_text(f->reading->arena, "%s%s", in->prefix, name);
}

static const char **names_of(flattening *f, const frame *in, char *const *names, size_t n)
{
    const char **out = dpti_onnx_take(f->reading->arena, n, sizeof *out);
    for (size_t i = 0; out && i < n; i++)
        if (!(out[i] = name_of(f, in, names[i]))) return NULL;
    return out;
}

/* What an attribute of a function's body refers to: an attribute of the caller, or the function's
   default.  NULL: neither is there, and the node is without this attribute. */
static const Dpti__Onnx__Attribute *referred(const frame *in, const char *name)
{
    for (size_t i = 0; i < in->caller->n_attributes; i++)
        if (strcmp(in->caller->attributes[i].name, name) == 0)
            return in->caller->attributes[i].value;
    for (size_t i = 0; i < in->function->n_attribute_proto; i++)
        if (strcmp(dpti_onnx_text(in->function->attribute_proto[i]->name), name) == 0)
            return in->function->attribute_proto[i];
    return NULL;
}

static bool take_attributes(flattening *f, const frame *in, const Dpti__Onnx__Node *node,
                            dpti_onnx_flat_node *flat)
{
    const frame *function = in; /* whose body this is */
    while (function->around)
        function = function->around;
    flat->attributes =
        dpti_onnx_take(f->reading->arena, node->n_attribute, sizeof *flat->attributes);
    if (!flat->attributes) return false;
    for (size_t i = 0; i < node->n_attribute; i++) {
        const Dpti__Onnx__Attribute *value = node->attribute[i];
        const char *name = dpti_onnx_text(value->name);
        if (value->ref_attr_name && value->ref_attr_name[0] && function->function)
            value = referred(function, value->ref_attr_name);
        if (value) flat->attributes[flat->n_attributes++] = (dpti_onnx_flat_attribute){name, value};
    }
    return true;
}

/* Whether the nodes of a frame are in a branch, or in a function that a branch calls. */
static bool in_branch(const frame *in)
{
    return in->around != NULL || (in->caller && in->caller->in_branch);
}

static bool take_flat(flattening *f, const frame *in, const Dpti__Onnx__Node *node,
                      dpti_onnx_flat_node *flat)
{
    dpti_onnx_reading *r = f->reading;
    const char *name = dpti_onnx_text(node->name), *op = dpti_onnx_text(node->op_type);
    *flat = (dpti_onnx_flat_node){.op = op,
                                  .in_branch = in_branch(in),
                                  .n_inputs = node->n_input,
                                  .n_outputs = node->n_output};
    flat->label =
        name[0]
            ? dpti_onnx_take_text(r->arena, "\"%.80s%.80s\" (%.40s)", in->prefix, name, op)
            : dpti_onnx_take_text(r->arena, "%.80s#%zu (%.40s)", in->prefix, r->n_nodes_seen, op);
    flat->origin =
        dpti_onnx_entry(node->metadata_props, node->n_metadata_props, "pkg.torch.onnx.fx_node");
    flat->inputs = names_of(f, in, node->input, node->n_input);
    flat->outputs = names_of(f, in, node->output, node->n_output);
    return flat->label && flat->inputs && flat->outputs && take_attributes(f, in, node, flat);
}

static dpt_status count_node(flattening *f, dpt_error *error)
{
    dpti_onnx_reading *r = f->reading;
    if (r->n_nodes_seen == r->max_nodes)
        return dpti_onnx_fail(error, DPT_E_UNSUPPORTED,
                              "%s: more than %zu nodes, after functions and branches were put in "
                              "place",
                              r->model->path, r->max_nodes);
    r->n_nodes_seen++;
    return DPT_OK;
}

static dpt_status append(dpti_onnx_reading *r, const dpti_onnx_flat_node *flat, dpt_error *error)
{
    if (r->n_flat == r->capacity) {
        const size_t capacity = r->capacity ? 2 * r->capacity : 64;
        dpti_onnx_flat_node *larger = dpti_onnx_take(r->arena, capacity, sizeof *larger);
        if (!larger) return dpti_onnx_no_memory(error);
        if (r->n_flat) memcpy(larger, r->flat, r->n_flat * sizeof *larger);
        dpti_onnx_give_back(r->arena, r->flat);
        r->flat = larger;
        r->capacity = capacity;
    }
    r->flat[r->n_flat++] = *flat;
    return DPT_OK;
}

/* ---- Branches -------------------------------------------------------------------------------- */

/* Gives a name of a branch a name of its own in the model. */
static dpt_status name_inside(flattening *f, frame *in, const char *name, dpt_error *error)
{
    dpti_onnx_arena *arena = f->reading->arena;
    if (!name[0] || dpti_onnx_names_find(&in->names, name)) return DPT_OK;
    const char *own = dpti_onnx_take_text(arena, "%s%s", in->prefix, name);
    if (!own || !dpti_onnx_names_add(&in->names, arena, name, (dpti_onnx_meaning){0, own}))
        return dpti_onnx_no_memory(error);
    return DPT_OK;
}

/* An initialiser of a branch as a node Constant. */
static dpt_status append_tensor(flattening *f, frame *in, Dpti__Onnx__Tensor *tensor,
                                dpt_error *error)
{
    dpti_onnx_arena *arena = f->reading->arena;
    dpti_onnx_flat_node flat = {
        .op = "Constant", .in_branch = true, .n_outputs = 1, .n_attributes = 1};
    Dpti__Onnx__Attribute *value = dpti_onnx_take(arena, 1, sizeof *value);
    flat.attributes = dpti_onnx_take(arena, 1, sizeof *flat.attributes);
    flat.inputs = dpti_onnx_take(arena, 1, sizeof *flat.inputs);
    flat.outputs = dpti_onnx_take(arena, 1, sizeof *flat.outputs);
    flat.label = dpti_onnx_take_text(arena, "%.80s%.80s (initialiser)", in->prefix,
                                     dpti_onnx_text(tensor->name));
    if (!value || !flat.attributes || !flat.inputs || !flat.outputs || !flat.label)
        return dpti_onnx_no_memory(error);
    dpti__onnx__attribute__init(value);
    value->type = DPTI_ONNX_ATTRIBUTE_TENSOR;
    value->t = tensor;
    flat.attributes[0] = (dpti_onnx_flat_attribute){"value", value};
    flat.outputs[0] = name_of(f, in, dpti_onnx_text(tensor->name));
    if (!flat.outputs[0]) return dpti_onnx_no_memory(error);
    DPT_TRY(count_node(f, error));
    return append(f->reading, &flat, error);
}

/* Appends the nodes of a branch. *results become the names of its results. */
static dpt_status flatten_branch(flattening *f, frame *branch, const char ***results,
                                 dpt_error *error)
{
    const Dpti__Onnx__Graph *graph = branch->branch;
    const dpti_onnx_flat_node *node = branch->caller;
    const char *path = f->reading->model->path;
    if (branch->depth > MAX_DEPTH)
        return dpti_onnx_fail(error, DPT_E_FORMAT,
                              "%s: node %s: branches and functions are more than %d deep in one "
                              "another",
                              path, node->label, MAX_DEPTH);
    if (graph->n_output != node->n_outputs || graph->n_input || graph->n_sparse_initializer)
        return dpti_onnx_fail(error, DPT_E_FORMAT,
                              "%s: node %s: a branch must have no input, no sparse tensor and as "
                              "many outputs as the node; export the model again",
                              path, node->label);
    for (size_t i = 0; i < graph->n_initializer; i++)
        DPT_TRY(name_inside(f, branch, dpti_onnx_text(graph->initializer[i]->name), error));
    for (size_t i = 0; i < graph->n_node; i++)
        for (size_t k = 0; k < graph->node[i]->n_output; k++)
            DPT_TRY(name_inside(f, branch, graph->node[i]->output[k], error));
    for (size_t i = 0; i < graph->n_initializer; i++)
        DPT_TRY(append_tensor(f, branch, graph->initializer[i], error));
    DPT_TRY(flatten_all(f, branch, error));
    *results = dpti_onnx_take(f->reading->arena, graph->n_output, sizeof **results);
    if (!*results) return dpti_onnx_no_memory(error);
    for (size_t k = 0; k < graph->n_output; k++)
        if (!((*results)[k] = name_of(f, branch, dpti_onnx_text(graph->output[k]->name))))
            return dpti_onnx_no_memory(error);
    return DPT_OK;
}

static dpt_status find_branch(flattening *f, frame *branch, const char *name, dpt_error *error)
{
    dpti_onnx_reading *r = f->reading;
    const dpti_onnx_flat_node *node = branch->caller;
    for (size_t i = 0; i < node->n_attributes; i++)
        if (strcmp(node->attributes[i].name, name) == 0 && node->attributes[i].value->has_g) {
            branch->prefix = dpti_onnx_take_text(r->arena, "%.200s%.4s#%zu/",
                                                 branch->around->prefix, name, r->n_nodes_seen);
            if (!branch->prefix) return dpti_onnx_no_memory(error);
            return dpti_onnx_decode_graph(r, &node->attributes[i].value->g, &branch->branch, error);
        }
    return dpti_onnx_fail(error, DPT_E_FORMAT, "%s: node %s has no \"%s\"; export the model again",
                          r->model->path, node->label, name);
}

/* Puts both branches in front of an If, of which one node for each output stays.  The inference
   chooses, because the condition may follow from shapes. */
static dpt_status flatten_if(flattening *f, frame *in, const dpti_onnx_flat_node *node,
                             dpt_error *error)
{
    static const char *const names[] = {"then_branch", "else_branch"};
    const char **results[2];
    if (node->n_inputs != 1 || node->n_outputs == 0)
        return dpti_onnx_fail(error, DPT_E_FORMAT,
                              "%s: node %s must have one input and an output; export the model "
                              "again",
                              f->reading->model->path, node->label);
    for (size_t i = 0; i < 2; i++) {
        frame branch = {.around = in, .depth = in->depth + 1, .caller = node};
        DPT_TRY(find_branch(f, &branch, names[i], error));
        DPT_TRY(flatten_branch(f, &branch, &results[i], error));
    }
    for (size_t k = 0; k < node->n_outputs; k++) {
        dpti_onnx_flat_node one = *node;
        one.n_attributes = 0;
        one.n_inputs = 3;
        one.n_outputs = 1;
        one.inputs = dpti_onnx_take(f->reading->arena, 3, sizeof *one.inputs);
        one.outputs = &node->outputs[k];
        if (!one.inputs) return dpti_onnx_no_memory(error);
        one.inputs[0] = node->inputs[0];
        one.inputs[1] = results[0][k];
        one.inputs[2] = results[1][k];
        if (k > 0) DPT_TRY(count_node(f, error));
        DPT_TRY(append(f->reading, &one, error));
    }
    return DPT_OK;
}

static dpt_status flatten_node(flattening *f, frame *in, const Dpti__Onnx__Node *node,
                               dpt_error *error)
{
    dpti_onnx_reading *r = f->reading;
    dpti_onnx_flat_node flat;
    frame inner = {.caller = &flat};
    if (!take_flat(f, in, node, &flat)) return dpti_onnx_no_memory(error);
    DPT_TRY(count_node(f, error));
    DPT_TRY(find_function(f, node, &inner.function, error));
    if (inner.function) return call_function(f, in, &inner, error);
    if (!is_default_domain(dpti_onnx_text(node->domain)))
        return dpti_onnx_fail(error, DPT_E_UNSUPPORTED,
                              "%s: node %s is of the domain \"%.80s\"; only operators of ONNX's "
                              "own domain are taken; export without custom operators",
                              r->model->path, flat.label, node->domain);
    if (strcmp(flat.op, "If") == 0) return flatten_if(f, in, &flat, error);
    return append(r, &flat, error);
}

static dpt_status flatten_all(flattening *f, frame *in, dpt_error *error)
{
    const Dpti__Onnx__Graph *graph = f->reading->proto->graph;
    if (in->branch) graph = in->branch;
    Dpti__Onnx__Node *const *nodes = in->function ? in->function->node : graph->node;
    const size_t n = in->function ? in->function->n_node : graph->n_node;
    for (size_t i = 0; i < n; i++)
        DPT_TRY(flatten_node(f, in, nodes[i], error));
    return DPT_OK;
}

dpt_status dpti_onnx_flatten(dpti_onnx_reading *reading, dpt_error *error)
{
    flattening f = {.reading = reading};
    frame graph = {.prefix = ""};
    DPT_TRY(list_functions(&f, error));
    return flatten_all(&f, &graph, error);
}
