/* The measured peak rates of this machine's cores: multiply-adds without memory access, and memory
   access without arithmetic. */
#ifndef DPT_BENCH_PEAK_H
#define DPT_BENCH_PEAK_H

/* Floating-point operations a second of n_threads threads that do independent fused multiply-adds
   in registers, with the widest vectors that the compiler's -march=native gives. */
double peak_flops(unsigned n_threads);

/* Bytes a second that n_threads threads read and write in y = a * x over arrays that no cache
   holds. */
double peak_bandwidth(unsigned n_threads);

#endif
