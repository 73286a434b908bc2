/* Open addressing with linear probing; at most half of the entries are in use. */
#include "onnx/names.h"

#include <string.h>

enum { FIRST_CAPACITY = 16 };

struct dpti_onnx_name {
    const char *name; /* NULL: free */
    uint64_t hash;
    dpti_onnx_meaning meaning;
};

/* FNV-1a with a last mix, because the lower bits choose the entry. */
static uint64_t hash_of(const char *name)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * UINT64_C(1099511628211);
    return hash ^ (hash >> 29);
}

/* The entry of a name, or the free one where it belongs. */
static dpti_onnx_name *entry_of(const dpti_onnx_names *names, const char *name, uint64_t hash)
{
    size_t at = (size_t)hash & (names->capacity - 1);
    for (;; at = (at + 1) & (names->capacity - 1)) {
        dpti_onnx_name *entry = &names->entries[at];
        if (!entry->name || (entry->hash == hash && strcmp(entry->name, name) == 0)) return entry;
    }
}

dpti_onnx_meaning *dpti_onnx_names_find(const dpti_onnx_names *names, const char *name)
{
    if (names->n == 0) return NULL;
    dpti_onnx_name *entry = entry_of(names, name, hash_of(name));
    return entry->name ? &entry->meaning : NULL;
}

static bool grow(dpti_onnx_names *names, dpti_onnx_arena *arena)
{
    const size_t capacity = names->capacity ? 2 * names->capacity : FIRST_CAPACITY;
    dpti_onnx_names larger = {.n = names->n, .capacity = capacity};
    larger.entries = dpti_onnx_take(arena, capacity, sizeof *larger.entries);
    if (!larger.entries) return false;
    for (size_t i = 0; i < names->capacity; i++) {
        const dpti_onnx_name *entry = &names->entries[i];
        if (entry->name) *entry_of(&larger, entry->name, entry->hash) = *entry;
    }
    dpti_onnx_give_back(arena, names->entries);
    *names = larger;
    return true;
}

bool dpti_onnx_names_add(dpti_onnx_names *names, dpti_onnx_arena *arena, const char *name,
                         dpti_onnx_meaning meaning)
{
    if (2 * (names->n + 1) > names->capacity && !grow(names, arena)) return false;
    const uint64_t hash = hash_of(name);
    *entry_of(names, name, hash) = (dpti_onnx_name){name, hash, meaning};
    names->n++;
    return true;
}
