"""Gradients of several engines next to central differences: `python -m gradient_comparison` writes a page.

The page is docs/gradient-comparison.md.
Modules that run in another environment (`worker` and what it imports) need numpy and the engine only.
"""
