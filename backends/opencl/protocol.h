/* What a backend and its helper program, dptrain-opencl-compile, say to each other: messages over a
   socket pair, which is file descriptor DPT_CL_HELPER_SOCKET of the helper.

   Each message is a head and as many bytes as the head says.  The helper sends HELLO first.  It
   then answers one request after the other, and ends when the backend closes the socket.  Both
   programs come from one build: structures are sent as they lie in memory, and DPT_CL_MAGIC changes
   with them. */
#ifndef DPT_OPENCL_PROTOCOL_H
#define DPT_OPENCL_PROTOCOL_H

#include <stdint.h>

enum { DPT_CL_HELPER_SOCKET = 3 };
#define DPT_CL_HELPER_NAME "dptrain-opencl-compile"
#define DPT_CL_MAGIC       UINT32_C(0x44504301)

/* No message is longer. */
#define DPT_CL_MOST_MESSAGE_BYTES ((uint64_t)1 << 28)

typedef enum dpt_cl_message_kind {
    /* Requests. */
    DPT_CL_LIST,   /* dpt_cl_list_request: ask platforms for their devices */
    DPT_CL_BUILD,  /* dpt_cl_build_request, options, source: compile a program */
    DPT_CL_LAUNCH, /* dpt_cl_launch_request, arguments, their bytes: run a kernel once */
    /* Answers. */
    DPT_CL_HELLO,    /* the helper has started */
    DPT_CL_PLATFORM, /* dpt_cl_platform_notice: the helper is about to ask this platform */
    DPT_CL_DONE,     /* the end of a request that succeeded */
    DPT_CL_BUILT,    /* the program is compiled; DONE follows, with the binary if there is one */
    DPT_CL_REFUSED,  /* the compiler refused the program, with `code`; its log */
    DPT_CL_FAILED,   /* another call failed, with `code`; the call's name */
} dpt_cl_message_kind;

typedef struct dpt_cl_message {
    uint32_t magic;   /* DPT_CL_MAGIC */
    uint32_t kind;    /* dpt_cl_message_kind */
    int32_t code;     /* of OpenCL, 0 if there is none */
    uint32_t padding; /* 0 */
    uint64_t n_bytes; /* that follow */
} dpt_cl_message;

enum { DPT_CL_PROTOCOL_TEXT_BYTES = 128 };

typedef struct dpt_cl_list_request {
    uint32_t first; /* the platform to begin with, in the order of clGetPlatformIDs */
} dpt_cl_list_request;

typedef struct dpt_cl_platform_notice {
    uint32_t ordinal; /* in the order of clGetPlatformIDs */
    char name[DPT_CL_PROTOCOL_TEXT_BYTES];
} dpt_cl_platform_notice;

typedef struct dpt_cl_build_request {
    uint64_t id;                                    /* the program's, which LAUNCH names */
    uint64_t n_source;                              /* bytes of the source text */
    uint32_t n_options;                             /* bytes of the options, without a NUL */
    uint32_t wants_binary;                          /* 1: DONE has the binary */
    uint32_t platform;                              /* in the order of clGetPlatformIDs */
    uint32_t device;                                /* in the order of clGetDeviceIDs */
    char platform_name[DPT_CL_PROTOCOL_TEXT_BYTES]; /* that they must have */
    char device_version[DPT_CL_PROTOCOL_TEXT_BYTES];
} dpt_cl_build_request;

typedef struct dpt_cl_launch_request {
    uint64_t id; /* of a program that this helper has built */
    uint64_t n_groups[3], group[3];
    uint32_t n_arguments;
    uint32_t padding;
    char kernel[DPT_CL_PROTOCOL_TEXT_BYTES];
} dpt_cl_launch_request;

typedef struct dpt_cl_argument {
    uint64_t buffer_bytes; /* not 0: a buffer of zeros of this size is passed */
    uint32_t n_bytes;      /* of the value */
    uint32_t is_buffer;    /* 1 with buffer_bytes 0: null is passed */
} dpt_cl_argument;

#endif
