# What programs link that include the opt-in headers: <zkclient/asio.hpp> and <zkrecipes/asio.hpp> need Boost's
# headers, <zkclient/format.hpp> and <zkrecipes/format.hpp> need fmt. The libraries themselves are zkclient and zkrecipes.
# Installed, each is a component of the package, so that nobody else has to have Boost:
#   find_package(zkrecipes COMPONENTS asio)
# Changes here also concern zkrecipesConfig.cmake.in.

foreach(component IN ITEMS asio format)
  add_library(zkrecipes_${component} INTERFACE)
  add_library(zkrecipes::${component} ALIAS zkrecipes_${component})
endforeach()
target_link_libraries(zkrecipes_asio INTERFACE zkclient Boost::headers)
target_link_libraries(zkrecipes_format INTERFACE zkclient fmt::fmt)
