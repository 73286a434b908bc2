/* A barrier with a vote that can be used again and again. */
#include "collective/rendezvous.h"

#include <pthread.h>
#include <stdlib.h>

struct dpti_rendezvous {
    pthread_mutex_t mutex;
    pthread_cond_t all_here;
    size_t n_members, n_present, n_here;
    uint64_t round;
    bool broken;
    bool *absent;        /* (n_members) */
    uint64_t *came;      /* (n_members) to which round, */
    dpt_status *brought; /* (n_members) and with what */
    dpt_status verdict;  /* of the round before */
};

dpti_rendezvous *dpti_rendezvous_create(size_t n_members)
{
    dpti_rendezvous *r = calloc(1, sizeof *r);
    if (!r) return NULL;
    r->brought = calloc(n_members, sizeof *r->brought);
    r->absent = calloc(n_members, sizeof *r->absent);
    r->came = calloc(n_members, sizeof *r->came);
    if (!r->brought || !r->absent || !r->came) {
        free(r->came);
        free(r->absent);
        free(r->brought);
        free(r);
        return NULL;
    }
    r->n_members = r->n_present = n_members;
    pthread_mutex_init(&r->mutex, NULL);
    pthread_cond_init(&r->all_here, NULL);
    return r;
}

void dpti_rendezvous_destroy(dpti_rendezvous *rendezvous)
{
    if (!rendezvous) return;
    pthread_cond_destroy(&rendezvous->all_here);
    pthread_mutex_destroy(&rendezvous->mutex);
    free(rendezvous->came);
    free(rendezvous->absent);
    free(rendezvous->brought);
    free(rendezvous);
}

static dpt_status first_failure(const dpt_status *brought, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (brought[i] != DPT_OK) return brought[i];
    return DPT_OK;
}

void dpti_rendezvous_set_present(dpti_rendezvous *rendezvous, size_t rank, bool present)
{
    dpti_rendezvous *r = rendezvous;
    pthread_mutex_lock(&r->mutex);
    if (r->absent[rank] && present) r->n_present++;
    if (!r->absent[rank] && !present) r->n_present--;
    r->absent[rank] = !present;
    r->brought[rank] = DPT_OK;
    pthread_mutex_unlock(&r->mutex);
}

void dpti_rendezvous_break(dpti_rendezvous *rendezvous)
{
    pthread_mutex_lock(&rendezvous->mutex);
    rendezvous->broken = true;
    pthread_cond_broadcast(&rendezvous->all_here);
    pthread_mutex_unlock(&rendezvous->mutex);
}

void dpti_rendezvous_mend(dpti_rendezvous *rendezvous)
{
    pthread_mutex_lock(&rendezvous->mutex);
    rendezvous->broken = false;
    rendezvous->n_here = 0;
    pthread_mutex_unlock(&rendezvous->mutex);
}

/* Called with the mutex locked.  A member that is sent away does not count: the round is unchanged.
 */
static void come(dpti_rendezvous *r, size_t rank, dpt_status mine)
{
    r->came[rank] = r->round;
    if (r->broken) return;
    r->brought[rank] = mine;
    if (++r->n_here < r->n_present) return;
    /* No member can come to the next round before this verdict is out, and none can overwrite it
       before all have read it: the next verdict needs every member's next call. */
    r->verdict = first_failure(r->brought, r->n_members);
    r->n_here = 0;
    r->round++;
    pthread_cond_broadcast(&r->all_here);
}

void dpti_rendezvous_come(dpti_rendezvous *rendezvous, size_t rank, dpt_status mine)
{
    pthread_mutex_lock(&rendezvous->mutex);
    come(rendezvous, rank, mine);
    pthread_mutex_unlock(&rendezvous->mutex);
}

dpt_status dpti_rendezvous_wait(dpti_rendezvous *rendezvous, size_t rank)
{
    dpti_rendezvous *r = rendezvous;
    pthread_mutex_lock(&r->mutex);
    while (r->round == r->came[rank] && !r->broken)
        pthread_cond_wait(&r->all_here, &r->mutex);
    const dpt_status verdict = r->round == r->came[rank] ? DPT_E_CANCELLED : r->verdict;
    pthread_mutex_unlock(&r->mutex);
    return verdict;
}

dpt_status dpti_rendezvous_meet(dpti_rendezvous *rendezvous, size_t rank, dpt_status mine)
{
    dpti_rendezvous_come(rendezvous, rank, mine);
    return dpti_rendezvous_wait(rendezvous, rank);
}
