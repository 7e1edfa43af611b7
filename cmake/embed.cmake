# mrb_embed(FOLDER NAME FILES...): the text of the files, one behind the other with a line `---` between them, as
# `extern const char* const NAME` in mrb_<folder>. So the program needs no folder of ours where it runs.
function(mrb_embed folder name)
  set(text "")
  foreach(file IN LISTS ARGN)
    get_filename_component(path ${file} ABSOLUTE)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${path})
    file(READ ${path} one)
    string(APPEND text "---\n${one}")
  endforeach()
  set(cpp ${CMAKE_BINARY_DIR}/generated/${name}.cpp)
  file(CONFIGURE OUTPUT ${cpp} @ONLY CONTENT
"namespace mrb {
extern const char* const ${name};
const char* const ${name} = R\"mrb(@text@)mrb\";
}  // namespace mrb
")
  target_sources(mrb_${folder} PRIVATE ${cpp})
endfunction()
