"""Systems that lack what only Linux or only POSIX has: every module is imported there, and a run trains and resumes."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import asyncio, importlib, os, pkgutil, signal, sys  # before their POSIX parts are taken away

import gymnasium, mujoco, tensorboard, torch, warp
import torch.utils.tensorboard

import ahac

for name in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[name] = None  # importing it raises ImportError
for name in ("SCHED_IDLE", "getuid", "nice", "register_at_fork"):
    delattr(os, name)
for name in ("sched_getaffinity", "sched_setaffinity", "sched_setscheduler"):
    delattr(os, name)
for name in ("SIGHUP", "SIGUSR1", "SIGUSR2"):
    delattr(signal, name)

for module in pkgutil.walk_packages(ahac.__path__, "ahac."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
from ahac.native import cache
from ahac.training import process

assert cache.fcntl is None and process.fcntl is None

settings = dict(num_envs=4, out=sys.argv[1], device="cpu", display=False)
run = ahac.train("cartpole", iterations=1, **settings)
run = ahac.resume(run.folder, iterations=2, display=False)
sys.stdout.write(str(len(run.metrics()["iteration"])))
"""


def test_training_works_without_what_only_linux_has(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "runs")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("2")
