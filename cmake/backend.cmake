# mrb_library(FOLDER [FILES...] [LINK TARGETS...]): the static library mrb_<folder> of one folder of src/.
function(mrb_library folder)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_library(mrb_${folder} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(mrb_${folder} PUBLIC mrb_options ${ARG_LINK})
endfunction()

# mrb_backend(FOLDER FAMILY NAME FILE [NEEDS FEATURE])
#
# Compiles FILE into mrb_<folder> when FEATURE is on. Either way NAME goes into FAMILY's registry, so a name that
# was left out of this build gives an error that says which option brings it back.
function(mrb_backend folder family name file)
  cmake_parse_arguments(ARG "" "NEEDS" "" ${ARGN})
  if(NOT ARG_NEEDS OR MRB_HAS_${ARG_NEEDS})
    target_sources(mrb_${folder} PRIVATE ${file})
    if(ARG_NEEDS)
      target_link_libraries(mrb_${folder} PRIVATE mrb::${ARG_NEEDS})
    endif()
    set(line "MRB_BACKEND(${name})")
  else()
    set(line "MRB_MISSING(${name}, \"${ARG_NEEDS}\")")
  endif()
  set_property(TARGET mrb_${folder} APPEND_STRING PROPERTY MRB_REGISTRY_${family} "${line}\n")
endfunction()

# Writes the registry collected by mrb_backend() to generated/<family>_registry.inc.
function(mrb_write_registry folder family)
  get_target_property(lines mrb_${folder} MRB_REGISTRY_${family})
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/${family}_registry.inc CONTENT "${lines}" @ONLY)
  target_include_directories(mrb_${folder} PRIVATE ${CMAKE_BINARY_DIR}/generated)
endfunction()
