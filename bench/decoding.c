/* Times the reading of a folder of pictures into memory:

       bench-decoding NAME DIR RUNS       e.g.  bench-decoding folder:375x500 photos 5

   NAME is a data set as dpt_dataset_open takes it.  Prints the number of pictures in the training
   part and, for each run, the seconds that opening takes: listing, decoding and scaling all
   pictures on the threads that dpt_dataset_open starts. */
#include <dptrain.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(int argc, char **argv)
{
    dpt_context *context = NULL;
    dpt_status status = argc == 4 ? dpt_context_create(&context) : DPT_E_INVALID;
    if (argc != 4) fprintf(stderr, "usage: bench-decoding NAME DIR RUNS\n");
    for (long run = 0; status == DPT_OK && run < strtol(argv[3], NULL, 10); run++) {
        dpt_dataset *data = NULL;
        dpt_dataset_info info = {.size = sizeof info};
        const double start = seconds();
        status = dpt_dataset_open(context, argv[1], argv[2], DPT_TRAIN, &data);
        const double took = seconds() - start;
        if (status == DPT_OK) dpt_dataset_describe(data, &info);
        if (status == DPT_OK) printf("%zu %.6f\n", info.count, took);
        dpt_dataset_destroy(data);
    }
    if (status != DPT_OK && context)
        fprintf(stderr, "bench-decoding: %s\n", dpt_error_message(context));
    dpt_context_destroy(context);
    return status == DPT_OK ? 0 : 1;
}
