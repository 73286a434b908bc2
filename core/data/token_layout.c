/* The layout of a token file: raw integers, a NumPy array, or a file of llm.c. */
#include "data/array.h"
#include "data/tokens.h"

#include <string.h>

/* The header of llm.c's token files: 256 little-endian int32, of which the first three are a magic,
   a version and the number of ids (llm.c: dev/data/data_common.py, llmc/dataloader.h). */
enum { LLMC_HEADER = 256 * 4 };

static const struct {
    uint32_t magic, version;
    size_t bytes; /* of an id */
} llmc_kinds[] = {{20240520, 1, 2}, {20240801, 7, 4}};

enum { N_LLMC_KINDS = sizeof llmc_kinds / sizeof *llmc_kinds };

static uint32_t little32(const uint8_t *b)
{
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

/* The kind of a file of llm.c; N_LLMC_KINDS: it is none. */
static size_t llmc_kind(const dpti_file_bytes *head)
{
    size_t i = 0;
    while (i < N_LLMC_KINDS && (head->n_bytes < 4 || little32(head->bytes) != llmc_kinds[i].magic))
        i++;
    return i;
}

static dpt_status find_llmc(const dpti_token_file *f, size_t kind, dpti_token_layout *out,
                            dpt_error *error)
{
    const char *name = f->head.name;
    if (f->head.n_bytes < LLMC_HEADER)
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s: the file of llm.c ends within its header of %d bytes; write the file "
                        "again",
                        name, LLMC_HEADER);
    const uint32_t version = little32(f->head.bytes + 4), count = little32(f->head.bytes + 8);
    if (version != llmc_kinds[kind].version)
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s: version %u of llm.c's token files; version %u can be read", name,
                        version, llmc_kinds[kind].version);
    const size_t n = count, there = f->file_bytes - LLMC_HEADER;
    const size_t bytes = llmc_kinds[kind].bytes;
    if (n == 0 || n > INT32_MAX || there != n * bytes)
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s: the header promises %zu ids of %zu bytes, and %zu bytes are there; "
                        "write the file again",
                        name, n, bytes, there);
    *out = (dpti_token_layout){.bytes = bytes, .offset = LLMC_HEADER, .n = n};
    return DPT_OK;
}

static dpt_status find_npy(const dpti_token_file *f, dpti_token_layout *out, dpt_error *error)
{
    const char *name = f->head.name;
    dpti_npy_head h = {.rank = 0};
    DPT_TRY(dpti_npy_read_head(&f->head, &h, error));
    if (h.rank != 1)
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s: tokens are an array with one axis, and this one has %zu; save "
                        "array.reshape(-1)",
                        name, h.rank);
    if (h.kind != 'u' && h.kind != 'i')
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s: tokens are integers, and this array has %s; save it as uint16 or "
                        "uint32",
                        name, h.kind == 'f' ? "real numbers" : "truth values");
    const size_t there = f->file_bytes - h.n_bytes;
    if (there / h.element_bytes < h.n || there != h.n * h.element_bytes)
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s: the header promises %zu bytes of elements and %zu are there; write "
                        "the file again",
                        name, h.n * h.element_bytes, there);
    *out = (dpti_token_layout){.bytes = h.element_bytes,
                               .swapped = h.swapped,
                               .is_signed = h.kind == 'i',
                               .offset = h.n_bytes,
                               .n = h.n};
    return DPT_OK;
}

/* Whether ids of 16 bits look as if they had 32: every second one is 0, and not the others. */
static bool looks_wider(const dpti_file_bytes *head)
{
    enum { LEAST = 64 }; /* bytes */
    bool any = false;
    if (head->n_bytes < LEAST || head->n_bytes % 4 != 0) return false;
    for (size_t i = 0; i + 4 <= head->n_bytes; i += 4) {
        if (head->bytes[i + 2] || head->bytes[i + 3]) return false;
        any = any || head->bytes[i] || head->bytes[i + 1];
    }
    return any;
}

static dpt_status find_raw(const dpti_token_file *f, size_t bytes, dpti_token_layout *out,
                           dpt_error *error)
{
    if (f->file_bytes % bytes != 0)
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s has %zu bytes, which are no whole number of ids of %zu bytes; is it "
                        "truncated, or of another width (tokens:CONTEXT:u16 or :u32)?",
                        f->head.name, f->file_bytes, bytes);
    if (bytes == 2 && looks_wider(&f->head))
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s: every second id of 16 bits is 0, so the ids have 32 bits; write "
                        "tokens:CONTEXT:u32",
                        f->head.name);
    *out = (dpti_token_layout){.bytes = bytes, .n = f->file_bytes / bytes};
    return DPT_OK;
}

dpt_status dpti_token_layout_find(const dpti_token_file *file, dpti_token_layout *out,
                                  dpt_error *error)
{
    const dpti_file_bytes *head = &file->head;
    if (file->file_bytes == 0)
        return DPT_FAIL(error, DPT_E_FORMAT, "%s is empty; leave it out", head->name);
    if (file->form == DPTI_TOKENS_BYTES) return find_raw(file, 1, out, error);
    if (dpti_is_npy(head->bytes, head->n_bytes)) return find_npy(file, out, error);
    const size_t kind = llmc_kind(head);
    if (kind < N_LLMC_KINDS) return find_llmc(file, kind, out, error);
    return find_raw(file, file->form == DPTI_TOKENS_U16 ? 2 : 4, out, error);
}

size_t dpti_token_convert(const dpti_token_layout *layout, const uint8_t *from, size_t n,
                          int32_t *out)
{
    const size_t size = layout->bytes;
    const uint64_t sign = layout->is_signed ? (uint64_t)1 << (8 * size - 1) : 0;
    for (size_t i = 0; i < n; i++, from += size) {
        uint64_t bits = 0;
        for (size_t k = 0; k < size; k++)
            bits |= (uint64_t)from[layout->swapped ? size - 1 - k : k] << (8 * k);
        if (bits & sign || bits > INT32_MAX) return i;
        out[i] = (int32_t)bits;
    }
    return n;
}
