# What `cmake --install` puts under the prefix.
#
#   component programs   bin/attnd bin/attnctl
#   component dev        lib/libattnd_*.a, include/attnd/, the .proto files,
#                        find_package(attnd) -> attnd::client, attnd-client.pc,
#                        share/attnd/service_config.json for other gRPC clients
#
# include/attnd/ is the include root of a consumer, as the repository is ours:
# #include "client/client.h", #include "attnd/v1/attention.pb.h".
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(ATTND_INSTALL_INCLUDEDIR ${CMAKE_INSTALL_INCLUDEDIR}/attnd)
set(ATTND_INSTALL_CMAKEDIR ${CMAKE_INSTALL_LIBDIR}/cmake/attnd)
set(ATTND_INSTALL_PROTODIR ${CMAKE_INSTALL_DATADIR}/attnd/proto)

install(TARGETS attnd attnctl
        RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT programs)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/proto/
        DESTINATION ${ATTND_INSTALL_PROTODIR} COMPONENT dev
        FILES_MATCHING PATTERN "*.proto")

install(FILES ${PROJECT_SOURCE_DIR}/client/service_config.json
        DESTINATION ${CMAKE_INSTALL_DATADIR}/attnd COMPONENT dev)

# The headers of both libraries, each under its path from the repository or from
# the folder of generated code.
get_target_property(roots attnd_proto INCLUDE_DIRECTORIES)
foreach(target IN ITEMS attnd_client attnd_proto)
  get_target_property(sources ${target} SOURCES)
  get_target_property(folder ${target} SOURCE_DIR)
  list(FILTER sources INCLUDE REGEX "\\.h$")
  foreach(header IN LISTS sources)
    cmake_path(ABSOLUTE_PATH header BASE_DIRECTORY ${folder} NORMALIZE)
    set(place "")
    foreach(root IN LISTS roots ITEMS ${PROJECT_SOURCE_DIR})
      string(REGEX REPLACE "^\\$<BUILD_INTERFACE:(.*)>$" "\\1" root "${root}")
      cmake_path(IS_PREFIX root ${header} NORMALIZE below)
      if(below AND place STREQUAL "")
        cmake_path(RELATIVE_PATH header BASE_DIRECTORY ${root}
                   OUTPUT_VARIABLE place)
        cmake_path(GET place PARENT_PATH place)
      endif()
    endforeach()
    install(FILES ${header} COMPONENT dev
            DESTINATION ${ATTND_INSTALL_INCLUDEDIR}/${place})
  endforeach()
endforeach()

target_compile_features(attnd_client PUBLIC cxx_std_20)
set_target_properties(attnd_client PROPERTIES EXPORT_NAME client)
set_target_properties(attnd_proto PROPERTIES EXPORT_NAME proto)
set_target_properties(attnd_version PROPERTIES EXPORT_NAME version)
install(TARGETS attnd_client attnd_proto attnd_version EXPORT attnd
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev
        INCLUDES DESTINATION ${ATTND_INSTALL_INCLUDEDIR})
install(EXPORT attnd NAMESPACE attnd:: FILE attndTargets.cmake
        DESTINATION ${ATTND_INSTALL_CMAKEDIR} COMPONENT dev)

configure_package_config_file(
  ${CMAKE_CURRENT_LIST_DIR}/attndConfig.cmake.in
  ${PROJECT_BINARY_DIR}/package/attndConfig.cmake
  INSTALL_DESTINATION ${ATTND_INSTALL_CMAKEDIR}
  PATH_VARS ATTND_INSTALL_PROTODIR)
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/package/attndConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/package/attndConfig.cmake
              ${PROJECT_BINARY_DIR}/package/attndConfigVersion.cmake
        DESTINATION ${ATTND_INSTALL_CMAKEDIR} COMPONENT dev)

# Relative, so that `cmake --install --prefix` can choose another place.
cmake_path(RELATIVE_PATH PROJECT_BINARY_DIR
           BASE_DIRECTORY ${PROJECT_BINARY_DIR}/${CMAKE_INSTALL_LIBDIR}/pkgconfig
           OUTPUT_VARIABLE prefix_from_pc)
configure_file(${CMAKE_CURRENT_LIST_DIR}/attnd-client.pc.in
               ${PROJECT_BINARY_DIR}/package/attnd-client.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/package/attnd-client.pc
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
