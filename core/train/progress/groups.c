/* Groups of parameters (groups.h). */
#include "train/progress/groups.h"

#include "graph/lora.h"
#include "train/components/checksum.h"
#include "train/state/trainer.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

static bool matches(const dpt_parameter_group *group, const dpti_parameter *parameter)
{
    return fnmatch(group->pattern, parameter->name, 0) == 0;
}

static dpt_status check_group(dpt_trainer *t, const dpt_parameter_group *group)
{
    if (!group->pattern || !group->pattern[0])
        return dpt_fail(t->context, DPT_E_INVALID, "a group of parameters has no pattern");
    if (!(group->lr_factor >= 0 && group->lr_factor <= 1e6f))
        return dpt_fail(t->context, DPT_E_INVALID,
                        "group %s: a factor of %g of the learning rate is not in (0, 1e6]",
                        group->pattern, (double)group->lr_factor);
    if (group->has_weight_decay && !(group->weight_decay >= 0 && group->weight_decay <= 1e3f))
        return dpt_fail(t->context, DPT_E_INVALID,
                        "group %s: a weight decay of %g is not in [0, 1000]", group->pattern,
                        (double)group->weight_decay);
    bool found = false;
    for (size_t i = 0; i < t->model->n_parameters; i++) {
        const dpti_parameter *p = &t->model->parameters[i];
        if (!matches(group, p)) continue;
        found = true;
        if (group->frozen && p->is_adapter)
            return dpt_fail(t->context, DPT_E_INVALID,
                            "group %s freezes %s, and adapters are all that is trained: leave "
                            "the layer out of the adapters",
                            group->pattern, p->name);
    }
    if (found) return DPT_OK;
    return dpt_fail(t->context, DPT_E_INVALID, "pattern %s matches no tensor of model %s",
                    group->pattern, t->model->name);
}

/* The rule of a parameter, of which the first `n_groups` groups have been checked. */
static dpti_parameter_rule rule_of(const dpt_trainer *t, const dpt_trainer_options *o,
                                   const dpti_parameter *p)
{
    const bool decays = !o->no_bias_decay || p->offset < t->model->flat_weights;
    dpti_parameter_rule rule = {
        .lr_factor = 1, .weight_decay = decays ? o->weight_decay : 0, .frozen = p->frozen};
    for (size_t i = 0; i < o->n_groups; i++) {
        const dpt_parameter_group *group = &o->groups[i];
        if (!matches(group, p)) continue;
        rule.frozen = group->frozen || dpti_is_of_base(t->model, p);
        if (group->lr_factor != 0) rule.lr_factor = group->lr_factor;
        if (group->has_weight_decay) rule.weight_decay = group->weight_decay;
        break;
    }
    return rule;
}

/* Whether all parameters are trained alike. */
static bool needs_no_rules(const dpt_model *model, const dpt_trainer_options *options)
{
    bool frozen = false;
    for (size_t i = 0; i < model->n_parameters; i++)
        frozen = frozen || model->parameters[i].frozen;
    return options->n_groups == 0 && !frozen;
}

/* What is frozen takes no place in the buffers of gradients and of optimizer state. */
static dpt_status arrange(dpt_trainer *t)
{
    const dpt_model *m = t->model;
    bool any = false, *frozen = calloc(m->n_parameters + 1, sizeof *frozen);
    for (size_t i = 0; frozen && i < m->n_parameters; i++) {
        frozen[i] = t->rules[i].frozen && !dpti_is_statistic(m->parameters[i].role);
        any = any || frozen[i];
    }
    if (any) t->arranged = dpti_model_arrange(m, frozen);
    const bool complete = frozen && (t->arranged || !any);
    free(frozen);
    if (!complete)
        return dpt_fail(t->context, DPT_E_NO_MEMORY, "no memory for groups of parameters");
    if (any) t->model = t->arranged;
    return DPT_OK;
}

dpt_status dpti_trainer_take_groups(dpt_trainer *trainer, const dpt_trainer_options *options)
{
    dpt_trainer *t = trainer;
    const size_t n = t->model->n_parameters;
    if (needs_no_rules(t->model, options)) return DPT_OK;
    if (options->n_groups > 0 && !options->groups)
        return dpt_fail(t->context, DPT_E_INVALID, "%zu groups of parameters, and `groups` is NULL",
                        options->n_groups);
    for (size_t i = 0; i < options->n_groups; i++)
        DPT_TRY(check_group(t, &options->groups[i]));
    t->rules = calloc(n, sizeof *t->rules);
    if (!t->rules)
        return dpt_fail(t->context, DPT_E_NO_MEMORY, "no memory for groups of parameters");
    for (size_t i = 0; i < n; i++)
        t->rules[i] = rule_of(t, options, &t->model->parameters[i]);
    t->program.optimizer.rules = t->rules;
    return arrange(t);
}

static uint64_t add_numbers(uint64_t sum, const float numbers[2], bool a, bool b)
{
    const uint8_t flags[2] = {a, b};
    sum = dpti_checksum(sum, numbers, 2 * sizeof *numbers);
    return dpti_checksum(sum, flags, sizeof flags);
}

uint64_t dpti_groups_checksum(const dpt_trainer_options *options)
{
    uint64_t sum = 1;
    if (!options->groups || options->n_groups == 0) return 0;
    for (size_t i = 0; i < options->n_groups; i++) {
        const dpt_parameter_group *g = &options->groups[i];
        const float numbers[2] = {g->lr_factor, g->weight_decay};
        if (g->pattern) sum = dpti_checksum(sum, g->pattern, strlen(g->pattern));
        sum = add_numbers(sum, numbers, g->has_weight_decay, g->frozen);
    }
    return sum;
}

uint64_t dpti_rules_checksum(const dpt_trainer *trainer)
{
    uint64_t sum = 1;
    if (!trainer->rules) return 0;
    for (size_t i = 0; i < trainer->model->n_parameters; i++) {
        const dpti_parameter_rule *rule = &trainer->rules[i];
        const float numbers[2] = {rule->lr_factor, rule->weight_decay};
        sum = add_numbers(sum, numbers, rule->frozen, false);
    }
    return sum;
}
