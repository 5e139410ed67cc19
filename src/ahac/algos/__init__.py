"""Algorithms: one file is one configuration and what it builds; siblings never import each other."""
