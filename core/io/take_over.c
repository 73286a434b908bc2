/* Replaces a locked file by its copy (take_over.h). */
#include "io/take_over.h"

#include "io/file.h"
#include "io/output.h"

#include <stdlib.h>

dpt_status dpti_take_over(const char *what, const char *path, dpt_error *error)
{
    dpti_output output;
    dpti_content content = {.bytes = NULL};
    dpti_new_file file;
    const dpt_status held = dpti_output_open(what, path, &output, error);
    if (held == DPT_OK) (void)dpti_output_close(&output, error);
    if (held != DPT_E_STATE) return DPT_OK; /* who opens it tells what is wrong */
    DPT_TRY(dpti_file_read(path, &content, error));
    dpt_status status = dpti_new_file_create(path, &file, error);
    if (status == DPT_OK) {
        status = dpti_new_file_write(&file, content.bytes, content.n_bytes, error);
        if (status == DPT_OK)
            status = dpti_new_file_commit(&file, error);
        else
            dpti_new_file_discard(&file);
    }
    free(content.bytes);
    return status;
}
