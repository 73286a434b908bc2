/* Shows that a ThreadSanitizer build reports races while OpenMP teams run, and reports none if
   there is none.  Two host threads lead one team each, as CPU devices do.

   planted_race clean      nothing to report
   planted_race team       two members of one team write one place
   planted_race leaders    the two host threads write one place */
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { ROUNDS = 50, THREADS = 2 };

typedef struct plan {
    int team_races, leaders_race;
    int *shared; /* of both leaders */
} plan;

/* Every member adds to its own place, and to one that is everyone's if a race is wanted. */
static long run_team(const plan *p)
{
    long own[THREADS] = {0}, everyone = 0;
#pragma omp parallel num_threads(THREADS)
    {
        const int thread = omp_get_thread_num();
        for (int i = 0; i < ROUNDS; i++) {
            own[thread]++;
            if (p->team_races) everyone++;
#pragma omp barrier
            own[(thread + 1) % THREADS]++; /* safe: a barrier stands on either side */
#pragma omp barrier
        }
    }
    return own[0] + own[1] + everyone;
}

static void *lead(void *argument)
{
    const plan *p = argument;
    for (int i = 0; i < ROUNDS; i++) {
        if (run_team(p) < 4L * ROUNDS) puts("teams are smaller than they should be");
        if (p->leaders_race) ++*p->shared;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int shared = 0;
    const char *mode = argc == 2 ? argv[1] : "";
    plan p = {
        .team_races = strcmp(mode, "team") == 0,
        .leaders_race = strcmp(mode, "leaders") == 0,
        .shared = &shared,
    };
    if (!p.team_races && !p.leaders_race && strcmp(mode, "clean") != 0) {
        fputs("usage: planted_race clean|team|leaders\n", stderr);
        return 2;
    }
    pthread_t other;
    if (pthread_create(&other, NULL, lead, &p) != 0) return 2;
    lead(&p);
    pthread_join(other, NULL);
    puts("done");
    return 0;
}
