"""Stateful components that algorithms are built from: critic fits, replay buffer, temperature, horizon rules."""
