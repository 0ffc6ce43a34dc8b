#pragma once

namespace zkr {

/// `zkr`: reads the words, does what they say, returns the exit code. This process must have one thread.
int run_program(int argc, char** argv);

}  // namespace zkr
