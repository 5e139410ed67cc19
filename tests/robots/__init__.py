"""A census of public robot models: which files load, match MuJoCo, stay stable and have finite gradients.

`make robots` runs it. The models come from packages of the Python package index, and are not part of this repository.
"""
