"""Robots as plain records, made from MuJoCo's compiled models; the only room that knows MuJoCo."""
