// Nothing: CMake makes the precompiled header of the programs for a target with a source.
