/* The notes of PyTorch's default exporter.  The graph has a list of all members of the module,

       p_norm_weight: PARAMETER target='norm.weight'
       b_table: BUFFER target='table' persistent=True
       c_lifted_tensor_0: CONSTANT_TENSOR target='lifted_tensor_0'

   and each node has the call that it stands for,

       %layer_norm : ... (args = (%x, [8], %p_norm_weight, %p_norm_bias, 1e-05), kwargs = {})

   A tensor that the exporter's optimiser has computed has the list of values from which,

       ['lifted_tensor_0', 'clone'] */
#include "onnx/read_origin.h"

#include <ctype.h>
#include <string.h>

#define SIGNATURE "pkg.torch.export.ExportedProgram.graph_signature"
#define SOURCES   "pkg.onnxscript.optimizer.folded_from"

enum { MOST_MEMBERS = 8, NAME_BYTES = 512 };

const char *dpti_onnx_entry(Dpti__Onnx__Entry *const *entries, size_t n, const char *key)
{
    for (size_t i = 0; i < n; i++)
        if (entries[i]->key && entries[i]->value && strcmp(entries[i]->key, key) == 0)
            return entries[i]->value;
    return NULL;
}

/* ---- The list -------------------------------------------------------------------------------- */

/* Reads a line, "ARGUMENT: KIND target='TARGET'...", which it cuts into texts.  false: another
   line. */
static bool read_line(char *line, const char **argument, dpti_onnx_member *out)
{
    static const char *const kinds[] = {
        [DPTI_ONNX_PARAMETER] = ": PARAMETER target='",
        [DPTI_ONNX_BUFFER] = ": BUFFER target='",
        [DPTI_ONNX_CODE_TENSOR] = ": CONSTANT_TENSOR target='",
    };
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        char *at = strstr(line, kinds[k]);
        if (!at) continue;
        char *target = at + strlen(kinds[k]), *end = strchr(target, '\'');
        if (!end || end == target || at == line) return false;
        *at = *end = 0;
        *argument = line;
        *out = (dpti_onnx_member){target, (dpti_onnx_member_kind)k};
        return true;
    }
    return false;
}

static bool add_member(dpti_onnx_reading *r, dpti_onnx_signature *s, const char *argument,
                       const dpti_onnx_member *what)
{
    if (dpti_onnx_names_find(&s->by_argument, argument)) return true;
    dpti_onnx_member *member = dpti_onnx_take(r->arena, 1, sizeof *member);
    if (!member) return false;
    *member = *what;
    const dpti_onnx_meaning meaning = {0, member};
    if (!dpti_onnx_names_add(&s->by_argument, r->arena, argument, meaning)) return false;
    return dpti_onnx_names_find(&s->by_target, what->target) ||
           dpti_onnx_names_add(&s->by_target, r->arena, what->target, meaning);
}

static bool add_sources(dpti_onnx_reading *r, dpti_onnx_signature *s)
{
    const Dpti__Onnx__Graph *graph = r->proto->graph;
    for (size_t i = 0; i < graph->n_value_info; i++) {
        const Dpti__Onnx__ValueNote *note = graph->value_info[i];
        const char *text = dpti_onnx_entry(note->metadata_props, note->n_metadata_props, SOURCES);
        if (!text || !note->name || dpti_onnx_names_find(&s->sources, note->name)) continue;
        if (!dpti_onnx_names_add(&s->sources, r->arena, note->name, (dpti_onnx_meaning){0, text}))
            return false;
    }
    return true;
}

dpt_status dpti_onnx_read_signature(dpti_onnx_reading *reading, dpti_onnx_signature *out,
                                    dpt_error *error)
{
    const Dpti__Onnx__Graph *graph = reading->proto->graph;
    const char *text = dpti_onnx_entry(graph->metadata_props, graph->n_metadata_props, SIGNATURE);
    *out = (dpti_onnx_signature){.by_argument = {.n = 0}};
    if (!text) return DPT_OK;
    if (!add_sources(reading, out)) return dpti_onnx_no_memory(error);
    char *line = dpti_onnx_take_text(reading->arena, "%s", text);
    if (!line) return dpti_onnx_no_memory(error);
    while (line) {
        char *next = strchr(line, '\n');
        const char *argument = NULL;
        dpti_onnx_member member;
        if (next) *next++ = 0;
        if (read_line(line, &argument, &member) && !add_member(reading, out, argument, &member))
            return dpti_onnx_no_memory(error);
        line = next;
    }
    return DPT_OK;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

typedef struct members {
    size_t n; /* may be larger than the list */
    const dpti_onnx_member *items[MOST_MEMBERS];
} members;

/* The members among the arguments of a node's call, in order. */
static members arguments_of(const dpti_onnx_signature *s, const dpti_onnx_node *node)
{
    members out = {.n = 0};
    const char *at = node->origin ? strstr(node->origin, "args = (") : NULL;
    for (; at && (at = strchr(at, '%')); at++) {
        char name[NAME_BYTES];
        size_t n = 0;
        while (isalnum((unsigned char)at[1 + n]) || at[1 + n] == '_')
            n++;
        if (n == 0 || n >= sizeof name) continue;
        memcpy(name, at + 1, n);
        name[n] = 0;
        const dpti_onnx_meaning *found = dpti_onnx_names_find(&s->by_argument, name);
        if (!found) continue;
        if (out.n < MOST_MEMBERS) out.items[out.n] = found->pointer;
        out.n++;
    }
    return out;
}

static bool calls(const dpti_onnx_node *node, const char *function)
{
    const char *target = strstr(node->origin, "target=torch.ops.aten.");
    const char *end = target ? strchr(target, ']') : NULL, *at = target;
    return end && (at = strstr(target, function)) && at < end;
}

/* The place among several members of input i; SIZE_MAX: it is not known. */
static size_t place_of(const dpti_onnx_node *node, size_t i, size_t n)
{
    static const char *const in_order[] = {"layer_norm", "batch_norm", "instance_norm",
                                           "group_norm", "conv",       "linear"};
    bool known = false;
    for (size_t k = 0; k < sizeof in_order / sizeof *in_order; k++)
        known = known || calls(node, in_order[k]);
    if (!known) return SIZE_MAX;
    if (strcmp(node->op, "MatMul") == 0 || strcmp(node->op, "Mul") == 0) return 0;
    if (strcmp(node->op, "Add") == 0) return n - 1;
    return i - 1;
}

/* Whether a call takes a tensor that the code makes: `torch.tensor` is a clone of its numbers. */
static bool takes_code(const dpti_onnx_node *node)
{
    static const char *const makers[] = {"clone", "ones", "zeros", "full"};
    const char *at = node->origin ? strstr(node->origin, "args = (") : NULL;
    for (; at && (at = strchr(at, '%')); at++)
        for (size_t k = 0; k < sizeof makers / sizeof *makers; k++) {
            const size_t n = strlen(makers[k]);
            if (strncmp(at + 1, makers[k], n) != 0) continue;
            const char *rest = at + 1 + n;
            rest += *rest == '_';
            rest += strspn(rest, "0123456789");
            if (!isalnum((unsigned char)*rest) && *rest != '_') return true;
        }
    return false;
}

const dpti_onnx_member *dpti_onnx_member_of(const dpti_onnx_signature *signature,
                                            const dpti_onnx_node *node, size_t i)
{
    static const dpti_onnx_member of_code = {DPTI_ONNX_CODE_NAME, DPTI_ONNX_CODE_TENSOR};
    const members all = arguments_of(signature, node);
    if (all.n == 0 && takes_code(node)) return &of_code;
    if (all.n == 1) return all.items[0];
    const size_t place = all.n > 1 ? place_of(node, i, all.n) : SIZE_MAX;
    return place < all.n && place < MOST_MEMBERS ? all.items[place] : NULL;
}

const dpti_onnx_member *dpti_onnx_member_called(const dpti_onnx_signature *signature,
                                                const char *name)
{
    const dpti_onnx_meaning *found = dpti_onnx_names_find(&signature->by_target, name);
    return found ? found->pointer : NULL;
}

bool dpti_onnx_is_of_code(const dpti_onnx_signature *signature, const char *name)
{
    const dpti_onnx_meaning *found = dpti_onnx_names_find(&signature->sources, name);
    const char *at = found ? strchr(found->pointer, '\'') : NULL, *end;
    if (!at) return false;
    for (; at && (end = strchr(at + 1, '\'')); at = strchr(end + 1, '\'')) {
        char source[NAME_BYTES];
        const size_t n = (size_t)(end - at) - 1;
        if (n >= sizeof source) return false;
        memcpy(source, at + 1, n);
        source[n] = 0;
        const dpti_onnx_member *member = dpti_onnx_member_called(signature, source);
        if (member && member->kind == DPTI_ONNX_PARAMETER) return false;
    }
    return true;
}

bool dpti_onnx_is_folded(const dpti_onnx_signature *signature, const dpti_onnx_node *node,
                         const char *name)
{
    if (strncmp(name, "val_", 4) != 0 || !node->origin) return false;
    const bool scales = strcmp(node->op, "Mul") == 0 || strcmp(node->op, "Add") == 0;
    return ((scales && calls(node, "group_norm")) ||
            (strcmp(node->op, "PRelu") == 0 && calls(node, "prelu"))) &&
           arguments_of(signature, node).n > 0;
}
