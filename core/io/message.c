/* Writes fields of Protocol Buffers: a key, and a value that is a varint, 4 or 8 bytes, or bytes
   with their length. */
#include "io/message.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

enum { VARINT = 0, EIGHT_BYTES = 1, COUNTED = 2, FOUR_BYTES = 5 };

static bool reserve(dpti_message *m, size_t more)
{
    if (m->failed) return false;
    if (m->capacity - m->n_bytes >= more) return true;
    const size_t capacity = 2 * m->capacity + more + 64;
    uint8_t *bytes = realloc(m->bytes, capacity);
    m->failed = !bytes;
    if (m->failed) return false;
    m->bytes = bytes;
    m->capacity = capacity;
    return true;
}

void dpti_message_append(dpti_message *message, const void *bytes, size_t n_bytes)
{
    if (n_bytes == 0 || !reserve(message, n_bytes)) return;
    memcpy(message->bytes + message->n_bytes, bytes, n_bytes);
    message->n_bytes += n_bytes;
}

static void put_varint(dpti_message *m, uint64_t value)
{
    uint8_t bytes[10];
    size_t n = 0;
    for (; value >= 0x80; value >>= 7)
        bytes[n++] = (uint8_t)(value | 0x80);
    bytes[n++] = (uint8_t)value;
    dpti_message_append(m, bytes, n);
}

static void put_key(dpti_message *m, unsigned field, unsigned type)
{
    put_varint(m, (uint64_t)field << 3 | type);
}

/* Numbers of a fixed size are little-endian. */
static void put_fixed(dpti_message *m, uint64_t bits, size_t n)
{
    uint8_t bytes[8];
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)(bits >> 8 * i);
    dpti_message_append(m, bytes, n);
}

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

void dpti_message_integer(dpti_message *message, unsigned field, uint64_t value)
{
    put_key(message, field, VARINT);
    put_varint(message, value);
}

void dpti_message_float(dpti_message *message, unsigned field, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_key(message, field, FOUR_BYTES);
    put_fixed(message, bits, sizeof bits);
}

void dpti_message_double(dpti_message *message, unsigned field, double value)
{
    put_key(message, field, EIGHT_BYTES);
    put_fixed(message, bits_of(value), sizeof value);
}

void dpti_message_doubles(dpti_message *message, unsigned field, const double *values, size_t n)
{
    put_key(message, field, COUNTED);
    put_varint(message, n * sizeof *values);
    for (size_t i = 0; i < n; i++)
        put_fixed(message, bits_of(values[i]), sizeof *values);
}

void dpti_message_bytes(dpti_message *message, unsigned field, dpti_bytes bytes)
{
    put_key(message, field, COUNTED);
    put_varint(message, bytes.n_bytes);
    dpti_message_append(message, bytes.data, bytes.n_bytes);
}

void dpti_message_text(dpti_message *message, unsigned field, const char *text)
{
    put_key(message, field, COUNTED);
    put_varint(message, strlen(text));
    while (*text) {
        uint32_t code;
        const size_t n = dpti_character(text, &code);
        dpti_message_append(message, n ? text : "?", n ? n : 1);
        text += n ? n : 1;
    }
}

void dpti_message_nest(dpti_message *message, unsigned field, dpti_message *inner)
{
    if (inner->failed)
        message->failed = true;
    else
        dpti_message_bytes(message, field, (dpti_bytes){inner->bytes, inner->n_bytes});
    dpti_message_free(inner);
}

void dpti_message_free(dpti_message *message)
{
    free(message->bytes);
    *message = (dpti_message){.bytes = NULL};
}
