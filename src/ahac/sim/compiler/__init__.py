"""Turns traced Python into kernel source; independent of the physics."""
