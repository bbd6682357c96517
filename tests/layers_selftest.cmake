# Feeds layers.cmake small trees, one per way of breaking a rule, and expects
# exactly that complaint.
#
#   cmake -DWORK=<scratch folder> -P tests/layers_selftest.cmake
cmake_minimum_required(VERSION 3.25)

set(failures "")

# check(name rule text FILES path content path content... [UNLISTED path...])
# rule: the one complaint expected, or "none".  text: what it must mention.
function(check name rule text)
  cmake_parse_arguments(PARSE_ARGV 3 arg "" "" "FILES;UNLISTED")
  set(root ${WORK}/${name})
  file(REMOVE_RECURSE ${root})
  # A tree that keeps all rules, so that only the planted fault can speak.
  set(tree
    proto/wire.h      "#include \"absl/status/status.h\""
    proto/wire.cc     "#include \"proto/wire.h\""
    kernels/tensor.h  "#include <vector>"
    kernels/gemm.h    "#include \"kernels/tensor.h\""
    kernels/gemm.cc   "#include <omp.h>\n#include <dnnl.hpp>\n#include \"kernels/gemm.h\""
    server/decode.cc  "#include \"kernels/gemm.h\"\n#include \"attnd/v1/a.pb.h\""
    server/metrics.h  "#include <prometheus/counter.h>"
    server/admin.cc   "#include \"server/metrics.h\""
    client/client.h   "#include \"proto/wire.h\"\n#include \"grpcpp/grpcpp.h\""
    tests/server/all_test.cc "#include \"client/client.h\"\n#include \"kernels/gemm.h\""
    tests/bench/floor.cc     "#include <dnnl.hpp>"
    ${arg_FILES})
  set(listed "")
  while(tree)
    list(POP_FRONT tree path content)
    file(WRITE ${root}/${path} "${content}\n")
    if(NOT path IN_LIST arg_UNLISTED)
      string(APPEND listed "${root}/${path}\n")
    endif()
  endwhile()
  file(WRITE ${root}/listed.txt "${listed}")
  execute_process(
    COMMAND ${CMAKE_COMMAND} -DROOT=${root} -DLISTED=${root}/listed.txt
            -P ${CMAKE_CURRENT_LIST_DIR}/layers.cmake
    RESULT_VARIABLE result OUTPUT_VARIABLE said ERROR_VARIABLE said)
  string(REGEX MATCHALL "\\[[a-z]+\\]" rules "${said}")
  list(REMOVE_DUPLICATES rules)
  set(fits OFF)
  string(FIND "${said}" "${text}" at)
  if(rule STREQUAL none)
    if(result EQUAL 0 AND rules STREQUAL "")
      set(fits ON)
    endif()
  elseif(NOT result EQUAL 0 AND rules STREQUAL "[${rule}]" AND at GREATER -1)
    set(fits ON)
  endif()
  if(NOT fits)
    list(APPEND failures "${name}: expected [${rule}] ${text}, got:\n${said}")
    set(failures "${failures}" PARENT_SCOPE)
  endif()
endfunction()

check(good none "")
check(proto-uses-kernels layer "proto/bad.h includes kernels/tensor.h"
      FILES proto/bad.h "#include \"kernels/tensor.h\"")
check(kernels-use-proto layer "kernels/bad.cc includes proto/wire.h"
      FILES kernels/bad.cc "#include \"proto/wire.h\"")
check(kernels-use-generated layer "kernels/bad.cc includes attnd/v1/a.pb.h"
      FILES kernels/bad.cc "#include \"attnd/v1/a.pb.h\"")
check(server-uses-client layer "server/bad.cc includes client/client.h"
      FILES server/bad.cc "  #  include <client/client.h>")
check(client-uses-kernels layer "client/bad.cc includes kernels/tensor.h"
      FILES client/bad.cc "#include \"kernels/tensor.h\"")
check(client-uses-server layer "client/deep/bad.cc includes server/metrics.h"
      FILES client/deep/bad.cc "#include \"server/metrics.h\"")
check(kernels-use-tests layer "kernels/bad.h includes tests/kernels/random.h"
      FILES kernels/bad.h "#include \"tests/kernels/random.h\"")
check(cycle-of-headers cycle "kernels/"
      FILES kernels/a.h "#include \"kernels/b.h\""
            kernels/b.h "#include \"kernels/c.h\""
            kernels/c.h "#include \"kernels/a.h\"")
check(source-in-no-target listed "client/bad.cc is in no target"
      FILES client/bad.cc "//" UNLISTED client/bad.cc)
check(header-in-no-target listed "kernels/bad.h is in no target"
      FILES kernels/bad.h "//" UNLISTED kernels/bad.h)
check(dnnl-outside-gemm seam "kernels/bad.cc includes dnnl.hpp"
      FILES kernels/bad.cc "#include <dnnl.hpp>")
check(dnnl-other-name seam "server/bad.cc includes oneapi/dnnl/dnnl.h"
      FILES server/bad.cc "#include <oneapi/dnnl/dnnl.h>")
check(omp-in-server seam "server/bad.cc includes omp.h"
      FILES server/bad.cc "#include <omp.h>")
check(omp-in-tests seam "tests/kernels/bad.cc includes omp.h"
      FILES tests/kernels/bad.cc "#include <omp.h>")
check(prometheus-elsewhere seam "server/bad.cc includes prometheus/gauge.h"
      FILES server/bad.cc "#include <prometheus/gauge.h>")
check(grpc-in-kernels seam "kernels/bad.cc includes grpcpp/grpcpp.h"
      FILES kernels/bad.cc "#include \"grpcpp/grpcpp.h\"")
check(protobuf-in-kernels seam
      "kernels/bad.cc includes google/protobuf/message.h"
      FILES kernels/bad.cc "#include \"google/protobuf/message.h\"")
check(not-from-the-root rooted "kernels/bad.cc includes tensor.h"
      FILES kernels/bad.cc "#include \"tensor.h\"")

if(failures)
  list(JOIN failures "\n" text)
  message(FATAL_ERROR "${text}")
endif()
