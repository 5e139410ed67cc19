"""Execution: CUDA graphs and phase timers. No mathematics and no learned state."""
