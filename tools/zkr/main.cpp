#include "tools/zkr/cli/program.hpp"

int main(int argc, char** argv) { return zkr::run_program(argc, argv); }
