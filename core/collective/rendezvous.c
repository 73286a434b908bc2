/* A reusable barrier with a vote. */
#include "collective/rendezvous.h"

#include <pthread.h>
#include <stdlib.h>

struct dpti_rendezvous {
    pthread_mutex_t mutex;
    pthread_cond_t all_here;
    size_t n_members, n_here;
    uint64_t round;
    dpt_status *brought; /* (n_members) */
    dpt_status verdict;  /* of the round before */
};

dpti_rendezvous *dpti_rendezvous_create(size_t n_members)
{
    dpti_rendezvous *r = calloc(1, sizeof *r);
    if (r) r->brought = calloc(n_members, sizeof *r->brought);
    if (!r || !r->brought) {
        free(r);
        return NULL;
    }
    r->n_members = n_members;
    pthread_mutex_init(&r->mutex, NULL);
    pthread_cond_init(&r->all_here, NULL);
    return r;
}

void dpti_rendezvous_destroy(dpti_rendezvous *rendezvous)
{
    if (!rendezvous) return;
    pthread_cond_destroy(&rendezvous->all_here);
    pthread_mutex_destroy(&rendezvous->mutex);
    free(rendezvous->brought);
    free(rendezvous);
}

static dpt_status first_failure(const dpt_status *brought, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (brought[i] != DPT_OK) return brought[i];
    return DPT_OK;
}

dpt_status dpti_rendezvous_meet(dpti_rendezvous *rendezvous, size_t rank, dpt_status mine)
{
    dpti_rendezvous *r = rendezvous;
    if (r->n_members == 1) return mine;
    pthread_mutex_lock(&r->mutex);
    r->brought[rank] = mine;
    if (++r->n_here == r->n_members) {
        /* No member can come to the next round before this verdict is out, and none can overwrite
           it before all have read it: the next verdict needs every member's next call. */
        r->verdict = first_failure(r->brought, r->n_members);
        r->n_here = 0;
        r->round++;
        pthread_cond_broadcast(&r->all_here);
    } else {
        const uint64_t round = r->round;
        while (r->round == round)
            pthread_cond_wait(&r->all_here, &r->mutex);
    }
    const dpt_status verdict = r->verdict;
    pthread_mutex_unlock(&r->mutex);
    return verdict;
}
