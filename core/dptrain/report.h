/* What a trainer knows of its devices: memory, plans, operations, and reports of time.
   Part of the public API: programs include dptrain.h. */
#ifndef DPTRAIN_REPORT_H
#define DPTRAIN_REPORT_H

#include "dptrain/trainer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the bytes that one replica takes on device i, without the data; 0 if there is no device
   i.  Cannot fail. */
DPT_API size_t dpt_trainer_device_bytes(const dpt_trainer *trainer, size_t device);

/* The plan of a device for a full batch.  Byte counts are as the device allocates them.  For a
   device of another process only samples, micro_batch, cached and streamed are known; the other
   fields are 0. */
typedef struct dpt_device_plan {
    size_t size;            /* sizeof(dpt_device_plan), to be set before the call */
    size_t samples;         /* samples of the shard */
    size_t micro_batch;     /* samples that the device computes at once */
    bool cached;            /* micro_batch is limited by the device's caches, not by its memory */
    size_t parameter_bytes; /* parameters, and gradients: of the same size, unless sums of gradients
                               are in parts (dpt_trainer_options.shard); of its part, if parameters
                               are in parts */
    size_t optimizer_bytes; /* of its part, if the optimizer's state is in parts */
    size_t activation_bytes; /* the arena: activations, their gradients and workspaces, and
                                parameters that are gathered */
    size_t step_bytes; /* step block, indices, samples of the host feed, results of gradient checks,
                          and copies in host memory for functions of the program (callback.h) */
    size_t data_bytes; /* the device's own copy of the data; 0 if devices share the memory */
    bool streamed; /* the device's memory does not hold the data set: the samples are sent with each
                      step */
    double flops;  /* floating-point operations of a step */
    size_t exchange_bytes; /* bytes that the device sends in a step: gradients and batch-norm's
                              statistics */
    size_t gradient_bytes; /* bytes of the gradients of a step, which devices exchange if there are
                              several */
    size_t kept_bytes; /* of host memory: gradients between micro-batches, if sums of gradients are
                          in parts */
    double recomputed_flops; /* part of `flops`: of activations that the backward pass computes
                                again (dpt_trainer_options.recompute) */
    size_t gathered_bytes; /* if parameters are in parts: bytes of them that the host copies to the
                              device in each micro-batch */
    size_t update_bytes; /* if the optimizer's state is in parts: bytes that are copied in each step
                            behind the update: parameters of other parts from the host to the
                            device, and the device's own part to the host if the host does not see
                            the device's memory */
    size_t copy_bytes;   /* with dpt_trainer_options.offload, of a CPU: its part of the copy of the
                            training state in host memory, which counts as memory of the device */
    size_t mirror_bytes; /* if the optimizer's state is in parts: bytes of a copy of the training
                            state in host memory.  One process has one, each of several has two */
    size_t shared_bytes; /* if the optimizer's state is in parts: bytes of all parts that are
                            updated in a step, with the running statistics.  Each of several
                            processes sends its parts to every other one in each step */
} dpt_device_plan;

/* Computes the plan of a device.  Errors: DPT_E_INVALID if there is no such device or the replayed
   log has other batches; DPT_E_NO_MEMORY. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_plan(dpt_trainer *trainer, size_t device,
                                                     dpt_device_plan *out);

/* A combination of options that DPT_SHARD_AUTO has tried. */
typedef struct dpt_candidate {
    size_t size; /* sizeof(dpt_candidate), to be set before the call */
    dpt_shard shard;
    bool offload;
    dpt_recompute recompute;
    const char *options; /* the same as options of the command line: "--shard optimizer"; "--shard
                            none" if nothing is saved */
    bool fits;           /* it was chosen; it is the last one */
    /* If it does not fit: the device that lacks most memory, the least memory of that device with
       which it would fit, and what the device has.  If several devices lack memory, each is taken
       to have the least that it needs.  The number of devices and 0 if that is not known. */
    size_t device, need_bytes, limit_bytes;
} dpt_candidate;

/* Returns how many combinations DPT_SHARD_AUTO has tried, the cheapest first; 0 without
   DPT_SHARD_AUTO.  Cannot fail. */
DPT_API size_t dpt_trainer_candidate_count(const dpt_trainer *trainer);
/* Describes one of them.  Errors: DPT_E_INVALID if there is no such one. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_candidate(const dpt_trainer *trainer,
                                                          size_t candidate, dpt_candidate *out);

/* Returns the bytes of host memory that each process uses for the error feedback of compressed
   exchanges; 0 if dpt_trainer_options.compress is DPT_COMPRESS_NONE or there is one process.  A
   checkpoint stores at most half as many bytes for each process.  Process 0 also needs that much
   memory while it keeps checkpoints or a host copy.  Cannot fail. */
DPT_API size_t dpt_trainer_feedback_bytes(const dpt_trainer *trainer);

/* Returns the bytes of the gradients of a step as they travel between processes; of factors, with
   DPT_COMPRESS_LOWRANK.  Each of P processes sends 2 (P - 1) / P times as many.  Cannot fail; 0 if
   memory is short. */
DPT_API size_t dpt_trainer_gradient_bytes(const dpt_trainer *trainer);

/* What rounds of local steps take in each of several processes. */
typedef struct dpt_round_plan {
    size_t size;           /* sizeof(dpt_round_plan), to be set before the call */
    size_t exchange_bytes; /* what the processes sum at the end of a round, in the format in which
                              it travels */
    size_t host_bytes;     /* host memory that a process keeps for rounds, without that of
                              dpt_trainer_feedback_bytes */
    size_t end_bytes;      /* more host memory of a process at the end of a round */
    size_t largest_bytes;  /* of exchange_bytes, what travels at a time: the largest fragment with
                              outer fragments, else all */
} dpt_round_plan;

/* Plans a training over several processes with `options`, as dpt_trainer_create takes them.  The
   trainer was made in one process, with the same model, data and options but for those of local
   steps: a trainer in one process takes no local steps.  All numbers are 0 if no round is taken:
   local_steps is 0, or 1 and the same as the synchronous step.  Errors: DPT_E_INVALID if
   dpt_trainer_create in several processes would refuse the options for their local steps. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_plan_rounds(dpt_trainer *trainer,
                                                            const dpt_trainer_options *options,
                                                            dpt_round_plan *out);

/* How a device computes one operation of the training step.  Valid until the trainer is destroyed.
 */
typedef struct dpt_operation {
    size_t size;       /* sizeof(dpt_operation), to be set before the call */
    const char *layer; /* name of the layer */
    const char *kind;  /* "CONV2D_FORWARD"; a layer may have several of one kind */
    const char
        *algorithm; /* the algorithm that the device has chosen, by the name that the log records */
    const char *measured; /* measured times of the candidates, the fastest first; "" if unknown */
} dpt_operation;

/* Returns the number of operations of the training step on device i; 0 if there is no device i, or
   if it belongs to another process.  Operations are numbered in the order of execution.  Cannot
   fail. */
DPT_API size_t dpt_trainer_operation_count(const dpt_trainer *trainer, size_t device);
/* Describes an operation.  Errors: DPT_E_INVALID if there is no such device or operation. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_operation(const dpt_trainer *trainer, size_t device,
                                                          size_t operation, dpt_operation *out);

/* What a device has done in the collected steps of this trainer.  A step in which some device has
   samples for the first time is left out, because memory is touched and kernels are loaded in it,
   which may take longer than all other steps. */
typedef struct dpt_device_report {
    size_t size;           /* sizeof(dpt_device_report), to be set before the call */
    size_t samples, steps; /* samples trained; steps in which the device had samples */
    double busy_seconds;   /* sums of the values in dpt_step_metrics */
    double exchange_seconds, waiting_seconds;
    double throughput; /* samples per second of busy time: the rate that the device would reach with
                          these shards if it never waited */
    double alone_throughput; /* modelled samples per second if the device had every batch alone,
                                without exchanges, at its mean speed; 0 until the device has had
                                samples twice */
} dpt_device_report;

/* What all devices together have done in the same steps.  A quotient whose divisor is 0 is 0. */
typedef struct dpt_mix_report {
    size_t size; /* sizeof(dpt_mix_report), to be set before the call */
    size_t steps, samples;
    double seconds;    /* time of the steps from start to end, without data_seconds */
    double throughput; /* samples per second */
    double balance; /* `throughput` divided by the sum of the devices' `throughput`: at most about
                       1; less if devices wait */
    double scaling; /* `throughput` divided by the sum of the devices' `alone_throughput`: less than
                       `balance`, because every device has the fixed costs of a step */
} dpt_mix_report;

/* Return the report of one device and of all devices, with any split.  Errors: DPT_E_INVALID if
   there is no such device; DPT_E_NO_MEMORY. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_device_report(const dpt_trainer *trainer,
                                                              size_t device,
                                                              dpt_device_report *out);
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_mix_report(const dpt_trainer *trainer,
                                                           dpt_mix_report *out);

#ifdef __cplusplus
}
#endif

#endif
