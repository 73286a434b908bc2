/* Exporters merge initialisers that are equal, such as the scales of all layer-norms before
   training.  Each layer must get its own back; weights that layers share must stay one.  The rules
   are in docs/onnx.md. */
#include "onnx/read_origin.h"

#include <ctype.h>
#include <string.h>

typedef struct use {
    size_t node, input;
    const char *target; /* its name in the module; NULL: not known */
} use;

typedef struct splitting {
    dpti_onnx_reading *reading;
    dpti_onnx_model *model;
    dpti_onnx_signature signature;
    dpti_onnx_names names; /* of all values */
    size_t *first;         /* (n_values + 1) where the uses of a value begin */
    use *uses;
    size_t n_values; /* before copies were added */
} splitting;

/* ---- Uses ------------------------------------------------------------------------------------ */

static bool may_train(const dpti_onnx_tensor *tensor)
{
    return tensor && tensor->n > 0 && dpti_onnx_type_is_real(tensor->type);
}

static bool may_split(const dpti_onnx_tensor *tensor)
{
    return may_train(tensor) && tensor->n > 1;
}

/* Lists the uses of each value. */
static dpt_status list_uses(splitting *s, dpt_error *error)
{
    const dpti_onnx_model *m = s->model;
    size_t n = 0;
    s->first = dpti_onnx_take(s->reading->arena, m->n_values + 2, sizeof *s->first);
    if (!s->first) return dpti_onnx_no_memory(error);
    for (size_t i = 0; i < m->n_nodes; i++)
        for (size_t k = 0; k < m->nodes[i].n_inputs; k++)
            if (m->nodes[i].inputs[k] != DPTI_ONNX_NONE) {
                s->first[m->nodes[i].inputs[k] + 2]++;
                n++;
            }
    s->uses = dpti_onnx_take(s->reading->arena, n, sizeof *s->uses);
    if (!s->uses) return dpti_onnx_no_memory(error);
    for (size_t v = 2; v < m->n_values + 2; v++)
        s->first[v] += s->first[v - 1];
    for (size_t i = 0; i < m->n_nodes; i++)
        for (size_t k = 0; k < m->nodes[i].n_inputs; k++)
            if (m->nodes[i].inputs[k] != DPTI_ONNX_NONE)
                s->uses[s->first[m->nodes[i].inputs[k] + 1]++] = (use){i, k, NULL};
    return DPT_OK;
}

static void name_uses(splitting *s, use *uses, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const dpti_onnx_member *member =
            dpti_onnx_member_of(&s->signature, &s->model->nodes[uses[i].node], uses[i].input);
        uses[i].target = member ? member->target : NULL;
    }
}

/* ---- Which tensors are split ----------------------------------------------------------------- */

static bool is_constant(const dpti_onnx_tensor *t)
{
    const size_t n_bytes = t->n_bytes / t->n;
    const char *data = t->data;
    return memcmp(data, data + n_bytes, t->n_bytes - n_bytes) == 0;
}

static bool is_vector(const dpti_onnx_tensor *t)
{
    size_t n_long = 0;
    for (size_t d = 0; d < t->rank; d++)
        n_long += t->extents[d] > 1;
    return n_long <= 1;
}

/* Whether two names are equal but for numbers in them. */
static bool differ_in_numbers(const char *a, const char *b)
{
    while (*a || *b) {
        const bool digit = isdigit((unsigned char)*a);
        if (digit != (isdigit((unsigned char)*b) != 0) || (!digit && *a != *b)) return false;
        while (digit && isdigit((unsigned char)*a))
            a++;
        while (digit && isdigit((unsigned char)*b))
            b++;
        if (!digit) {
            a++;
            b++;
        }
    }
    return true;
}

/* How a tensor is split. */
typedef struct cut {
    bool splits, by_name, constant;
} cut;

static cut choose(const splitting *s, const dpti_onnx_tensor *t, const use *uses, size_t n)
{
    bool named = true, same = true, copies = true, folded = true;
    const bool code = strncmp(t->name, "val_", 4) == 0;
    for (size_t i = 0; i < n; i++) {
        const dpti_onnx_node *node = &s->model->nodes[uses[i].node];
        folded = folded && dpti_onnx_is_folded(&s->signature, node, t->name);
        named = named && uses[i].target;
        same = same && named && strcmp(uses[i].target, uses[0].target) == 0;
        copies = copies && named && differ_in_numbers(uses[i].target, uses[0].target);
    }
    if (n < 2 || same || (code && is_vector(t) && !folded)) return (cut){false};
    const cut out = {.constant = is_constant(t), .by_name = named};
    const bool splits = out.constant ? is_vector(t) || named : copies;
    return (cut){splits, out.by_name, out.constant};
}

/* ---- Copies ---------------------------------------------------------------------------------- */

/* A new name that no value has; NULL without memory. */
static const char *new_name(splitting *s, const char *base)
{
    for (size_t k = 2;; k++) {
        char *name = dpti_onnx_take_text(s->reading->arena, "%s.%zu", base, k);
        if (!name || !dpti_onnx_names_find(&s->names, name)) return name;
        dpti_onnx_give_back(s->reading->arena, name);
    }
}

/* Adds a copy of a tensor as a value.  There is room for it.  Returns the value, or
   DPTI_ONNX_NONE without memory. */
static size_t add_copy(splitting *s, const dpti_onnx_tensor *t, const char *name)
{
    dpti_onnx_tensor *copy = dpti_onnx_take(s->reading->arena, 1, sizeof *copy);
    const dpti_onnx_meaning meaning = {s->model->n_values, NULL};
    if (!copy || !name || !dpti_onnx_names_add(&s->names, s->reading->arena, name, meaning))
        return DPTI_ONNX_NONE;
    *copy = *t;
    copy->name = name;
    s->model->values[s->model->n_values] =
        (dpti_onnx_value){.name = name, .producer = DPTI_ONNX_NONE, .tensor = copy};
    return s->model->n_values++;
}

static void set_input(const splitting *s, const use *at, size_t value)
{
    const dpti_onnx_node *node = &s->model->nodes[at->node];
    ((size_t *)(uintptr_t)node->inputs)[at->input] = value;
}

static bool is_of_code(const char *name)
{
    return strncmp(name, DPTI_ONNX_CODE_NAME, strlen(DPTI_ONNX_CODE_NAME)) == 0;
}

/* The name of the copy for a use; the tensor's own for the first one without a name. */
static const char *name_of_copy(splitting *s, const dpti_onnx_tensor *t, const use *at, bool named)
{
    if (named && strncmp(t->name, "val_", 4) != 0 && !dpti_onnx_names_find(&s->names, at->target))
        return at->target;
    return new_name(s, named && is_of_code(at->target) ? at->target : t->name);
}

static dpt_status split(splitting *s, size_t value, const cut *how, dpt_error *error)
{
    const dpti_onnx_tensor *t = s->model->values[value].tensor;
    use *uses = s->uses + s->first[value];
    const size_t n = s->first[value + 1] - s->first[value];
    dpti_onnx_merges *merges = &s->model->merges;
    bool kept = false; /* the tensor itself is one of the parts */
    for (size_t i = 0; how->by_name && i < n; i++)
        kept = kept || strcmp(uses[i].target, t->name) == 0;
    for (size_t i = 0; i < n; i++) {
        size_t same = 0; /* an earlier use of the same member */
        while (same < i && !(how->by_name && strcmp(uses[same].target, uses[i].target) == 0))
            same++;
        if (same < i) {
            set_input(s, &uses[i], s->model->nodes[uses[same].node].inputs[uses[same].input]);
            continue;
        }
        if (how->by_name && kept ? strcmp(uses[i].target, t->name) == 0 : i == 0) continue;
        const size_t copy = add_copy(s, t, name_of_copy(s, t, &uses[i], how->by_name));
        if (copy == DPTI_ONNX_NONE) return dpti_onnx_no_memory(error);
        set_input(s, &uses[i], copy);
        if (!merges->tensor) {
            merges->tensor = t->name;
            merges->copy = s->model->values[copy].name;
        }
        merges->n_copies++;
    }
    merges->n_tensors++;
    if (!how->constant) merges->weight = t->name;
    return DPT_OK;
}

/* Makes room for a copy for each use of a tensor. */
static dpt_status make_room(splitting *s, dpt_error *error)
{
    dpti_onnx_model *m = s->model;
    size_t n = m->n_values + m->n_nodes; /* a bias for each node */
    for (size_t v = 0; v < m->n_values; v++)
        if (may_split(m->values[v].tensor)) n += s->first[v + 1] - s->first[v];
    dpti_onnx_value *values = dpti_onnx_take(s->reading->arena, n, sizeof *values);
    if (!values) return dpti_onnx_no_memory(error);
    memcpy(values, m->values, m->n_values * sizeof *values);
    dpti_onnx_give_back(s->reading->arena, m->values);
    m->values = values;
    for (size_t v = 0; v < m->n_values; v++)
        if (!dpti_onnx_names_find(&s->names, values[v].name) &&
            !dpti_onnx_names_add(&s->names, s->reading->arena, values[v].name,
                                 (dpti_onnx_meaning){v, NULL}))
            return dpti_onnx_no_memory(error);
    return DPT_OK;
}

/* ---- Biases of zeros ------------------------------------------------------------------------- */

/* The elements of the bias that a node had in PyTorch and has not in the file; 0: there is none. */
static size_t missing_bias(const splitting *s, const dpti_onnx_node *node)
{
    const dpti_onnx_value *values = s->model->values;
    const bool gemm = strcmp(node->op, "Gemm") == 0, conv = strcmp(node->op, "Conv") == 0;
    if (!(gemm || conv || strcmp(node->op, "ConvTranspose") == 0) || node->n_inputs != 2 ||
        node->inputs[1] == DPTI_ONNX_NONE || !may_split(values[node->inputs[1]].tensor))
        return 0;
    const dpti_onnx_tensor *weight = values[node->inputs[1]].tensor;
    if (weight->rank < 2) return 0;
    if (gemm) return (size_t)weight->extents[dpti_onnx_int(node, "transB", 0) ? 0 : 1];
    const int64_t groups = dpti_onnx_int(node, "group", 1);
    if (conv) return (size_t)weight->extents[0];
    return groups > 0 && groups < INT32_MAX ? (size_t)(weight->extents[1] * groups) : 0;
}

/* Gives a node its bias again, which is zeros. */
static dpt_status add_bias(splitting *s, dpti_onnx_node *node, dpt_error *error)
{
    const size_t n = missing_bias(s, node);
    const dpti_onnx_member *member = n > 0 ? dpti_onnx_member_of(&s->signature, node, 2) : NULL;
    const dpti_onnx_member *weight = member ? dpti_onnx_member_of(&s->signature, node, 1) : NULL;
    if (!member || member == weight || dpti_onnx_names_find(&s->names, member->target))
        return DPT_OK;
    dpti_onnx_tensor tensor = {.type = DPTI_ONNX_FLOAT, .rank = 1, .extents = {(int64_t)n}, .n = n};
    size_t *inputs = dpti_onnx_take(s->reading->arena, 3, sizeof *inputs);
    tensor.data = dpti_onnx_take(s->reading->arena, n, sizeof(float));
    tensor.n_bytes = n * sizeof(float);
    if (!inputs || !tensor.data) return dpti_onnx_no_memory(error);
    memcpy(inputs, node->inputs, 2 * sizeof *inputs);
    inputs[2] = add_copy(s, &tensor, member->target);
    if (inputs[2] == DPTI_ONNX_NONE) return dpti_onnx_no_memory(error);
    node->inputs = inputs;
    node->n_inputs = 3;
    s->model->merges.n_biases++;
    return DPT_OK;
}

/* ---- The older exporter ---------------------------------------------------------------------- */

/* Whether a node gives a merged tensor the name that it had in the module.  The exporter's own
   names of results begin with a slash, or were numbers. */
static bool restores_name(const splitting *s, const dpti_onnx_node *node)
{
    const dpti_onnx_model *m = s->model;
    if (strcmp(node->op, "Identity") != 0 || node->n_inputs != 1 || node->n_outputs != 1 ||
        node->inputs[0] == DPTI_ONNX_NONE || node->outputs[0] == DPTI_ONNX_NONE || node->in_branch)
        return false;
    const char first = m->values[node->outputs[0]].name[0];
    return may_split(m->values[node->inputs[0]].tensor) && (isalpha((unsigned char)first) != 0);
}

/* Makes the outputs of such nodes tensors, and removes the nodes. */
static dpt_status split_by_identity(splitting *s, dpt_error *error)
{
    dpti_onnx_model *m = s->model;
    size_t *place = dpti_onnx_take(s->reading->arena, m->n_nodes, sizeof *place), n = 0;
    if (!place) return dpti_onnx_no_memory(error);
    for (size_t i = 0; i < m->n_nodes; i++) {
        const dpti_onnx_node *node = &m->nodes[i];
        place[i] = n;
        m->nodes[n++] = *node;
        if (!restores_name(s, &m->nodes[n - 1])) continue;
        node = &m->nodes[--n];
        dpti_onnx_tensor *copy = dpti_onnx_take(s->reading->arena, 1, sizeof *copy);
        dpti_onnx_value *out = &m->values[node->outputs[0]];
        const dpti_onnx_tensor *tensor = m->values[node->inputs[0]].tensor;
        if (!copy) return dpti_onnx_no_memory(error);
        *copy = *tensor;
        copy->name = out->name;
        out->tensor = copy;
        out->producer = DPTI_ONNX_NONE;
        if (m->merges.n_copies++ == 0) {
            m->merges.tensor = tensor->name;
            m->merges.copy = copy->name;
        }
    }
    m->n_nodes = n;
    for (size_t v = 0; v < m->n_values; v++)
        if (m->values[v].producer != DPTI_ONNX_NONE)
            m->values[v].producer = place[m->values[v].producer];
    dpti_onnx_give_back(s->reading->arena, place);
    return DPT_OK;
}

/* ---- The whole ------------------------------------------------------------------------------- */

static dpt_status split_by_use(splitting *s, dpt_error *error)
{
    DPT_TRY(list_uses(s, error));
    DPT_TRY(make_room(s, error));
    const size_t n_values = s->model->n_values;
    for (size_t v = 0; v < n_values; v++) {
        const dpti_onnx_tensor *t = s->model->values[v].tensor;
        const size_t n = s->first[v + 1] - s->first[v];
        if (!may_split(t) || n < 2) continue;
        name_uses(s, s->uses + s->first[v], n);
        const cut how = choose(s, t, s->uses + s->first[v], n);
        if (how.splits) DPT_TRY(split(s, v, &how, error));
    }
    for (size_t i = 0; s->signature.by_argument.n > 0 && i < s->model->n_nodes; i++)
        DPT_TRY(add_bias(s, &s->model->nodes[i], error));
    return DPT_OK;
}

/* Whether PyTorch gives a tensor this name that `forward` makes of numbers. */
static bool has_name_of_code(const char *name)
{
    static const char *const beginnings[] = {"lifted_tensor_", "c_lifted_tensor_",
                                             "_tensor_constant"};
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++) {
        const char *rest = name + strlen(beginnings[i]);
        if (strncmp(name, beginnings[i], strlen(beginnings[i])) == 0 &&
            isdigit((unsigned char)*rest))
            return true;
    }
    return false;
}

/* Marks what is a parameter, a buffer, or numbers of the code. */
static void mark_tensor(const dpti_onnx_signature *signature, dpti_onnx_tensor *t)
{
    const dpti_onnx_member *member = dpti_onnx_member_called(signature, t->name);
    const bool noted = signature->by_argument.n > 0;
    const bool of_code = member  ? member->kind == DPTI_ONNX_CODE_TENSOR
                         : noted ? is_of_code(t->name) || dpti_onnx_is_of_code(signature, t->name)
                                 : has_name_of_code(t->name);
    t->is_noted = member && member->kind == DPTI_ONNX_PARAMETER;
    t->is_buffer = of_code || (member && !t->is_noted);
    t->is_number = of_code || (!member && noted && t->n == 1);
}

/* Marks all tensors, and parameters whose values the exporter has computed with. */
static void mark(splitting *s)
{
    const dpti_onnx_model *m = s->model;
    for (size_t v = 0; v < m->n_values; v++) {
        dpti_onnx_tensor *t = (dpti_onnx_tensor *)(uintptr_t)m->values[v].tensor;
        if (!may_train(t)) continue;
        mark_tensor(&s->signature, t);
    }
    for (size_t i = 0; i < m->n_nodes; i++)
        for (size_t k = 0; k < m->nodes[i].n_inputs; k++) {
            const size_t v = m->nodes[i].inputs[k];
            dpti_onnx_tensor *t =
                v == DPTI_ONNX_NONE ? NULL : (dpti_onnx_tensor *)(uintptr_t)m->values[v].tensor;
            if (!may_train(t) || !dpti_onnx_is_folded(&s->signature, &m->nodes[i], t->name))
                continue;
            const dpti_onnx_member *member = dpti_onnx_member_of(&s->signature, &m->nodes[i], k);
            t->is_folded = true;
            t->is_number = false;
            if (member && !dpti_onnx_names_find(&s->names, member->target))
                t->name = member->target;
        }
}

/* Whether a node gives a tensor another name inside of the graph, as the default exporter writes
   the statistics for the second use of a batch-norm. */
static bool renames_tensor(const dpti_onnx_model *m, const dpti_onnx_node *node)
{
    if (strcmp(node->op, "Identity") != 0 || node->n_inputs != 1 || node->n_outputs != 1 ||
        node->inputs[0] == DPTI_ONNX_NONE || !m->values[node->inputs[0]].tensor)
        return false;
    for (size_t i = 0; i < m->n_outputs; i++)
        if (m->outputs[i].value == node->outputs[0]) return false;
    return true;
}

/* Constants are nodes, and tensors have several names, until the default exporter optimises, which
   is when it merges. */
static bool is_optimised(const dpti_onnx_model *m)
{
    for (size_t i = 0; i < m->n_nodes; i++)
        if (strcmp(m->nodes[i].op, "Constant") == 0 || renames_tensor(m, &m->nodes[i]))
            return false;
    return true;
}

/* Whether the older exporter of PyTorch has written the file. */
static bool is_older(const dpti_onnx_model *m)
{
    if (strncmp(m->producer, "pytorch", 7) != 0) return false;
    for (size_t v = 0; v < m->n_values; v++)
        if (m->values[v].producer != DPTI_ONNX_NONE && m->values[v].name[0] == '/') return true;
    return false;
}

dpt_status dpti_onnx_split_merged(dpti_onnx_reading *reading, dpt_error *error)
{
    splitting s = {.reading = reading, .model = reading->model};
    DPT_TRY(dpti_onnx_read_signature(reading, &s.signature, error));
    const bool noted = s.signature.by_argument.n > 0,
               by_pytorch = noted || strncmp(reading->model->producer, "pytorch", 7) == 0;
    const bool merges = strncmp(reading->model->producer, "dptrain", 7) != 0 &&
                        strncmp(reading->model->producer, "jax2onnx", 8) != 0;
    if (merges && !noted && is_older(reading->model))
        DPT_TRY(split_by_identity(&s, error));
    else if (merges && (!by_pytorch || is_optimised(reading->model)))
        DPT_TRY(split_by_use(&s, error));
    mark(&s);
    return DPT_OK;
}
