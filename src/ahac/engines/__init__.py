"""Physics engines on which policies are evaluated: our own simulator, and MuJoCo.

engine = MujocoEngine(task, num_worlds=64)              # or NativeEngine
env = EngineEnv(task, engine, seed=0)                   # steps like VecEnv, without gradients
"""

from ahac.engines.engine import Drive, Engine, EngineState
from ahac.engines.env import EngineEnv
from ahac.engines.mujoco_engine import MujocoEngine
from ahac.engines.native import NativeEngine

__all__ = ["Drive", "Engine", "EngineEnv", "EngineState", "MujocoEngine", "NativeEngine"]
