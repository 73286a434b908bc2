/* dptrain-opencl-compile: does for the OpenCL backend what a driver may not survive.  Not for
   people: the backend starts it, and speaks with it over a socket (protocol.h). */
#include "helper/helper.h"
#include "inquire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NOT_FOR_PEOPLE = 2, BROKEN = 3, SOCKET = DPT_CL_HELPER_SOCKET, REST_MILLISECONDS = 5000 };

/* ---- Messages -------------------------------------------------------------------------------- */

static void send_all(const void *bytes, size_t n_bytes)
{
    const char *at = bytes;
    while (n_bytes > 0) {
        const ssize_t n = send(SOCKET, at, n_bytes, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) _exit(0); /* the backend has gone */
        at += n;
        n_bytes -= (size_t)n;
    }
}

void helper_answer(dpt_cl_message_kind kind, cl_int code, const void *bytes, size_t n_bytes)
{
    const dpt_cl_message head = {
        .magic = DPT_CL_MAGIC, .kind = kind, .code = code, .n_bytes = n_bytes};
    send_all(&head, sizeof head);
    send_all(bytes, n_bytes);
}

static void receive_all(void *bytes, size_t n_bytes)
{
    char *at = bytes;
    while (n_bytes > 0) {
        const ssize_t n = recv(SOCKET, at, n_bytes, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) _exit(0); /* the backend has gone, or is done */
        at += n;
        n_bytes -= (size_t)n;
    }
}

/* ---- Listing --------------------------------------------------------------------------------- */

void helper_list(const char *bytes, size_t n_bytes)
{
    dpt_cl_list_request request;
    cl_platform_id platforms[DPT_CL_ASKED_PLATFORMS];
    cl_uint n_platforms = 0;
    if (n_bytes != sizeof request) _exit(BROKEN);
    memcpy(&request, bytes, sizeof request);
    const cl_int code = dpt_cl_ask_platforms(platforms, &n_platforms);
    for (cl_uint i = request.first; code == CL_SUCCESS && i < n_platforms; i++) {
        dpt_cl_platform_notice notice = {.ordinal = i};
        cl_device_id devices[DPT_CL_MOST_DEVICES];
        dpt_cl_ask_platform_name(platforms[i], notice.name);
        helper_answer(DPT_CL_PLATFORM, 0, &notice, sizeof notice);
        const cl_uint n = dpt_cl_ask_device_ids(platforms[i], devices);
        for (cl_uint k = 0; k < n; k++) {
            dpt_cl_found found;
            (void)dpt_cl_ask_device(platforms[i], devices[k], &found);
        }
    }
    helper_answer(DPT_CL_DONE, code, NULL, 0);
}

/* ---- The process ----------------------------------------------------------------------------- */

/* Ends this process when the backend's has ended, whatever a driver does here meanwhile. */
static void *watch(void *argument)
{
    const pid_t parent = *(const pid_t *)argument;
    for (;;) {
        struct pollfd fd = {.fd = SOCKET, .events = 0};
        if (poll(&fd, 1, 1000) > 0 || getppid() != parent) _exit(0);
    }
}

/* The program that has loaded the backend may have left descriptors open to its children. */
static void close_others(void)
{
#ifdef SYS_close_range
    if (syscall(SYS_close_range, SOCKET + 1u, ~0u, 0u) == 0) return;
#endif
    const long most = sysconf(_SC_OPEN_MAX);
    for (int fd = SOCKET + 1; fd < (most > 0 && most < 65536 ? most : 65536); fd++)
        (void)close(fd);
}

static void serve(void)
{
    dpt_cl_message head;
    struct pollfd next = {.fd = SOCKET, .events = POLLIN};
    if (poll(&next, 1, REST_MILLISECONDS) == 0) helper_rest();
    receive_all(&head, sizeof head);
    if (head.magic != DPT_CL_MAGIC || head.n_bytes > DPT_CL_MOST_MESSAGE_BYTES) _exit(BROKEN);
    const size_t n = (size_t)head.n_bytes;
    char *bytes = malloc(n + 1);
    if (!bytes) _exit(BROKEN);
    receive_all(bytes, n);
    bytes[n] = '\0';
    switch ((dpt_cl_message_kind)head.kind) {
    case DPT_CL_LIST: helper_list(bytes, n); break;
    case DPT_CL_BUILD: helper_build(bytes, n); break;
    case DPT_CL_LAUNCH: helper_launch(bytes, n); break;
    default: _exit(BROKEN);
    }
    free(bytes);
}

int main(void)
{
    static pid_t parent;
    pthread_t watcher;
    const struct rlimit no_core = {0, 0}; /* an abort is expected here, and told otherwise */
    int type = 0;
    socklen_t n_bytes = sizeof type;
    if (getsockopt(SOCKET, SOL_SOCKET, SO_TYPE, &type, &n_bytes) != 0) {
        fputs(DPT_CL_HELPER_NAME ": dptrain's OpenCL backend starts this program; it is not for "
                                 "people\n",
              stderr);
        return NOT_FOR_PEOPLE;
    }
    parent = getppid();
    close_others();
    (void)fcntl(SOCKET, F_SETFD, FD_CLOEXEC);
    (void)setrlimit(RLIMIT_CORE, &no_core);
    if (pthread_create(&watcher, NULL, watch, &parent) != 0) return BROKEN;
    helper_answer(DPT_CL_HELLO, 0, NULL, 0);
    for (;;)
        serve();
}
