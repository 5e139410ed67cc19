"""Compile and launch C++ kernels on SIMD lanes and on CUDA, independent of what they compute."""
