"""Algorithms: AHAC, AHAC-1, SHAC, SAPO, RPO, IVW-H and BPTT, and the baselines PPO, SAC, SVG and FastTD3.

The first seven are `ShortHorizonActorCritic` with different settings. `recipes` has the hyper-parameters of all, and
`registry` makes an algorithm from its settings.
"""
