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

# Code that runs once a run: optimising what CLI11 and json.hpp bring takes longer than compiling all the rest.
add_library(mrb_runs_once INTERFACE)
target_compile_options(mrb_runs_once INTERFACE $<IF:$<CONFIG:Debug>,-O0,-O1>)

find_program(MRB_CCACHE ccache)
if(MRB_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${MRB_CCACHE})
endif()
