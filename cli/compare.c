/* dptrain compare: the first step at which two run logs differ. */
#include "cli.h"

#include <stdio.h>

/* As of cmp and diff. */
enum { SAME = 0, DIFFERENT = 1, TROUBLE = 2 };

static void print_difference(const dpt_log_comparison *c, char *const paths[2])
{
    if (c->epoch > 0)
        printf("first difference: after epoch %zu (step %zu), %s\n", c->epoch, c->step, c->key);
    else
        printf("first difference: step %zu, %s\n", c->step, c->key);
    for (size_t i = 0; i < 2; i++)
        printf("  %s: %s\n", paths[i], c->values[i]);
    if (c->largest_loss_difference > 0)
        printf("largest difference of losses: %.2g of the loss, in step %zu\n",
               c->largest_loss_difference, c->largest_loss_step);
}

/* What only one log has is not an error: one run may be longer, or continued. */
static void print_lengths(const dpt_log_comparison *c, char *const paths[2])
{
    for (size_t i = 0; i < 2; i++)
        if (c->steps[i] > c->common_steps)
            printf("only in %s: %zu steps\n", paths[i], c->steps[i] - c->common_steps);
}

static int print(const dpt_log_comparison *c, char *const paths[2])
{
    if (c->settings[0]) cli_note("the two runs have different settings: %s", c->settings);
    if (c->differs)
        print_difference(c, paths);
    else
        printf("no difference in %zu steps and %zu epochs, of which %zu with weights_sha256\n",
               c->common_steps, c->common_epochs, c->common_weights);
    print_lengths(c, paths);
    return c->differs ? DIFFERENT : SAME;
}

int cli_compare(const cli_options *options)
{
    static const dpt_context_options one = {.size = sizeof one, .devices = "cpu"};
    dpt_log_comparison comparison = {.size = sizeof comparison};
    dpt_context *context = NULL;
    if (options->n_operands != 2)
        return cli_error(TROUBLE, "compare needs two logs: dptrain compare A.jsonl B.jsonl");
    dpt_status status = dpt_context_create_with(&one, &context);
    if (status == DPT_OK)
        status = dpt_compare_logs(context, options->operands[0], options->operands[1], &comparison);
    if (status != DPT_OK) (void)cli_fail(context, status);
    dpt_context_destroy(context);
    return status == DPT_OK ? print(&comparison, options->operands) : TROUBLE;
}
