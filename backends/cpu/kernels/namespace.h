/* The files of this folder are compiled once for every instruction set.  KERNEL(name) gives each
   compilation's symbols their own names; DPT_CPU_ISA comes from the build. */
#ifndef DPT_CPU_NAMESPACE_H
#define DPT_CPU_NAMESPACE_H

#define DPT_CPU_JOIN_TOKENS(isa, name) dpt_cpu_##isa##_##name
#define DPT_CPU_JOIN(isa, name)        DPT_CPU_JOIN_TOKENS(isa, name)
#define KERNEL(name)                   DPT_CPU_JOIN(DPT_CPU_ISA, name)

#endif
