# Debian packages, which `cpack` makes of the components of cmake/install.cmake; scripts/deb.sh builds and checks
# them.  Every package has its version from the project and the release of Debian that it is built on, because
# the libraries that a package depends on have other names in another release.
find_program(DPTRAIN_DPKG_DEB dpkg-deb)
find_program(DPTRAIN_GZIP gzip)
mark_as_advanced(DPTRAIN_DPKG_DEB DPTRAIN_GZIP)
if(NOT DPTRAIN_DPKG_DEB OR NOT DPTRAIN_GZIP)
  return()
endif()
set(DPTRAIN_MAINTAINER "The dptrain authors <dptrain@packages.invalid>" CACHE STRING
  "Name and address of whoever builds Debian packages")

# As in 0.2.0+deb12, so that the package of a later release of Debian counts as newer.
set(suffix "")
if(EXISTS /etc/os-release)
  file(STRINGS /etc/os-release release REGEX "^(ID|VERSION_ID)=")
  string(REGEX REPLACE "[^a-z0-9.;=A-Z_]" "" release "${release}")
  if(release MATCHES "(^|;)ID=([a-z]+)" AND CMAKE_MATCH_2 STREQUAL "debian" AND release MATCHES "VERSION_ID=([0-9.]+)")
    set(suffix +deb${CMAKE_MATCH_1})
  elseif(release MATCHES "VERSION_ID=([0-9.]+)")
    set(version ${CMAKE_MATCH_1})
    string(REGEX MATCH "(^|;)ID=([a-z]+)" found "${release}")
    set(suffix +${CMAKE_MATCH_2}${version})
  endif()
endif()
set(package_version ${PROJECT_VERSION}${suffix})

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME dptrain)
set(CPACK_PACKAGE_VENDOR "the dptrain authors")
set(CPACK_PACKAGE_CONTACT ${DPTRAIN_MAINTAINER})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "") # each package has its own
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_DEBIAN_PACKAGE_VERSION ${package_version})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/lib)
set(CPACK_DEBIAN_PACKAGE_SECTION science)

# What every package has: the licence as Debian wants it, and a list of changes, which is packed with gzip.
string(TIMESTAMP package_date "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(STRINGS LICENSE licence_lines)
list(SUBLIST licence_lines 1 -1 licence_lines)
set(package_licence "")
foreach(line IN LISTS licence_lines)
  if(line MATCHES "^Copyright \\(c\\) (.*)$")
    set(package_holder ${CMAKE_MATCH_1})
  elseif(line STREQUAL "" AND package_licence STREQUAL "")
  elseif(line STREQUAL "")
    string(APPEND package_licence " .\n")
  else()
    string(APPEND package_licence " ${line}\n")
  endif()
endforeach()
set(package_folder ${PROJECT_BINARY_DIR}/deb)
configure_file(cmake/packages/changelog.in ${package_folder}/changelog @ONLY)
execute_process(COMMAND ${DPTRAIN_GZIP} -9nc ${package_folder}/changelog
  OUTPUT_FILE ${package_folder}/changelog.gz COMMAND_ERROR_IS_FATAL ANY)

# dptrain_package(NAME GROUP COMPONENTS...): the package NAME is the group of these components.  Its description
# is the file of its name.  A component that this build has not is left out; without any there is no package.
set(CPACK_COMPONENTS_ALL "")
macro(dptrain_package name group)
  string(TOUPPER ${group} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name})
  set(CPACK_COMPONENT_GROUP_${upper}_DISPLAY_NAME ${name})
  file(READ cmake/packages/${name}.txt CPACK_DEBIAN_${upper}_DESCRIPTION)
  string(STRIP "${CPACK_DEBIAN_${upper}_DESCRIPTION}" CPACK_DEBIAN_${upper}_DESCRIPTION)
  set(package_remark "")
  if(EXISTS ${PROJECT_SOURCE_DIR}/cmake/packages/${name}.copyright)
    file(READ cmake/packages/${name}.copyright package_remark)
  endif()
  configure_file(cmake/packages/copyright.in ${package_folder}/${name}/copyright @ONLY)
  set(components ${ARGN})
  foreach(component IN LISTS components)
    string(TOUPPER ${component} upper)
    set(CPACK_COMPONENT_${upper}_GROUP ${group})
    list(APPEND CPACK_COMPONENTS_ALL ${component})
  endforeach()
  list(GET components 0 component)
  # Not in `cmake --install` without --component.
  install(FILES ${package_folder}/${name}/copyright ${package_folder}/changelog.gz
    DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${name} COMPONENT ${component} EXCLUDE_FROM_ALL)
endmacro()

set(same_version "(= ${package_version})")

dptrain_package(dptrain program command documents)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS "libdptrain0 ${same_version}")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS "dptrain-backend-opencl, dataset-fashion-mnist")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS "dptrain-backend-cuda, dptrain-mpi")

if("cpu" IN_LIST backends)
  dptrain_package(libdptrain0 shared library cpu)
else()
  dptrain_package(libdptrain0 shared library)
endif()
set(CPACK_DEBIAN_SHARED_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_SHARED_PACKAGE_RECOMMENDS "libopenblas0-pthread | libopenblas0-openmp")
set(CPACK_DEBIAN_SHARED_PACKAGE_SUGGESTS "dptrain-backend-opencl, dptrain-backend-cuda, dptrain-mpi")
# What a program depends on that is linked with the library: before version 1 another minor version may have
# another API, and then another SONAME.
math(EXPR next_minor "${PROJECT_VERSION_MINOR} + 1")
set(soname_version ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
file(WRITE ${package_folder}/shlibs "libdptrain ${soname_version} libdptrain0 (>= ${soname_version}), libdptrain0 (<< ${PROJECT_VERSION_MAJOR}.${next_minor}~)\n")
file(WRITE ${package_folder}/triggers "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_SHARED_PACKAGE_CONTROL_EXTRA ${package_folder}/shlibs ${package_folder}/triggers)
configure_file(cmake/packages/libdptrain0.lintian ${package_folder}/libdptrain0/lintian/libdptrain0 COPYONLY)
install(FILES ${package_folder}/libdptrain0/lintian/libdptrain0
  DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides COMPONENT library EXCLUDE_FROM_ALL)

dptrain_package(libdptrain-dev headers development)
set(CPACK_DEBIAN_HEADERS_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_HEADERS_PACKAGE_DEPENDS "libdptrain0 ${same_version}")
set(CPACK_DEBIAN_HEADERS_PACKAGE_SUGGESTS "dptrain")

if("opencl" IN_LIST backends)
  dptrain_package(dptrain-backend-opencl cl opencl)
  set(CPACK_DEBIAN_CL_PACKAGE_DEPENDS "libdptrain0 ${same_version}")
  set(CPACK_DEBIAN_CL_PACKAGE_RECOMMENDS "libclblast1")
  set(CPACK_DEBIAN_CL_PACKAGE_SUGGESTS "pocl-opencl-icd | opencl-icd")
endif()

if("cuda" IN_LIST backends)
  dptrain_package(dptrain-backend-cuda cards cuda)
  set(CPACK_DEBIAN_CARDS_PACKAGE_SECTION contrib/science)
  set(CPACK_DEBIAN_CARDS_PACKAGE_DEPENDS "libdptrain0 ${same_version}")
  set(CPACK_DEBIAN_CARDS_PACKAGE_SUGGESTS "libcuda1, nvidia-cudnn")
endif()

if(TARGET dptrain-mpi)
  dptrain_package(dptrain-mpi processes mpi)
  set(CPACK_DEBIAN_PROCESSES_PACKAGE_DEPENDS "libdptrain0 ${same_version}")
  set(CPACK_DEBIAN_PROCESSES_PACKAGE_RECOMMENDS "openmpi-bin")
endif()

include(CPack)
