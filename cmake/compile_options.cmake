# How everything is compiled. Targets get it by linking to mrb_options.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

option(MRB_WARNINGS_AS_ERRORS "Stop at the first warning" OFF)
option(MRB_SANITIZE "Build with the address and undefined-behaviour sanitizers" OFF)
set(MRB_MARCH "native" CACHE STRING
    "Processor to compile for (-march). Name one, for example x86-64-v3, when the binary runs elsewhere")

add_library(mrb_options INTERFACE)
target_include_directories(mrb_options INTERFACE ${CMAKE_SOURCE_DIR}/src)
target_compile_options(mrb_options INTERFACE -Wall -Wextra -Wshadow
  -Wno-missing-field-initializers  # structs are filled by name, what is left out has its default
  -march=${MRB_MARCH})
if(MRB_WARNINGS_AS_ERRORS)
  target_compile_options(mrb_options INTERFACE -Werror)
endif()
if(MRB_SANITIZE)
  target_compile_options(mrb_options INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=all
    -fno-omit-frame-pointer -O1 -g1  # -g doubles the time to compile, and reports need no more than lines
    -Wno-maybe-uninitialized)  # g++ sees ghosts in instrumented code of the standard library
  target_link_options(mrb_options INTERFACE -fsanitize=address,undefined)
endif()

# mrb_runs_once(TARGET [APART]): its code runs once a run, so the compiler's time is what counts. It is hardly optimised,
# and compiled several files at a time, for what CLI11 and json.hpp bring takes longer than all the rest. APART: no two
# files in one compilation, because each has helpers of the same names.
# A file of its own for each while you work on one: -DMRB_BATCHES=OFF
option(MRB_BATCHES "Compile what runs once a run several files at a time" ON)
function(mrb_runs_once target)
  target_compile_options(${target} PRIVATE $<IF:$<CONFIG:Debug>,-O0,-O1>)
  if(MRB_BATCHES AND NOT "APART" IN_LIST ARGN)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  endif()
endfunction()

find_program(MRB_CCACHE ccache)
if(MRB_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${MRB_CCACHE})
endif()
