/* The samples of a call that no device has taken yet (queue.h). */
#include "predict/queue.h"

#include <math.h>

dpt_status dpti_queue_create(dpti_queue *queue, const dpti_split *split, size_t n_devices,
                             size_t count)
{
    size_t rows[DPTI_SPLIT_MAX_DEVICES];
    *queue = (dpti_queue){.n_devices = n_devices, .fixed = split != NULL};
    if (pthread_mutex_init(&queue->lock, NULL) != 0) return DPT_E_NO_MEMORY;
    if (!split) {
        queue->shared.end = count;
        return DPT_OK;
    }
    dpti_split_rows(split, count, rows);
    for (size_t i = 0, at = 0; i < n_devices; at += rows[i], i++)
        queue->own[i] = (dpti_samples){at, at + rows[i]};
    return DPT_OK;
}

void dpti_queue_destroy(dpti_queue *queue)
{
    pthread_mutex_destroy(&queue->lock);
}

static bool is_empty(const dpti_samples *run)
{
    return run->first >= run->end;
}

/* The run from which a device takes next; NULL: there is nothing for it. */
static dpti_samples *find(dpti_queue *q, size_t device)
{
    if (!is_empty(&q->own[device])) return &q->own[device];
    for (size_t i = 0; i < q->n_left; i++)
        if (!is_empty(&q->left[i])) return &q->left[i];
    return is_empty(&q->shared) ? NULL : &q->shared;
}

static dpti_samples take_from(dpti_samples *from, const dpti_turn *turn, bool fixed)
{
    const size_t there = from->end - from->first;
    size_t n = turn->most < there ? turn->most : there;
    if (!fixed) {
        const double part = ceil((double)there * turn->fraction);
        if (part < (double)n) n = part < 1 ? 1 : (size_t)part;
    }
    const dpti_samples taken = {from->first, from->first + n};
    from->first += n;
    return taken;
}

dpti_samples dpti_queue_take(dpti_queue *queue, const dpti_turn *turn)
{
    pthread_mutex_lock(&queue->lock);
    dpti_samples *from = find(queue, turn->device);
    const dpti_samples taken =
        from ? take_from(from, turn, from == &queue->own[turn->device]) : (dpti_samples){0, 0};
    pthread_mutex_unlock(&queue->lock);
    return taken;
}

void dpti_queue_leave(dpti_queue *queue, size_t device, dpti_samples run)
{
    pthread_mutex_lock(&queue->lock);
    queue->left[queue->n_left++] = run;
    queue->left[queue->n_left++] = queue->own[device];
    queue->own[device] = (dpti_samples){0, 0};
    pthread_mutex_unlock(&queue->lock);
}

bool dpti_queue_is_empty(dpti_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    bool any = !is_empty(&queue->shared);
    for (size_t i = 0; i < queue->n_left; i++)
        any = any || !is_empty(&queue->left[i]);
    for (size_t i = 0; i < queue->n_devices; i++)
        any = any || !is_empty(&queue->own[i]);
    pthread_mutex_unlock(&queue->lock);
    return !any;
}
