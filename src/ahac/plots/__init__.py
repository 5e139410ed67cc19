"""Common style of all figures."""
