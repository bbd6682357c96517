# Installs a build and uses it as a stranger would: runs both programs, builds
# main.cc once with find_package and once with pkg-config, and runs both.
#
#   cmake -DBUILD=<build folder> -DVERSION=<x.y.z> -DCXX=<compiler>
#         -DCXX_FLAGS=<flags> -DLIBDIR=<lib> -P consumer_test.cmake
cmake_minimum_required(VERSION 3.25)

set(work ${BUILD}/consumer)
set(prefix ${work}/prefix)
set(source ${CMAKE_CURRENT_LIST_DIR})
file(REMOVE_RECURSE ${work})

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result
                  OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\nended with ${result}:\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})
foreach(program IN ITEMS attnd attnctl)
  run(${prefix}/bin/${program} --version)
  string(FIND "${output}" "${VERSION}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "${program} --version says: ${output}")
  endif()
endforeach()

run(${CMAKE_COMMAND} -S ${source} -B ${work}/cmake -G Ninja
    -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_CXX_COMPILER=${CXX}
    -DCMAKE_CXX_FLAGS=${CXX_FLAGS})
run(${CMAKE_COMMAND} --build ${work}/cmake)
run(${work}/cmake/consumer)
message(STATUS "find_package: ${output}")

set(ENV{PKG_CONFIG_PATH} ${prefix}/${LIBDIR}/pkgconfig)
run(pkg-config --modversion attnd-client)
if(NOT output MATCHES "^${VERSION}\n")
  message(FATAL_ERROR "pkg-config --modversion says: ${output}")
endif()
run(pkg-config --cflags --libs attnd-client)
separate_arguments(flags UNIX_COMMAND "${output}")
separate_arguments(more UNIX_COMMAND "${CXX_FLAGS}")
run(${CXX} -std=c++20 ${more} ${source}/main.cc -o ${work}/consumer ${flags})
run(${work}/consumer)
message(STATUS "pkg-config: ${output}")
