/* Programs over elements (dpt_map_desc) while they are built: from a formula, or as the derivative
   of another program. */
#ifndef DPTI_MAP_PROGRAM_H
#define DPTI_MAP_PROGRAM_H

#include "backend.h"

enum {
    DPTI_MAP_CAPACITY = 240, /* instructions while a program is built */
    DPTI_FORMULA_INPUTS = 4, /* a, b, c, d */
};

/* A program that grows.  Instructions are referred to by their numbers.  After the program has
   become full, every function returns 0 and the program is not usable. */
typedef struct dpti_map_program {
    size_t n;
    bool is_full;
    dpt_map_instruction code[DPTI_MAP_CAPACITY];
} dpti_map_program;

/* Each returns the number of an instruction that computes the value.  An equal instruction is not
   added twice.  A product with 1 and a sum with 0 is the other operand, and a product with 0 is 0.
 */
uint8_t dpti_map_load(dpti_map_program *p, uint8_t input);
uint8_t dpti_map_constant(dpti_map_program *p, float value);
uint8_t dpti_map_add(dpti_map_program *p, dpt_map_code code, uint8_t a, uint8_t b);
uint8_t dpti_map_unary(dpti_map_program *p, dpt_map_code code, uint8_t a);
uint8_t dpti_map_select(dpti_map_program *p, uint8_t condition, uint8_t yes, uint8_t no);

/* The instructions that a value needs, in their order. */
typedef struct dpti_map_code {
    uint8_t n_code, value;
    dpt_map_instruction code[DPT_MAP_LENGTH];
    uint8_t n_in, in[DPT_MAX_INPUTS]; /* the inputs that are read: LOAD i reads input in[i] */
} dpti_map_code;

/* Takes the instructions that `value` needs.  Returns false if they are more than DPT_MAP_LENGTH,
   or if the program is full. */
bool dpti_map_take(const dpti_map_program *p, uint8_t value, dpti_map_code *out);

/* Parses a formula, as dpt_elementwise of dptrain.h describes it, over n_inputs inputs.  Errors:
   DPT_E_INVALID with the place and the reason; the formula needs more than DPT_MAP_LENGTH
   instructions. */
DPT_CHECK_RESULT dpt_status dpti_map_parse(const char *formula, size_t n_inputs, dpti_map_code *out,
                                           dpt_error *error);

/* The derivative of a value with respect to an input, times the gradient `dy` of the value, which
   the derivative reads as input `n_inputs`.  Returns false if the derivative needs more than
   DPT_MAP_LENGTH instructions. */
bool dpti_map_differentiate(const dpti_map_code *of, uint8_t input, uint8_t n_inputs,
                            dpti_map_code *out);

#endif
