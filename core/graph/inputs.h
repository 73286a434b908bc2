/* The inputs of a network: parts of one record for each sample. */
#ifndef DPTI_INPUTS_H
#define DPTI_INPUTS_H

#include "data/data.h"
#include "graph/builder.h"

/* An input of a network with several inputs. */
typedef struct dpti_input_spec {
    const char *name;
    bool ids;         /* integers; else real numbers */
    dpti_shape shape; /* has every element of the input's part of the record once; the offset within
                         the part is 0 */
} dpti_input_spec;

/* Adds `n` inputs, whose parts of the record follow one another.  A value has the shape of its
   input.  Failures as in builder.h: DPT_E_INVALID if there are inputs already, or too many, or two
   of the same name. */
void dpti_add_inputs(dpt_model *model, const dpti_input_spec *specs, size_t n, dpt_value *values);
/* Records that x, the node of the whole record, is the model's only input. */
void dpti_note_input(dpt_model *model, const dpti_input_spec *spec, dpt_value x);
/* Gives the only input a name and the axes that data sets have. */
void dpti_name_input(dpt_model *model, const char *name, const dpti_shape *shape);
/* Whether the records of a data set are those of a model with several inputs: in its order, with
   ids within its tables.  Errors: DPT_E_INVALID. */
DPT_CHECK_RESULT dpt_status dpti_check_records(const dpt_model *model, const dpt_dataset *data,
                                               dpt_error *error);
/* Notes that a table of `rows` rows takes these ids. */
void dpti_note_table(dpt_model *model, dpt_value ids, size_t rows);

#endif
