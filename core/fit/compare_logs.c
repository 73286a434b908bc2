/* Comparing the logs of two trainings. */
#include "dptrain.h"

#include "context/context.h"
#include "context/sized.h"
#include "io/compare.h"
#include "io/file.h"

#include <stdlib.h>

static dpt_status compare(const char *const paths[2], dpti_content contents[2],
                          dpt_log_comparison *out, dpt_error *error)
{
    dpti_file_bytes logs[2];
    for (size_t i = 0; i < 2; i++) {
        DPT_TRY(dpti_file_read(paths[i], &contents[i], error));
        logs[i] = (dpti_file_bytes){
            .name = paths[i], .bytes = contents[i].bytes, .n_bytes = contents[i].n_bytes};
    }
    return dpti_compare_logs(logs, out, error);
}

dpt_status dpt_compare_logs(dpt_context *context, const char *a, const char *b,
                            dpt_log_comparison *out)
{
    DPT_TRY(dpti_check_sized(context, "dpt_log_comparison", out));
    dpti_content contents[2] = {{.bytes = NULL}, {.bytes = NULL}};
    dpt_log_comparison found;
    dpt_error error = {0};
    const dpt_status status = compare((const char *const[]){a, b}, contents, &found, &error);
    for (size_t i = 0; i < 2; i++)
        free(contents[i].bytes);
    if (status != DPT_OK) return dpti_context_fail(context, NULL, &error);
    (void)dpti_give_sized(&found, sizeof found, out);
    return DPT_OK;
}
