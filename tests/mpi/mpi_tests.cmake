# The tests that need real ranks: one executable that runs under mpirun with 4 of them.
#
# mrb_mpi_tests(FOLDER FILES...) adds files of tests/<folder> to it; mpi_<folder> holds them alone, for working on that
# folder, and is built only when asked for. Without MPI there are no such tests.
set(MRB_MPI_RANKS 4)

# Open MPI counts cores and refuses root, and ranks that spin on fewer cores than ranks hardly move.
set(MRB_MPIRUN_ARGS)
if(MRB_HAS_MPI)
  execute_process(COMMAND ${MPIEXEC_EXECUTABLE} --version OUTPUT_VARIABLE mpirun_version ERROR_QUIET)
  if(mpirun_version MATCHES "Open MPI|OpenRTE")
    set(MRB_MPIRUN_ARGS --allow-run-as-root --oversubscribe --mca mpi_yield_when_idle 1)
  endif()
  add_executable(mrb_mpi_tests mpi/mpi_main.cpp)
  target_link_libraries(mrb_mpi_tests PRIVATE mrb_test_support)
  add_test(NAME mpi COMMAND ${MPIEXEC_EXECUTABLE} ${MRB_MPIRUN_ARGS} ${MPIEXEC_NUMPROC_FLAG} ${MRB_MPI_RANKS}
    $<TARGET_FILE:mrb_mpi_tests>)
  set_tests_properties(mpi PROPERTIES LABELS mpi TIMEOUT 600)

  add_executable(mrb_mpi_misbehave mpi/misbehave.cpp)
  target_link_libraries(mrb_mpi_misbehave PRIVATE mrb_transport)
  set(ways silent)
  if(MRB_HAS_LIBFABRIC)
    list(APPEND ways crash)
  endif()
  foreach(way IN LISTS ways)
    add_test(NAME mpi_${way} COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/mpi/misbehave.sh ${way}
      $<TARGET_FILE:mrb_mpi_misbehave> ${MPIEXEC_EXECUTABLE} ${MRB_MPIRUN_ARGS} ${MPIEXEC_NUMPROC_FLAG} 2)
    set_tests_properties(mpi_${way} PROPERTIES LABELS mpi TIMEOUT 120)
  endforeach()
endif()

function(mrb_mpi_tests folder)
  if(NOT MRB_HAS_MPI)
    return()
  endif()
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  target_sources(mrb_mpi_tests PRIVATE ${ARGN})
  add_executable(mpi_${folder} EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/tests/mpi/mpi_main.cpp ${ARGN})
  target_include_directories(mpi_${folder} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(mpi_${folder} PRIVATE mrb_${folder} ${MRB_CATCH} Threads::Threads)
endfunction()
