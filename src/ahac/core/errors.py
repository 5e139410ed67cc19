"""Errors a user can act on: each message names what was got, what was wanted, and the way out."""

__all__ = ["AhacError", "CompileError", "InputError", "ModelError", "NonFiniteError", "TraceError"]


class AhacError(Exception):
    """Base of every error this project raises on purpose."""


class ModelError(AhacError, ValueError):
    """A robot description that cannot be read, or asks for something that is not simulated."""


class InputError(AhacError, ValueError):
    """An argument of the wrong shape, type, device or range."""


class CompileError(AhacError, RuntimeError):
    """A kernel that cannot be compiled, kept or loaded."""


class NonFiniteError(AhacError, ArithmeticError):
    """A policy or an observation that is not finite, so that there is no action to take."""


class TraceError(AhacError, TypeError):
    """Traced Python that does what a trace cannot: branch on a value, use an unknown name, return the wrong thing."""
