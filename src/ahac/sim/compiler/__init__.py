"""From traced Python to compiled kernels; knows nothing of physics."""
