# Writes generated/git_commit.inc, the commit this tree was at, on every build and only when it changed.
add_custom_target(mrb_git_commit
  COMMAND ${CMAKE_COMMAND} -DSOURCE_DIR=${CMAKE_SOURCE_DIR}
          -DOUTPUT=${CMAKE_BINARY_DIR}/generated/git_commit.inc -P ${CMAKE_SOURCE_DIR}/cmake/write_git_commit.cmake
  BYPRODUCTS ${CMAKE_BINARY_DIR}/generated/git_commit.inc
  COMMENT "")
