/* Asks the ICD loader and the drivers for platforms and devices (inquire.h). */
#include "inquire.h"

#include <ctype.h>
#include <string.h>

/* Queries of the extensions cl_khr_device_uuid, cl_khr_pci_bus_info, cl_nv_device_attribute_query
   and cl_amd_device_attribute_query.  A driver without an extension returns an error. */
enum {
    DEVICE_UUID_KHR = 0x106A,
    DEVICE_PCI_BUS_INFO_KHR = 0x410F,
    DEVICE_PCI_BUS_ID_NV = 0x4008,
    DEVICE_PCI_SLOT_ID_NV = 0x4009,
    DEVICE_PCI_DOMAIN_ID_NV = 0x400A,
    DEVICE_TOPOLOGY_AMD = 0x4037,
    DEVICE_BOARD_NAME_AMD = 0x4038,
};

/* ---- Platforms ------------------------------------------------------------------------------- */

cl_int dpt_cl_ask_platforms(cl_platform_id *ids, cl_uint *n)
{
    *n = 0;
    const cl_int code = clGetPlatformIDs(DPT_CL_ASKED_PLATFORMS, ids, n);
    if (*n > DPT_CL_ASKED_PLATFORMS) *n = DPT_CL_ASKED_PLATFORMS;
    return code;
}

void dpt_cl_ask_platform_name(cl_platform_id platform, char out[DPT_CL_TEXT_BYTES])
{
    memset(out, 0, DPT_CL_TEXT_BYTES);
    if (clGetPlatformInfo(platform, CL_PLATFORM_NAME, DPT_CL_TEXT_BYTES - 1, out, NULL) !=
        CL_SUCCESS)
        snprintf(out, DPT_CL_TEXT_BYTES, "other");
}

cl_uint dpt_cl_ask_device_ids(cl_platform_id platform, cl_device_id *ids)
{
    cl_uint n = 0;
    const cl_device_type types =
        CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_ACCELERATOR | CL_DEVICE_TYPE_CPU;
    if (clGetDeviceIDs(platform, types, DPT_CL_MOST_DEVICES, ids, &n) != CL_SUCCESS) return 0;
    return n < DPT_CL_MOST_DEVICES ? n : DPT_CL_MOST_DEVICES;
}

/* ---- Devices --------------------------------------------------------------------------------- */

/* Reads a text and removes blanks at its ends.  *out is empty if the driver returns an error. */
static void device_text(cl_device_id id, cl_device_info what, char out[DPT_CL_TEXT_BYTES])
{
    char text[1024] = "";
    if (clGetDeviceInfo(id, what, sizeof text - 1, text, NULL) != CL_SUCCESS) text[0] = '\0';
    const char *begin = text + strspn(text, " \t");
    size_t n = strlen(begin);
    while (n > 0 && isspace((unsigned char)begin[n - 1]))
        n--;
    snprintf(out, DPT_CL_TEXT_BYTES, "%.*s", (int)n, begin);
}

static cl_ulong device_number(cl_device_id id, cl_device_info what, size_t n_bytes)
{
    union {
        cl_uint narrow;
        cl_ulong wide;
    } value = {.wide = 0};
    if (clGetDeviceInfo(id, what, n_bytes, &value, NULL) != CL_SUCCESS) return 0;
    return n_bytes == sizeof value.narrow ? value.narrow : value.wide;
}

static size_t device_size(cl_device_id id, cl_device_info what)
{
    size_t value = 0;
    return clGetDeviceInfo(id, what, sizeof value, &value, NULL) == CL_SUCCESS ? value : 0;
}

static void ask_pci(cl_device_id id, char out[16])
{
    struct {
        cl_uint domain, bus, device, function;
    } khr;
    unsigned char amd[24];
    cl_uint bus, slot, domain = 0;
    if (clGetDeviceInfo(id, DEVICE_PCI_BUS_INFO_KHR, sizeof khr, &khr, NULL) == CL_SUCCESS) {
        snprintf(out, 16, "%04x:%02x:%02x.%x", khr.domain & 0xffff, khr.bus & 0xff,
                 khr.device & 0xff, khr.function & 0xf);
    } else if (clGetDeviceInfo(id, DEVICE_PCI_BUS_ID_NV, sizeof bus, &bus, NULL) == CL_SUCCESS &&
               clGetDeviceInfo(id, DEVICE_PCI_SLOT_ID_NV, sizeof slot, &slot, NULL) == CL_SUCCESS) {
        (void)clGetDeviceInfo(id, DEVICE_PCI_DOMAIN_ID_NV, sizeof domain, &domain, NULL);
        snprintf(out, 16, "%04x:%02x:%02x.%x", domain & 0xffff, bus & 0xff, (slot >> 3) & 0x1f,
                 slot & 0x7);
    } else if (clGetDeviceInfo(id, DEVICE_TOPOLOGY_AMD, sizeof amd, amd, NULL) == CL_SUCCESS) {
        snprintf(out, 16, "0000:%02x:%02x.%x", amd[21], amd[22], amd[23] & 0xf);
    }
}

/* Makes a one-word name of a platform, for device strings. */
static void name_group(const char *platform, char out[DPT_CL_GROUP_BYTES])
{
    static const struct {
        const char *part, *word;
    } known[] = {
        {"Portable Computing Language", "pocl"},
        {"NVIDIA", "nvidia"},
        {"AMD", "amd"},
        {"Intel", "intel"},
        {"rusticl", "rusticl"},
        {"Clover", "clover"},
        {"Oclgrind", "oclgrind"},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (!strstr(platform, known[i].part)) continue;
        snprintf(out, DPT_CL_GROUP_BYTES, "%s", known[i].word);
        return;
    }
    size_t n = 0;
    for (; *platform && n < DPT_CL_GROUP_BYTES - 1; platform++) {
        const int c = tolower((unsigned char)*platform);
        if ((c >= 'a' && c <= 'z') || (n > 0 && c >= '0' && c <= '9'))
            out[n++] = (char)c;
        else if (n > 0)
            break;
    }
    out[n] = '\0';
    if (n == 0 || strcmp(out, "all") == 0) snprintf(out, DPT_CL_GROUP_BYTES, "other");
}

/* Returns the largest power of two that is at most `most` and that the device allows. */
static unsigned group_size(size_t max_group, unsigned most)
{
    unsigned size = 1;
    while (size * 2 <= most && size * 2 <= max_group)
        size *= 2;
    return size;
}

/* Why operators cannot have the same bits on this device as on others, or NULL. */
static const char *ask_varies(cl_device_id id)
{
    const size_t n_bytes = sizeof(cl_device_fp_config);
    const cl_ulong single = device_number(id, CL_DEVICE_SINGLE_FP_CONFIG, n_bytes);
    if (device_number(id, CL_DEVICE_DOUBLE_FP_CONFIG, n_bytes) == 0)
        return "it has no double precision (cl_khr_fp64)";
    if ((single & CL_FP_ROUND_TO_NEAREST) == 0) return "its float32 does not round to the nearest";
    return (single & CL_FP_DENORM) != 0 ? NULL : "its float32 has no subnormal numbers";
}

bool dpt_cl_ask_device(cl_platform_id platform, cl_device_id id, dpt_cl_found *out)
{
    if (!device_number(id, CL_DEVICE_AVAILABLE, sizeof(cl_uint)) ||
        !device_number(id, CL_DEVICE_COMPILER_AVAILABLE, sizeof(cl_uint)))
        return false;
    const cl_ulong type = device_number(id, CL_DEVICE_TYPE, sizeof(cl_ulong));
    *out = (dpt_cl_found){
        .platform = platform,
        .id = id,
        .is_cpu = (type & CL_DEVICE_TYPE_CPU) != 0,
        .compute_units = (unsigned)device_number(id, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof(cl_uint)),
        .memory_bytes = device_number(id, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof(cl_ulong)),
        .max_alloc_bytes = device_number(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof(cl_ulong)),
        .local_bytes = device_number(id, CL_DEVICE_LOCAL_MEM_SIZE, sizeof(cl_ulong)),
        .max_group = device_size(id, CL_DEVICE_MAX_WORK_GROUP_SIZE),
        .vector_width =
            (unsigned)device_number(id, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, sizeof(cl_uint)),
    };
    /* A CPU device of OpenCL is always the CPU of this machine. */
    out->is_host_cpu = out->is_cpu;
    out->varies = ask_varies(id);
    out->divides_exactly =
        (device_number(id, CL_DEVICE_SINGLE_FP_CONFIG, sizeof(cl_device_fp_config)) &
         CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
    out->group_size = group_size(out->max_group, out->is_cpu ? 64 : 256);
    if (out->vector_width == 0) out->vector_width = 1;
    if (out->compute_units == 0)
        out->compute_units = 1; /* 0 means unknown; others divide by this number */
    if (out->max_alloc_bytes == 0) out->max_alloc_bytes = out->memory_bytes / 4;
    dpt_cl_ask_platform_name(platform, out->platform_name);
    name_group(out->platform_name, out->group);
    device_text(id, DEVICE_BOARD_NAME_AMD, out->name);
    if (!out->name[0]) device_text(id, CL_DEVICE_NAME, out->name);
    device_text(id, CL_DEVICE_VENDOR, out->vendor);
    device_text(id, CL_DRIVER_VERSION, out->driver);
    device_text(id, CL_DEVICE_VERSION, out->version);
    if (clGetDeviceInfo(id, DEVICE_UUID_KHR, sizeof out->uuid, out->uuid, NULL) != CL_SUCCESS)
        memset(out->uuid, 0, sizeof out->uuid);
    ask_pci(id, out->pci_id);
    return true;
}
