# The Python package, when scikit-build-core builds it (pyproject.toml): what lies in the folder of the package
# beside the Python files.
#
#     _lib/libdptrain.so    the library, under one name, because wheels have no links
#     _lib/dptrain/         the plug-ins, where the library looks for them
#     _bin/dptrain          the program, which the script `dptrain` of the Python environment starts
#     _declarations.py      the declarations of the library, made of its headers
if(NOT CMAKE_INSTALL_LIBDIR STREQUAL "_lib" OR NOT CMAKE_INSTALL_BINDIR STREQUAL "_bin")
  message(FATAL_ERROR "pyproject.toml and cmake/wheel.cmake name different folders")
endif()
# No other program is linked with this copy of the library.
set_property(TARGET dptrain PROPERTY VERSION)
set_property(TARGET dptrain PROPERTY SOVERSION)

# What the plug-in for cards opens at run time, it also finds in NVIDIA's packages of the same environment.
if(TARGET dptrain-cuda)
  set(folders cudnn cu13 cublas nccl)
  list(TRANSFORM folders REPLACE "(.+)" "$ORIGIN/../../../nvidia/\\1/lib")
  set_property(TARGET dptrain-cuda PROPERTY INSTALL_RPATH ${folders})
endif()

# python/CMakeLists.txt makes the declarations.
install(FILES ${PROJECT_BINARY_DIR}/python/dptrain/_declarations.py DESTINATION . COMPONENT python)
install(FILES python/_dptrain_command.py DESTINATION ${SKBUILD_PLATLIB_DIR} COMPONENT python)
