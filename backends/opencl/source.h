/* The source text of kernels.  The build embeds the files in the plug-in.  A driver includes no
   files, so that one text holds a file and its headers. */
#ifndef DPT_OPENCL_SOURCE_H
#define DPT_OPENCL_SOURCE_H

#include "backend.h"

/* The embedded files, by name.  embed.cmake writes the table.  It ends with a NULL name. */
typedef struct dpt_cl_source {
    const char *name;
    const unsigned char *text;
    size_t n_bytes;
} dpt_cl_source;
extern const dpt_cl_source dpt_cl_sources[];

/* A file with its headers. */
typedef struct dpt_cl_assembled {
    char *bytes; /* the caller frees them; a NUL follows that n_bytes does not count */
    size_t n_bytes;
} dpt_cl_assembled;

/* Assembles the text of an embedded file.  *out is written on success only.  DPT_E_INTERNAL: this
   build has no such file.  DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpt_cl_source_assemble(dpt_device *device, const char *file,
                                                   dpt_cl_assembled *out);

#endif
