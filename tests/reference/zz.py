"""x"""
import mujoco
import numpy as np


mujoco.mju_quat2Mat(np.zeros(9), np.zeros(4))
mujoco.mj_mulM
