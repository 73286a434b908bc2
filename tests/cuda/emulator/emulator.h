/* An emulator of CUDA's runtime for tests on machines without a card.  It has the functions that
   the backend calls, and no others.  A thread of its own executes each stream in order.  Kernels
   are compiled for the host (device.h).  A call that CUDA forbids fails with CUDA's error code.
   There is no NULL stream.

   This header is private to the emulator's files.  One lock guards all state; kernels, copies and
   host functions run without the lock.

   Environment variables, read once:
     CUDA_EMULATED_CARDS   number of cards (default: 2)
     CUDA_EMULATED_APART   not empty: no card can access another card's memory
     CUDA_EMULATED_MEMORY  MiB of each card (default: 512)
     CUDA_EMULATED_DELAYS  a seed: streams are delayed at random
     CUDA_EMULATED_ORDER   "reverse": a block's threads run from the last to the first
     CUDA_EMULATED_LOADS   "wait": calls that load something, or allocate, wait until no stream
   waits for a word CUDA_EMULATED_FAIL    FUNCTION:N:CODE or FUNCTION:N:CODE:sticky: plants a
   failure (control.h) CUDA_EMULATED_REPORT  at the end, leaked objects and uses of freed memory are
   reported, and the process fails if there were any */
#ifndef DPT_TEST_EMULATOR_H
#define DPT_TEST_EMULATOR_H

#pragma GCC visibility push(default)
#include <cuda_runtime_api.h>

#include "control.h"
#pragma GCC visibility pop

#include "kernel.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__SANITIZE_ADDRESS__)
#define EMU_ASAN 1
#elif defined(__clang__)
#if __has_feature(address_sanitizer)
#define EMU_ASAN 1
#endif
#endif

enum { EMU_MOST_CARDS = 8 };

typedef struct emu_card {
    size_t n_bytes, n_used; /* of memory; pools count as what they hold */
    cudaError_t lost;       /* what every call comes to, if not cudaSuccess */
    bool dying;             /* nothing begins to use memory; lost when nobody does any more */
    size_t n_active;        /* copies and kernels */
    unsigned life;          /* a test revives cards; streams of an earlier life do nothing more */
    pthread_cond_t idle;
    bool reaches[EMU_MOST_CARDS];
    bool has_context;
} emu_card;

typedef struct emu_state {
    pthread_mutex_t lock;
    bool begun, is_child; /* of a process that had begun: it uses nothing */
    int n_cards;
    emu_card cards[EMU_MOST_CARDS];
    bool apart, reverse;
    unsigned delays; /* 0: none */
    size_t n_strict; /* captures that are not relaxed */
    bool loads_wait;
    size_t n_waiting; /* streams that wait for what other streams do */
    emulated_counts left;
    emulated_nodes nodes;
} emu_state;

extern emu_state emu;

void emu_lock(void);
void emu_unlock(void);
double emu_now(void); /* seconds */

/* ---- Calls ----------------------------------------------------------------------------------- */

/* The card that the calling thread has chosen. */
int emu_current(void);

/* Begins a call of the runtime's that concerns a card (-1: none) and says what it must fail with.
 */
cudaError_t emu_enter(const char *function, int card);
/* Ends one: what fails is kept for cudaGetLastError. */
cudaError_t emu_leave(cudaError_t code);

/* In front of a call that has no effect when it fails. */
#define EMU_ENTER(card)                                                                            \
    do {                                                                                           \
        const cudaError_t emu_code = emu_enter(__func__, (card));                                  \
        if (emu_code != cudaSuccess) return emu_leave(emu_code);                                   \
    } while (0)

/* Whether something is planted for what is no call: "kernel", the work of one. */
cudaError_t emu_planted(const char *what);
/* From here on every call for the card fails.  Without the lock. */
void emu_lose(int card, cudaError_t code);
cudaError_t emu_lost(int card); /* likewise */
/* Around what uses memory, likewise: when a call tells of the loss, nothing does any more, as a
   broken context's work is stopped.  False: it is not done. */
bool emu_begin_use(cudaStream_t stream);
void emu_end_use(cudaStream_t stream);
/* Calls that may wait for other streams are not made while a strict capture is under way. */
cudaError_t emu_unsafe(void);

/* In front of what loads something, makes room, or uses a library's function: loads.c; without the
   lock. */
void emu_load(const char *what);
void emu_load_function(int card, void (*function)(void *));

/* ---- Work ------------------------------------------------------------------------------------ */

/* Something that a stream does, once or, in a graph, again and again. */
typedef struct emu_work {
    struct emu_work *next; /* of a queue */
    size_t n_users;
    bool always;                 /* done on a lost card, too */
    enum cudaGraphNodeType type; /* as a node: a kernel by default */
    void (*run)(struct emu_work *work, cudaStream_t stream);
    void (*drop)(struct emu_work *work); /* what the payload holds; may be NULL.  With the lock */
    size_t n_bytes;
    _Alignas(16) unsigned char payload[];
} emu_work;

/* With a copy of the payload; one user.  NULL without memory. */
emu_work *emu_work_create(void (*run)(emu_work *, cudaStream_t), const void *payload,
                          size_t n_bytes);
void emu_work_release(emu_work *work); /* with the lock; accepts NULL */

/* Adds work to a stream or to what it captures, and takes it over even if that fails (of NULL there
   was no memory).  Without the lock. */
cudaError_t emu_enqueue(cudaStream_t stream, emu_work *work);

/* ---- Streams and events ---------------------------------------------------------------------- */

/* The place of a record in a stream. */
typedef struct emu_point {
    size_t n_users;
    bool passed;
    double time; /* when */
    pthread_cond_t changed;
} emu_point;

/* Nodes of a capture, by number. */
typedef struct emu_nodes {
    size_t n, room;
    size_t *of;
} emu_nodes;

typedef struct emu_node {
    emu_work *work;
    emu_nodes after;
    cudaGraphNode_t handle; /* in a graph; NULL elsewhere */
    bool added;             /* and not captured */
} emu_node;

/* A graph, or what is instantiated of it; works are shared between them. */
typedef struct emu_graph {
    size_t n_users, n;
    bool uploaded;
    emu_node *nodes;
} emu_graph;

struct CUgraph_st {
    emu_graph body;
};

/* What a graph's node is known by; it lives as long as that. */
struct CUgraphNode_st {
    cudaGraph_t graph;
    size_t place; /* of the node now */
};

typedef struct emu_capture emu_capture;

struct CUstream_st {
    struct CUstream_st *next; /* of all that live */
    int card;
    unsigned life, random;
    pthread_cond_t more, fewer;
    emu_work *first, **last;
    size_t n_begun, n_done; /* pieces of work */
    bool ends;
    emu_capture *capture; /* NULL: none */
    emu_nodes tail;       /* what the next node comes after */
};

struct CUevent_st {
    struct CUevent_st *next;
    int card;
    bool timed;
    emu_point *point;     /* NULL: never recorded, or in a capture */
    emu_capture *capture; /* recorded there last; NULL: not in one */
    emu_nodes tail;
};

/* With the lock. */
bool emu_stream_lives(cudaStream_t stream);
bool emu_event_lives(cudaEvent_t event);
void emu_queue(cudaStream_t stream, emu_work *work);
void emu_wait_for(cudaStream_t stream);   /* lets go of the lock meanwhile */
void emu_wait_for_card(int card);         /* likewise */
cudaStream_t emu_streams(void);           /* the first */
void emu_point_release(emu_point *point); /* accepts NULL */

/* Without it.  -1 for what is no stream. */
int emu_card_of(cudaStream_t stream);

/* ---- Captures and graphs: capture.c, graphs.c, nodes.c, with the lock ----------------------- */

cudaError_t emu_capture_add(cudaStream_t stream, emu_work *work); /* takes it over */
cudaError_t emu_capture_record(cudaStream_t stream, cudaEvent_t event);
cudaError_t emu_capture_wait(cudaStream_t stream, cudaEvent_t event);
/* Something that no capture bears was asked of a stream or an event; breaks it. */
void emu_capture_break(emu_capture *capture);
void emu_event_forget(cudaEvent_t event);
/* False without memory. */
bool emu_nodes_add(emu_nodes *set, size_t i);
bool emu_nodes_add_all(emu_nodes *set, const emu_nodes *from);
void emu_nodes_drop(emu_node *nodes, size_t n);
/* Of nodes that it shares. */
cudaError_t emu_graph_create(const emu_node *nodes, size_t n, cudaGraph_t *out);
/* Takes the work over even if that fails, as emu_enqueue does.  Without the lock. */
cudaError_t emu_graph_add(cudaGraph_t graph, emu_work *work, const cudaGraphNode_t *after, size_t n,
                          cudaGraphNode_t *out);
cudaGraphNode_t emu_node_handle(cudaGraph_t of, size_t place); /* NULL without memory */
/* Whether it is a fill that is done so. */
bool emu_is_fill(const emu_work *work, struct cudaMemsetParams *out);

/* ---- Memory: memory.c, pools.c, with the lock ------------------------------------------------ */

enum { EMU_PINNED = -1, EMU_PAGEABLE = -2, EMU_NOTHING = 0xff };

typedef struct emu_range {
    struct emu_range *next;
    unsigned char *memory;  /* a guard, n_bytes, a guard */
    size_t n_bytes, n_room; /* asked for, and what that takes of a card */
    int owner;              /* a card, or EMU_PINNED */
    cudaMemPool_t pool;
} emu_range;

size_t emu_rounded(size_t n_bytes);
unsigned char *emu_range_begin(const emu_range *r);
/* NULL without memory. */
emu_range *emu_range_add(size_t n_bytes, int owner, cudaMemPool_t pool);
/* The one that begins there, pinned or of a card; from here on it is nobody's. */
emu_range *emu_range_take(const void *at, bool pinned);
void emu_range_drop(emu_range *r);

struct CUmemPoolHandle_st {
    int card;
    bool destroyed;
    size_t n_users; /* allocations that live */
    size_t n_held;  /* bytes: theirs and free pieces */
    uint64_t keep;  /* bytes to hold */
    size_t n_pieces;
    size_t pieces[4096];          /* free ones, by size */
    bool reaches[EMU_MOST_CARDS]; /* that see it */
};

/* Whose memory [at, at + n_bytes) is: a card's number, EMU_PINNED, EMU_PAGEABLE; anything else if
   it is in no one range.  *pool, if not NULL, is the pool that it is of. */
int emu_owner(const void *at, size_t n_bytes, cudaMemPool_t *pool);

/* At a synchronisation pools give back what they are not to hold. */
void emu_pools_settle(int card);
/* Looks for late writes to what was freed. */
void emu_memory_forget(void);

/* ---- Kernels: blocks.c ----------------------------------------------------------------------- */

void emu_kernel_run(const emulated_kernel *kernel, dim3 grid, dim3 block, void *const *arguments);

#endif
