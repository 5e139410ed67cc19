"""Algorithms: `ShortHorizonActorCritic` is SHAC, AHAC, AHAC-1 and BPTT by its settings; `PPO`, `SAC` and `SVG` are its baselines.

`recipes` has their hyper-parameters, `registry` makes them from settings.
"""
