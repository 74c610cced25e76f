# find_package(leased): the imported target leased::leased is the shared library.
include("${CMAKE_CURRENT_LIST_DIR}/leasedTargets.cmake")
