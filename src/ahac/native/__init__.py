"""From C++ to running kernels, on SIMD lanes and on CUDA; knows nothing of what they compute."""
