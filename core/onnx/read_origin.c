/* The notes of PyTorch's default exporter.  The graph has a list of all members of the module,

       p_norm_weight: PARAMETER target='norm.weight'
       b_table: BUFFER target='table' persistent=True

   and each node has the call that it stands for,

       %layer_norm : ... (args = (%x, [8], %p_norm_weight, %p_norm_bias, 1e-05), kwargs = {}) */
#include "onnx/read_origin.h"

#include <ctype.h>
#include <string.h>

#define SIGNATURE "pkg.torch.export.ExportedProgram.graph_signature"

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
    static const char *const kinds[] = {": PARAMETER target='", ": BUFFER target='"};
    for (size_t k = 0; k < 2; k++) {
        char *at = strstr(line, kinds[k]);
        if (!at) continue;
        char *target = at + strlen(kinds[k]), *end = strchr(target, '\'');
        if (!end || end == target || at == line) return false;
        *at = *end = 0;
        *argument = line;
        *out = (dpti_onnx_member){target, k == 1};
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

dpt_status dpti_onnx_read_signature(dpti_onnx_reading *reading, dpti_onnx_signature *out,
                                    dpt_error *error)
{
    const Dpti__Onnx__Graph *graph = reading->proto->graph;
    const char *text = dpti_onnx_entry(graph->metadata_props, graph->n_metadata_props, SIGNATURE);
    *out = (dpti_onnx_signature){.by_argument = {.n = 0}};
    if (!text) return DPT_OK;
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

const dpti_onnx_member *dpti_onnx_member_of(const dpti_onnx_signature *signature,
                                            const dpti_onnx_node *node, size_t i)
{
    const members all = arguments_of(signature, node);
    if (all.n == 1) return all.items[0];
    const size_t place = all.n > 1 ? place_of(node, i, all.n) : SIZE_MAX;
    return place < all.n && place < MOST_MEMBERS ? all.items[place] : NULL;
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
