# cmake --install: the command, the library with its SONAME, the public headers, the plug-ins, what
# pkg-config and find_package(dptrain) need, and the documentation.
#
# Every file belongs to a component, of which cmake/packages.cmake and pyproject.toml choose:
#
#     command      the program
#     library      libdptrain
#     cpu, opencl, cuda, tcp, mpi    each plug-in, with what the plug-in starts
#     development  what a program is built with that uses the library
#     documents    the documentation, and all that names no component, such as manual pages
#     licence      the licence, which packages have in a form of their own
include(CMakePackageConfigHelpers)

install(TARGETS dptrain-cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT command)
install(TARGETS dptrain EXPORT dptrainTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  COMPONENT library NAMELINK_COMPONENT development)
install(FILES core/dptrain.h core/dpt_types.h models/dptrain_models.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
install(DIRECTORY core/dptrain DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development
  FILES_MATCHING PATTERN "*.h")

# What the help, messages and the headers refer to: docs/NAME.md.
install(FILES README.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT documents)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT licence)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT documents)
install(DIRECTORY bench/results DESTINATION ${CMAKE_INSTALL_DOCDIR}/bench COMPONENT documents)
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT documents
  FILES_MATCHING PATTERN "*.c")

# Every folder of backends/ makes one target of its name.  The library finds plug-ins beside itself.
set(backends "")
foreach(list IN LISTS backend_lists)
  cmake_path(GET list PARENT_PATH folder)
  cmake_path(GET folder FILENAME name)
  if(TARGET dptrain-${name})
    install(TARGETS dptrain-${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/dptrain COMPONENT ${name})
    list(APPEND backends ${name})
  endif()
endforeach()

# What a plug-in starts lies beside it.
if(TARGET dptrain-opencl-compile)
  install(TARGETS dptrain-opencl-compile RUNTIME DESTINATION ${CMAKE_INSTALL_LIBDIR}/dptrain
    COMPONENT opencl)
endif()

# It needs no more than the library does: packages have it with the library.
if(TARGET dptrain-tcp)
  install(TARGETS dptrain-tcp LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/dptrain/transports COMPONENT tcp)
endif()
if(TARGET dptrain-mpi)
  install(TARGETS dptrain-mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/dptrain/transports COMPONENT mpi)
endif()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/dptrain)
install(EXPORT dptrainTargets NAMESPACE dptrain:: DESTINATION ${package_dir} COMPONENT development)
configure_package_config_file(cmake/dptrainConfig.cmake.in
  ${PROJECT_BINARY_DIR}/dptrainConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/dptrainConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/dptrainConfig.cmake
              ${PROJECT_BINARY_DIR}/dptrainConfigVersion.cmake
        DESTINATION ${package_dir} COMPONENT development)

# Relative to the file itself where it can be, so that an installation can be moved.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  set(pc_prefix ${CMAKE_INSTALL_PREFIX})
  set(pc_libdir ${CMAKE_INSTALL_FULL_LIBDIR})
  set(pc_includedir ${CMAKE_INSTALL_FULL_INCLUDEDIR})
else()
  file(RELATIVE_PATH pc_up /root/${CMAKE_INSTALL_LIBDIR}/pkgconfig /root)
  string(REGEX REPLACE "/$" "" pc_up ${pc_up})
  set(pc_prefix "\${pcfiledir}/${pc_up}")
  set(pc_libdir "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
  set(pc_includedir "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
configure_file(cmake/dptrain.pc.in ${PROJECT_BINARY_DIR}/dptrain.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/dptrain.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
  COMPONENT development)
