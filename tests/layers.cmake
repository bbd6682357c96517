# Checks that the layers of the code are what the documents say.
#
#   cmake -DROOT=<repository> -DLISTED=<file> -P tests/layers.cmake
#
# ROOT    the tree whose proto/ kernels/ server/ client/ deploy/ tests/ are read
# LISTED  a text file with the sources of all targets, absolute paths, one a
#         line (tests/CMakeLists.txt writes it)
#
# Rules (the name in brackets starts each complaint):
#   [layer]    proto and kernels include no other folder; server may include
#              proto and kernels; client may include proto; tests everything.
#              A generated *.pb.h belongs to proto.
#   [cycle]    no header reaches itself. A source may include headers that
#              include its own: a large part is written as several files.
#   [listed]   every .h and .cc outside tests is a source of some target.
#   [seam]     dnnl and omp.h stay in kernels/gemm.cc and tests/bench;
#              prometheus in server/metrics.*;
#              gRPC and protobuf outside kernels.
#   [rooted]   our own headers are included by their path from ROOT.
cmake_minimum_required(VERSION 3.25)

set(may_include_proto   proto)
set(may_include_kernels kernels)
set(may_include_server  server proto kernels)
set(may_include_client  client proto)
set(may_include_tests   tests server client proto kernels)
set(folders proto kernels server client tests)

set(complaints "")
function(complain rule text)
  list(APPEND complaints "[${rule}] ${text}")
  set(complaints "${complaints}" PARENT_SCOPE)
endfunction()

# ---- read the tree ----------------------------------------------------------

set(files "")
foreach(folder IN LISTS folders)
  file(GLOB_RECURSE found RELATIVE ${ROOT}
       ${ROOT}/${folder}/*.h ${ROOT}/${folder}/*.cc)
  list(APPEND files ${found})
endforeach()
# Projects of their own, which see only what is installed.
list(FILTER files EXCLUDE REGEX "^tests/consumer/")
if(NOT files)
  message(FATAL_ERROR "no sources under ${ROOT}")
endif()

set(listed "")
if(EXISTS ${LISTED})
  file(STRINGS ${LISTED} listed)
endif()

set(nodes "")
foreach(file IN LISTS files)
  string(REGEX MATCH "^[^/]+" folder ${file})
  cmake_path(REMOVE_EXTENSION file LAST_ONLY OUTPUT_VARIABLE node)
  cmake_path(GET file PARENT_PATH parent)
  list(APPEND nodes ${node})

  if(NOT folder STREQUAL tests AND NOT ${ROOT}/${file} IN_LIST listed)
    complain(listed "${file} is in no target")
  endif()

  file(STRINGS ${ROOT}/${file} lines REGEX "^[ \t]*#[ \t]*include[ \t]*[<\"]")
  foreach(line IN LISTS lines)
    if(NOT line MATCHES "include[ \t]*([<\"])([^>\"]+)[>\"]")
      continue()
    endif()
    set(quote "${CMAKE_MATCH_1}")
    set(header "${CMAKE_MATCH_2}")
    string(REGEX MATCH "^[^/]+" target "${header}")

    # Third-party headers that only one place may see.
    if(header MATCHES "^(dnnl[^/]*\\.hp*|oneapi/dnnl/.*|omp\\.h)$"
       AND NOT file STREQUAL "kernels/gemm.cc"
       AND NOT file MATCHES "^tests/bench/")
      complain(seam "${file} includes ${header}; only kernels/gemm.cc may")
    elseif(header MATCHES "^prometheus/"
           AND NOT file MATCHES "^(tests/)?server/metrics[^/]*$")
      complain(seam "${file} includes ${header}; only server/metrics.* may")
    elseif(folder STREQUAL kernels
           AND header MATCHES "^(grpcpp|grpc|google/protobuf)/")
      complain(seam "${file} includes ${header}; kernels know no wire")
    endif()

    # Our own headers.
    if(header MATCHES "\\.pb\\.h$" AND NOT header MATCHES "^google/protobuf/")
      set(target proto)
    elseif(NOT target IN_LIST folders)
      if(quote STREQUAL "\"" AND EXISTS ${ROOT}/${parent}/${header})
        complain(rooted "${file} includes ${header}; write ${parent}/${header}")
      endif()
      continue()
    endif()
    if(NOT target IN_LIST may_include_${folder})
      complain(layer "${file} includes ${header}")
    endif()
    if(EXISTS ${ROOT}/${header})
      cmake_path(REMOVE_EXTENSION header LAST_ONLY OUTPUT_VARIABLE used)
      if(file MATCHES "\\.h$" AND NOT used STREQUAL node)
        list(APPEND uses_${node} ${used})
      endif()
    endif()
  endforeach()
endforeach()

# ---- cycles -----------------------------------------------------------------
# Take away, again and again, every node that uses only nodes already taken.
# What cannot be taken is on a cycle or uses one.

list(REMOVE_DUPLICATES nodes)
set(left ${nodes})
set(progress ON)
while(left AND progress)
  set(progress OFF)
  foreach(node IN LISTS left)
    set(free ON)
    foreach(used IN LISTS uses_${node})
      if(used IN_LIST left)
        set(free OFF)
        break()
      endif()
    endforeach()
    if(free)
      list(REMOVE_ITEM left ${node})
      set(progress ON)
    endif()
  endforeach()
endwhile()
if(left)
  # Walk until a node repeats, to name one cycle and not all that lead to it.
  list(GET left 0 node)
  set(path "")
  while(NOT node IN_LIST path)
    list(APPEND path ${node})
    foreach(used IN LISTS uses_${node})
      if(used IN_LIST left)
        set(node ${used})
        break()
      endif()
    endforeach()
  endwhile()
  list(FIND path ${node} start)
  list(SUBLIST path ${start} -1 path)
  list(JOIN path " -> " text)
  complain(cycle "${text} -> ${node}")
endif()

# ---- verdict ----------------------------------------------------------------

list(LENGTH files count)
if(complaints)
  list(REMOVE_DUPLICATES complaints)
  list(JOIN complaints "\n  " text)
  message(FATAL_ERROR "the layers are broken:\n  ${text}")
endif()
message(STATUS "${count} files keep the layers")
