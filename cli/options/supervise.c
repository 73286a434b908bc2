/* The options of dptrain supervise. */
#include "table.h"

static const cli_option options[] = {
    {
        .group = "Supervision",
        .name = "processes",
        .argument = "N",
        .help =
            "the number of processes, which {processes} in the arguments of the launcher stands "
            "for. Not needed with -n N of mpirun, mpiexec or srun before the word dptrain",
        .verbs = CLI_SUPERVISE,
        .kind = CLI_COUNT,
        TARGET(processes),
        .min = 1,
        .max = 65536,
    },
    {
        .name = "hosts",
        .argument = "HOST[:SLOTS],...",
        .help = "the hosts, which {hosts} in the arguments of the launcher stands for, and {nodes} "
                "for their number. Those that no longer answer are left out",
        .verbs = CLI_SUPERVISE,
        .kind = CLI_TEXT,
        TARGET(hosts),
        .list = true,
    },
    {
        .name = "probe",
        .argument = "COMMAND",
        .help = "the shell command that succeeds within 5 seconds if the host $1 answers. Default: "
                "ssh, and srun for srun",
        .verbs = CLI_SUPERVISE,
        .kind = CLI_TEXT,
        TARGET(probe),
    },
    {
        .name = "least",
        .argument = "N",
        .help = "the job is not started again with fewer processes. Default: 1",
        .verbs = CLI_SUPERVISE,
        .kind = CLI_COUNT,
        TARGET(least),
        .min = 1,
        .max = 65536,
    },
    {
        .name = "memory",
        .argument = "DIR",
        .help = "a folder of a file system in memory, the same path on all hosts, where each host "
                "keeps a copy of the training state. Default: /dev/shm",
        .verbs = CLI_SUPERVISE,
        .kind = CLI_TEXT,
        TARGET(memory),
    },
};

const cli_option_part cli_options_of_supervise = CLI_PART(options);
