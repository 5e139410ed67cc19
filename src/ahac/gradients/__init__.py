"""Instruments for gradients through contact."""
