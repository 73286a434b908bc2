/* The files of this folder are compiled once for each instruction set.  KERNEL(name) gives the
   symbols of each compilation different names.  The build defines DPT_CPU_ISA. */
#ifndef DPT_CPU_NAMESPACE_H
#define DPT_CPU_NAMESPACE_H

#define DPT_CPU_JOIN_TOKENS(isa, name) dpt_cpu_##isa##_##name
#define DPT_CPU_JOIN(isa, name)        DPT_CPU_JOIN_TOKENS(isa, name)
#define KERNEL(name)                   DPT_CPU_JOIN(DPT_CPU_ISA, name)

#endif
