"""Algorithms: `FirstOrder` is SHAC, AHAC, AHAC-1 and BPTT by its settings; `recipes` has their hyper-parameters."""
