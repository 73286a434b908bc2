/* Times Open MPI's own MPI_Allreduce in the same way as `dptrain bench allreduce` times ours
   (bench/allreduce.py). */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 400, LEAST = 9, WARM = 2, WORKED_BYTES = 1 << 28 };

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double time_size(size_t n_bytes)
{
    static double seconds[MOST];
    size_t n = WORKED_BYTES / n_bytes;
    float *data = calloc(n_bytes, 1);
    if (!data) MPI_Abort(MPI_COMM_WORLD, 1);
    n = n > MOST ? MOST : n < LEAST ? LEAST : n;
    for (size_t i = 0; i < WARM + n; i++) {
        const double began = MPI_Wtime();
        MPI_Allreduce(MPI_IN_PLACE, data, (int)(n_bytes / sizeof *data), MPI_FLOAT, MPI_SUM,
                      MPI_COMM_WORLD);
        if (i >= WARM) seconds[i - WARM] = MPI_Wtime() - began;
    }
    free(data);
    qsort(seconds, n, sizeof *seconds, compare);
    return seconds[n / 2];
}

int main(int argc, char **argv)
{
    int rank = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 1; i < argc; i++) {
        const double seconds = time_size(strtoull(argv[i], NULL, 10));
        if (rank == 0) printf("%s %.9f\n", argv[i], seconds);
    }
    MPI_Finalize();
    return 0;
}
