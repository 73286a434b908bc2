/* How a file of weights and a model differ (tensor_differences.h). */
#include "checkpoint/tensor_differences.h"

#include "base/text.h"
#include "context/context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LINES = 10, SHAPE_BYTES = 192, NAME_BYTES = 1024 };

/* ---- Layers that are left out ---------------------------------------------------------------- */

static bool is_excepted(const char *except, const char *tensor)
{
    while (except && *except) {
        const size_t n = strcspn(except, ",");
        if (strncmp(tensor, except, n) == 0 && tensor[n] == '.') return true;
        except += n + (except[n] == ',');
    }
    return false;
}

bool dpti_is_wanted(const dpti_tensor_names *names, const dpti_parameter *p, const char *except)
{
    if (is_excepted(except, p->name)) return false;
    return !names->model->lora || p->is_adapter == dpti_has_adapters(names->file);
}

/* ---- Finding --------------------------------------------------------------------------------- */

const dpti_tensor *dpti_tensor_of(const dpti_tensor_names *names, const dpti_parameter *p)
{
    char name[NAME_BYTES];
    const bool adapter = names->model->lora && p->is_adapter;
    snprintf(name, sizeof name, "%s%s", adapter ? DPTI_ADAPTER_PREFIX : "", p->name);
    return dpti_tensor_named(names, name);
}

bool dpti_has_shape(const dpti_tensor *tensor, const dpti_parameter *p)
{
    return tensor->rank == p->rank &&
           memcmp(tensor->shape, p->shape, p->rank * sizeof *p->shape) == 0;
}

dpt_status dpti_differences_find(const dpti_tensor_names *names, const char *except,
                                 dpti_differences *out, dpt_error *error)
{
    const dpt_model *model = names->model;
    const size_t n_tensors = dpti_safetensors_count(names->file);
    dpti_differences found = {
        .names = *names,
        .list = malloc((n_tensors + model->n_parameters + 1) * sizeof *found.list)};
    if (!found.list) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to compare weights");
    for (size_t i = 0; i < n_tensors; i++) {
        const dpti_tensor *tensor = dpti_safetensors_get(names->file, i);
        if (!is_excepted(except, dpti_tensor_name(names, tensor)) &&
            !dpti_tensor_is_known(names, tensor))
            found.list[found.n++] = (dpti_difference){.tensor = tensor};
    }
    for (size_t i = 0; i < model->n_parameters; i++) {
        const dpti_parameter *p = &model->parameters[i];
        if (!dpti_is_wanted(names, p, except)) continue;
        const dpti_tensor *tensor = dpti_tensor_of(names, p);
        if (tensor && dpti_has_shape(tensor, p))
            found.n_fit++;
        else
            found.list[found.n++] = (dpti_difference){.tensor = tensor, .parameter = p};
    }
    *out = found;
    return DPT_OK;
}

void dpti_differences_free(dpti_differences *differences)
{
    free(differences->list);
    *differences = (dpti_differences){.list = NULL};
}

/* ---- Words ----------------------------------------------------------------------------------- */

static const char *shape_text(size_t rank, const size_t *shape, char text[SHAPE_BYTES])
{
    size_t n = (size_t)snprintf(text, SHAPE_BYTES, "%s", rank == 0 ? "one number" : "");
    for (size_t i = 0; i < rank && n < SHAPE_BYTES; i++)
        n += (size_t)snprintf(text + n, SHAPE_BYTES - n, "%s%zu", i ? "x" : "", shape[i]);
    return text;
}

/* Of the tensors that only the other side has, the one with the nearest name; NULL: none is near.
 */
static const dpti_difference *find_nearest(const dpti_differences *all, const dpti_difference *one)
{
    const dpti_tensor_names *names = &all->names;
    const char *word = one->tensor ? dpti_tensor_name(names, one->tensor) : one->parameter->name;
    const char **known = calloc(all->n + 1, sizeof *known);
    const dpti_difference *found = NULL;
    size_t n = 0;
    for (size_t i = 0; known && i < all->n; i++) {
        const dpti_difference *d = &all->list[i];
        if (one->tensor && !d->tensor) known[n++] = d->parameter->name;
        if (one->parameter && !d->parameter) known[n++] = dpti_tensor_name(names, d->tensor);
    }
    const char *near = known ? dpti_nearest(word, known) : NULL;
    for (size_t i = 0; near && i < all->n && !found; i++) {
        const dpti_difference *d = &all->list[i];
        if ((!d->tensor && d->parameter->name == near) ||
            (!d->parameter && dpti_tensor_name(names, d->tensor) == near))
            found = d;
    }
    free(known);
    return found;
}

static void say_nearest(const dpti_tensor_names *names, const dpti_difference *near, char *text,
                        size_t n_bytes)
{
    char shape[SHAPE_BYTES];
    text[0] = '\0';
    if (near && near->tensor)
        snprintf(text, n_bytes, "; nearest: %.100s of %s", dpti_tensor_name(names, near->tensor),
                 shape_text(near->tensor->rank, near->tensor->shape, shape));
    else if (near)
        snprintf(text, n_bytes, "; nearest: %.100s of %s", near->parameter->name,
                 shape_text(near->parameter->rank, near->parameter->shape, shape));
}

void dpti_difference_words(const dpti_differences *all, const dpti_difference *one, char *text,
                           size_t n_bytes)
{
    const dpti_tensor_names *names = &all->names;
    char wanted[SHAPE_BYTES], has[SHAPE_BYTES], near[SHAPE_BYTES + 128] = "";
    const dpti_tensor *tensor = one->tensor;
    const dpti_parameter *p = one->parameter;
    if (tensor) shape_text(tensor->rank, tensor->shape, has);
    if (p) shape_text(p->rank, p->shape, wanted);
    if (!tensor || !p) say_nearest(names, find_nearest(all, one), near, sizeof near);
    if (tensor && p)
        snprintf(text, n_bytes, "has a tensor %.160s of %s, which is %s in model %.60s",
                 tensor->name, has, wanted, names->model->name);
    else if (tensor)
        snprintf(text, n_bytes, "has a tensor %.160s of %s that model %.60s does not have%s",
                 tensor->name, has, names->model->name, near);
    else
        snprintf(text, n_bytes, "has no tensor %.160s of %s, which model %.60s has%s", p->name,
                 wanted, names->model->name, near);
}

void dpti_differences_tell(dpt_context *context, const dpti_differences *differences,
                           const char *path)
{
    size_t n[4] = {0}, n_more = 0;
    for (size_t i = 0; i < differences->n; i++) {
        const dpti_difference *d = &differences->list[i];
        char text[768];
        if (n[(d->tensor != NULL) + 2 * (d->parameter != NULL)]++ >= MOST_LINES) {
            n_more++;
            continue;
        }
        dpti_difference_words(differences, d, text, sizeof text);
        dpti_context_notice(context, "%s %s", path, text);
    }
    if (n_more > 0)
        dpti_context_notice(context, "%s differs from model %s in %zu more tensors", path,
                            differences->names.model->name, n_more);
}
