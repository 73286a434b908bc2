/* Encodes messages of Protocol Buffers (https://protobuf.dev/programming-guides/encoding).  Knows
   no schema: the caller names the number of each field. */
#ifndef DPTI_MESSAGE_H
#define DPTI_MESSAGE_H

#include "base/bytes.h"
#include "dpt_types.h"

/* A growing message.  All zero: empty.  The first failure to get memory sticks; what follows does
   nothing. */
typedef struct dpti_message {
    uint8_t *bytes;
    size_t n_bytes, capacity;
    bool failed;
} dpti_message;

/* Appends bytes that are no field. */
void dpti_message_append(dpti_message *message, const void *bytes, size_t n_bytes);
void dpti_message_integer(dpti_message *message, unsigned field, uint64_t value);
void dpti_message_float(dpti_message *message, unsigned field, float value);
void dpti_message_double(dpti_message *message, unsigned field, double value);
/* n doubles as a packed field. */
void dpti_message_doubles(dpti_message *message, unsigned field, const double *values, size_t n);
void dpti_message_bytes(dpti_message *message, unsigned field, dpti_bytes bytes);
/* A string.  Bytes that are not valid UTF-8 become '?', because readers refuse such strings. */
void dpti_message_text(dpti_message *message, unsigned field, const char *text);
/* A message as a field of another one.  `inner` is freed and empty afterwards. */
void dpti_message_nest(dpti_message *message, unsigned field, dpti_message *inner);
/* Frees the bytes; the message is empty afterwards. */
void dpti_message_free(dpti_message *message);

#endif
