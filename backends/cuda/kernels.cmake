# The list of this backend's kernels.  nvcc compiles them, and the host's compiler compiles them for
# emulated cards.  A name in this list is that of an object and of its table (kernels/table.h).
#
# For each object a file NAME.cu is written to the build folder.  It defines the object's macros and
# includes the source, so an object is compiled again when its line in this list changes.  The global
# property DPTRAIN_CUDA_KERNELS holds these files, and kernel_list.h holds their names, for C.

# cuda_kernel(NAME [OF SOURCE] [STORING] [DETERMINISTIC | ALSO_DETERMINISTIC] [SEPARATE_ROUNDING]
# [WITH MACRO=VALUE...]) lists kernels/NAME.cu, or kernels/SOURCE.cu.
#   STORING            the kernels read or write activations: compiles NAME_bf16, too (kernels/dialect.h)
#   ALSO_DETERMINISTIC deterministic operators use the kernels: compiles NAME_deterministic, too
#   DETERMINISTIC      only deterministic operators use the kernels
#   SEPARATE_ROUNDING  the kernels change the training state: no multiply-add is contracted
#   WITH               the macros of a variant; the source names those that are options (kernels/table.h)
function(cuda_kernel name)
  cmake_parse_arguments(PARSE_ARGV 1 kernel "STORING;DETERMINISTIC;ALSO_DETERMINISTIC;SEPARATE_ROUNDING"
    "OF" "WITH")
  if(kernel_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "cuda_kernel(${name}): ${kernel_UNPARSED_ARGUMENTS}?")
  endif()
  if(NOT kernel_OF)
    set(kernel_OF ${name})
  endif()
  if(kernel_DETERMINISTIC)
    cuda_object(${name} ${kernel_OF} TRUE ${kernel_WITH} DETERMINISTIC=1)
    return()
  endif()
  cuda_object(${name} ${kernel_OF} ${kernel_SEPARATE_ROUNDING} ${kernel_WITH})
  if(kernel_ALSO_DETERMINISTIC)
    cuda_object(${name}_deterministic ${kernel_OF} TRUE ${kernel_WITH} DETERMINISTIC=1)
  endif()
  if(kernel_STORING)
    cuda_object(${name}_bf16 ${kernel_OF} ${kernel_SEPARATE_ROUNDING} ${kernel_WITH} BF16=1)
  endif()
endfunction()

function(cuda_object name source separate_rounding)
  set(text "#define KERNEL_TABLE dpt_cuda_table_${name}\n")
  foreach(macro IN LISTS ARGN)
    string(REPLACE "=" " " macro ${macro})
    string(APPEND text "#define ${macro}\n")
  endforeach()
  string(APPEND text "#include \"${CMAKE_CURRENT_SOURCE_DIR}/kernels/${source}.cu\"\n")
  set(file ${CMAKE_CURRENT_BINARY_DIR}/kernels/${name}.cu)
  file(CONFIGURE OUTPUT ${file} CONTENT "${text}" @ONLY) # leaves what is the same alone
  set_property(SOURCE ${file} PROPERTY SEPARATE_ROUNDING ${separate_rounding})
  set_property(GLOBAL APPEND PROPERTY DPTRAIN_CUDA_KERNELS ${file})
  set_property(GLOBAL APPEND PROPERTY DPTRAIN_CUDA_SOURCES ${source})
endfunction()

cuda_kernel(activation STORING ALSO_DETERMINISTIC)
cuda_kernel(adamw ALSO_DETERMINISTIC SEPARATE_ROUNDING)
cuda_kernel(batch_norm STORING ALSO_DETERMINISTIC)
cuda_kernel(batch_norm_4 OF batch_norm STORING ALSO_DETERMINISTIC WITH WIDTH=4)
cuda_kernel(check_finite)
cuda_kernel(clip_norm)
cuda_kernel(clip_norm_fixed DETERMINISTIC)
cuda_kernel(column_sums STORING)
cuda_kernel(conv2d_few_3_1 OF conv2d_few STORING WITH KERNEL_SIZE=3 CHANNELS=1)
cuda_kernel(conv2d_few_3_3 OF conv2d_few STORING WITH KERNEL_SIZE=3 CHANNELS=3)
cuda_kernel(conv2d_few_5_1 OF conv2d_few STORING WITH KERNEL_SIZE=5 CHANNELS=1)
cuda_kernel(convert)
cuda_kernel(dropout STORING ALSO_DETERMINISTIC)
cuda_kernel(elementwise STORING ALSO_DETERMINISTIC SEPARATE_ROUNDING)
cuda_kernel(fill)
cuda_kernel(finish STORING)
cuda_kernel(gather STORING ALSO_DETERMINISTIC)
cuda_kernel(layer_norm STORING)
cuda_kernel(layer_norm_fixed DETERMINISTIC)
cuda_kernel(map ALSO_DETERMINISTIC)
cuda_kernel(map_reduce)
cuda_kernel(map_reduce_fixed DETERMINISTIC)
cuda_kernel(matmul_32 OF matmul STORING ALSO_DETERMINISTIC WITH TILE=32)
cuda_kernel(matmul_64 OF matmul STORING ALSO_DETERMINISTIC WITH TILE=64)
cuda_kernel(norm_fixed DETERMINISTIC)
cuda_kernel(peers)
cuda_kernel(pool2d STORING ALSO_DETERMINISTIC)
cuda_kernel(pool2d_2 OF pool2d STORING ALSO_DETERMINISTIC WITH POOL_KERNEL=2u POOL_STRIDE=2u POOL_PAD=0u)
cuda_kernel(pool2d_4 OF pool2d STORING WITH POOL_KERNEL=4u POOL_STRIDE=4u POOL_PAD=0u)
cuda_kernel(recurrent_1 OF recurrent STORING ALSO_DETERMINISTIC WITH GATES=1)
cuda_kernel(recurrent_2 OF recurrent STORING ALSO_DETERMINISTIC WITH GATES=2)
cuda_kernel(recurrent_3 OF recurrent STORING ALSO_DETERMINISTIC WITH GATES=3)
cuda_kernel(recurrent_4 OF recurrent STORING ALSO_DETERMINISTIC WITH GATES=4)
cuda_kernel(row_softmax STORING)
cuda_kernel(row_softmax_fixed DETERMINISTIC)
cuda_kernel(sgd ALSO_DETERMINISTIC SEPARATE_ROUNDING)
cuda_kernel(softmax STORING)
cuda_kernel(softmax_fixed DETERMINISTIC)
cuda_kernel(squared_error STORING)
cuda_kernel(squared_error_fixed DETERMINISTIC)
cuda_kernel(take STORING ALSO_DETERMINISTIC)
cuda_kernel(tree DETERMINISTIC)

# Winograd convolutions: F(2x2, 3x3), F(4x4, 3x3) and F(3x3, 5x5).
cuda_kernel(winograd_2_3 OF winograd_transform ALSO_DETERMINISTIC WITH TILE=2 TAPS=3)
cuda_kernel(winograd_4_3 OF winograd_transform ALSO_DETERMINISTIC WITH TILE=4 TAPS=3)
cuda_kernel(winograd_3_5 OF winograd_transform ALSO_DETERMINISTIC WITH TILE=3 TAPS=5)

# ---- Convolutions in tiles -----------------------------------------------------------------------

# The tiles of common/conv2d_local.c that are compiled, by their columns.
set(tile_local_64 TILE_M=64 TILE_N=64 TILE_K=16 REG_M=8 REG_N=4)
set(tile_local_32 TILE_M=64 TILE_N=32 TILE_K=16 REG_M=8 REG_N=4)
set(tile_local_16 TILE_M=64 TILE_N=16 TILE_K=16 REG_M=4 REG_N=4)
set(tile_tensor_64 TILE_M=64 TILE_N=64 TILE_K=16 REG_M=4 REG_N=8 TENSOR=1)
set(tile_tensor_32 TILE_M=64 TILE_N=32 TILE_K=16 REG_M=4 REG_N=4 TENSOR=1)

# The tiles of deterministic convolutions, by their rows and columns.
set(tile_chains_64x64 ${tile_local_64})
set(tile_chains_64x16 ${tile_local_16})
set(tile_chains_32x32 TILE_M=32 TILE_N=32 TILE_K=16 REG_M=4 REG_N=4)
set(tile_chains_16x16 TILE_M=16 TILE_N=16 TILE_K=32 REG_M=1 REG_N=1)

# cuda_tile(WAY PASS COLUMNS [STORING WIDTHS...] [PLAIN WIDTHS...] [DETERMINISTIC WIDTHS...]): 14 is for
# accesses of one element to what has the input's channels, and of four to what has the output's.
function(cuda_tile way pass columns)
  cmake_parse_arguments(PARSE_ARGV 3 widths "" "" "STORING;PLAIN;DETERMINISTIC")
  foreach(both IN LISTS widths_STORING widths_PLAIN widths_DETERMINISTIC)
    string(REGEX MATCH "^(.)(.)$" both ${both})
    set(in ${CMAKE_MATCH_1})
    set(out ${CMAKE_MATCH_2})
    if(pass STREQUAL "forward")
      set(accesses A_WIDTH=${in} B_WIDTH=${in} C_WIDTH=${out})
    else()
      set(accesses A_WIDTH=${out} B_WIDTH=${in} C_WIDTH=${in})
    endif()
    set(storing "")
    if(both IN_LIST widths_STORING)
      set(storing STORING)
    elseif(both IN_LIST widths_DETERMINISTIC)
      set(storing DETERMINISTIC)
    endif()
    cuda_kernel(conv2d_${way}_${pass}_${columns}_${both} OF conv2d_local ${storing}
      WITH PASS=${pass} ${tile_${way}_${columns}} ${accesses})
  endforeach()
endfunction()

cuda_tile(local forward 64 STORING 11 44 PLAIN 14 41)
cuda_tile(local forward 32 PLAIN 14)
cuda_tile(local data 64 STORING 11 44)
cuda_tile(local data 32 PLAIN 41 44)
cuda_tile(local weights 64 STORING 11 44 PLAIN 41)
cuda_tile(local weights 16 PLAIN 14)
cuda_tile(tensor forward 64 STORING 11 14 41 44)
cuda_tile(tensor forward 32 STORING 14 44)
cuda_tile(tensor data 64 STORING 11 44)
cuda_tile(tensor data 32 STORING 11 41 44)
cuda_tile(tensor weights 64 STORING 11 41 44)
cuda_tile(tensor weights 32 STORING 11 14 44)
foreach(pass IN ITEMS forward data weights)
  cuda_tile(chains ${pass} 64x64 DETERMINISTIC 11 44)
  cuda_tile(chains ${pass} 64x16 DETERMINISTIC 11)
  cuda_tile(chains ${pass} 32x32 DETERMINISTIC 11 44)
  cuda_tile(chains ${pass} 16x16 DETERMINISTIC 11 44)
endforeach()

# ---- Sources without a line ----------------------------------------------------------------------

file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/kernels/*.cu)
get_property(compiled GLOBAL PROPERTY DPTRAIN_CUDA_SOURCES)
foreach(source IN LISTS sources)
  cmake_path(GET source STEM name)
  if(NOT name IN_LIST compiled)
    message(FATAL_ERROR "${source} is compiled by nobody: kernels.cmake has no line for it")
  endif()
endforeach()

# ---- All of them, for C --------------------------------------------------------------------------

get_property(cuda_kernels GLOBAL PROPERTY DPTRAIN_CUDA_KERNELS)
set(text "/* What kernels.cmake has: X(name) for each table. */\n#define DPT_CUDA_TABLES(X)")
foreach(file IN LISTS cuda_kernels)
  cmake_path(GET file STEM name)
  string(APPEND text " \\\n    X(${name})")
endforeach()
file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/kernel_list.h CONTENT "${text}\n" @ONLY)
