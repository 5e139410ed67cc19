"""Figures of the studies, one module per kind of study."""
