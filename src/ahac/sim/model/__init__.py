"""Robot models as plain dataclasses, built from MuJoCo's compiled models; the only package that imports MuJoCo."""
