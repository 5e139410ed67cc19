"""Execution: stages, eager and CUDA-graph executors, device-to-host transfer, timers."""
