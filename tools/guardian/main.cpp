// zkrecipes-guardian: closes a session after the death of its owner. Started by zkrecipes::Guardian (guardian.hpp),
// never by hand. It reads lines from its standard input, a socket (recipes/elections/guardian.cpp says which), and
// waits for its end.

#include <unistd.h>

#include "tools/guardian/guardian.hpp"

int main() {
  // What the owner had open is none of our business.
  ::close_range(STDERR_FILENO + 1, ~0U, 0);
  return guardian::guard(STDIN_FILENO);
}
