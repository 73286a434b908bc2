/* The nodes of the graph, with the body of a function in place of each node that calls it. */
#include "onnx/read_state.h"

#include <string.h>

enum { MAX_DEPTH = 32 };

/* A list of nodes in the place where it is: the graph, or the body of a function that was called.
 */
typedef struct frame {
    const Dpti__Onnx__Function *function; /* NULL: the graph */
    size_t depth;
    const char *prefix;    /* of the names inside */
    dpti_onnx_names names; /* inside a function: what its inputs and outputs are outside */
    const dpti_onnx_flat_node *caller;
} frame;

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
    if (!in->function || !name[0]) return name;
    const dpti_onnx_meaning *found = dpti_onnx_names_find(&in->names, name);
    if (found) return found->pointer;
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
    flat->attributes =
        dpti_onnx_take(f->reading->arena, node->n_attribute, sizeof *flat->attributes);
    if (!flat->attributes) return false;
    for (size_t i = 0; i < node->n_attribute; i++) {
        const Dpti__Onnx__Attribute *value = node->attribute[i];
        const char *name = dpti_onnx_text(value->name);
        if (value->ref_attr_name && value->ref_attr_name[0] && in->function)
            value = referred(in, value->ref_attr_name);
        if (value) flat->attributes[flat->n_attributes++] = (dpti_onnx_flat_attribute){name, value};
    }
    return true;
}

static bool take_flat(flattening *f, const frame *in, const Dpti__Onnx__Node *node,
                      dpti_onnx_flat_node *flat)
{
    dpti_onnx_reading *r = f->reading;
    const char *name = dpti_onnx_text(node->name), *op = dpti_onnx_text(node->op_type);
    *flat = (dpti_onnx_flat_node){.op = op, .n_inputs = node->n_input, .n_outputs = node->n_output};
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

static dpt_status flatten_node(flattening *f, frame *in, const Dpti__Onnx__Node *node,
                               dpt_error *error)
{
    dpti_onnx_reading *r = f->reading;
    dpti_onnx_flat_node flat;
    frame inner = {.caller = &flat};
    if (r->n_nodes_seen == r->max_nodes)
        return dpti_onnx_fail(error, DPT_E_UNSUPPORTED,
                              "%s: more than %zu nodes, after functions were put in place",
                              r->model->path, r->max_nodes);
    if (!take_flat(f, in, node, &flat)) return dpti_onnx_no_memory(error);
    r->n_nodes_seen++;
    DPT_TRY(find_function(f, node, &inner.function, error));
    if (inner.function) return call_function(f, in, &inner, error);
    if (!is_default_domain(dpti_onnx_text(node->domain)))
        return dpti_onnx_fail(error, DPT_E_UNSUPPORTED,
                              "%s: node %s is of the domain \"%.80s\"; only operators of ONNX's "
                              "own domain are taken; export without custom operators",
                              r->model->path, flat.label, node->domain);
    return append(r, &flat, error);
}

static dpt_status flatten_all(flattening *f, frame *in, dpt_error *error)
{
    const Dpti__Onnx__Graph *graph = f->reading->proto->graph;
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
