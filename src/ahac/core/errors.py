"""Errors that users can act on: each message states what was received, what was expected, and how to fix it."""

__all__ = [
    "INPUT_ERROR_STATUS",
    "AhacError",
    "CompileError",
    "InputError",
    "ModelError",
    "NonFiniteError",
    "TraceError",
]

INPUT_ERROR_STATUS = 2
"""Exit status of `ahac` after one of these errors."""


class AhacError(Exception):
    """Base class of all errors that ahac raises deliberately."""


class ModelError(AhacError, ValueError):
    """A robot description cannot be read, or uses a feature that is not simulated."""


class InputError(AhacError, ValueError):
    """An argument has the wrong shape, type, device or range."""


class CompileError(AhacError, RuntimeError):
    """A kernel cannot be compiled, cached or loaded."""


class NonFiniteError(AhacError, ArithmeticError):
    """A policy or an observation is not finite, so that no action can be computed."""


class TraceError(AhacError, TypeError):
    """Traced Python code branches on a value, uses an unknown name, or returns a wrong type."""
