"""Algorithms: SHAC, AHAC, AHAC-1 and BPTT, and the baselines PPO, SAC, SVG and FastTD3.

The first four are `ShortHorizonActorCritic` with different settings. `recipes` has the hyper-parameters of all, and
`registry` makes an algorithm from its settings.
"""
