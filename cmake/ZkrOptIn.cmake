# What programs link that include the opt-in headers: <zkclient/asio.hpp> and <zkrecipes/asio.hpp> need Boost's
# headers, <zkclient/format.hpp> and <zkrecipes/format.hpp> need fmt. The libraries themselves are zkclient and zkrecipes.
# Installed, each is a component of the package, so that nobody else has to have Boost:
#   find_package(zkrecipes COMPONENTS asio)
# Changes here also concern zkrecipesConfig.cmake.in.

# zkr_add_opt_in(<component> <lib>)
function(zkr_add_opt_in component lib)
  if(TARGET ${lib})
    add_library(zkrecipes_${component} INTERFACE)
    add_library(zkrecipes::${component} ALIAS zkrecipes_${component})
    target_link_libraries(zkrecipes_${component} INTERFACE zkclient ${lib})
  endif()
endfunction()

zkr_add_opt_in(asio Boost::headers)
zkr_add_opt_in(format fmt::fmt)
