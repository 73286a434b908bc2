/* Functions that tests, and stand-ins for NVIDIA's libraries, need from the emulator beyond CUDA's
   interface. */
#ifndef DPT_TEST_EMULATOR_CONTROL_H
#define DPT_TEST_EMULATOR_CONTROL_H

#include <driver_types.h>
#include <stdbool.h>
#include <stddef.h>

/* The n-th call (from 1) of a function from now on, or of any for "*", fails with the code; with
   `sticky` so does every later call for its card.  Of "kernel" it is a kernel that fails, when it
   runs, and that is sticky always.  NULL: none. */
void emulated_plant(const char *function, size_t n, int code, bool sticky);
bool emulated_fired(void);
/* The i-th function that can fail; NULL behind the last. */
const char *emulated_function(size_t i);

/* Objects that live; and pieces of work that used memory after it was freed, as far as was noticed.
 */
typedef struct emulated_counts {
    size_t streams, events, graphs, pools, buffers, pinned, late;
} emulated_counts;

emulated_counts emulated_left(void);

/* Of graphs that were instantiated so far: nodes that fill at most 1024 bytes; and kernels that
   were not captured but added. */
typedef struct emulated_nodes {
    size_t small_fills, added_kernels;
} emulated_nodes;

emulated_nodes emulated_graph_nodes(void);

/* Around a stream's wait for what other streams do (loads.c). */
void emulated_begin_wait(void);
void emulated_end_wait(void);

/* Loads one on the current card before it is enqueued there first. */
void emulated_load(void (*function)(void *));

/* Whether a thread has chosen the card so far, which makes a context there. */
bool emulated_has_context(int card);

/* Enqueues a function of the host's with a copy of n_bytes at `argument`, as a library enqueues its
   kernels: under capture it becomes a node, which keeps the copy. */
cudaError_t emulated_enqueue(cudaStream_t stream, void (*function)(void *), const void *argument,
                             size_t n_bytes);

/* What such a function does that uses memory of another card where the two reach each other; one
   that was not opened to the stream's card is the loss of that. */
void emulated_use_peer(cudaStream_t stream, const void *at, size_t n_bytes);

#endif
