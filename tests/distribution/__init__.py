"""Checks of the wheel and the source distribution that `make dist` builds."""
