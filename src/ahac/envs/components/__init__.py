"""Parts of tasks with memory: commands, clocks, delays, noise, pushes, curricula, histories and contact sensors."""
