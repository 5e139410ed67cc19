"""NVIDIA's multi-process service (MPS), with which kernels of several processes run on a GPU at the same time."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

__all__ = ["MpsDaemon"]

logger = logging.getLogger("ahac")

CONTROL = "nvidia-cuda-mps-control"
VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"
TIMEOUT = 20.0
"""Longest time for a command of the daemon [s]."""


class MpsDaemon:
    """A daemon of our own. Its pipes are in a folder that only the processes with `env` know."""

    def __init__(self, control: str, folder: Path) -> None:
        self.control = control
        self.folder = folder
        self.daemon_env = {
            **os.environ,
            "CUDA_MPS_PIPE_DIRECTORY": str(folder),
            "CUDA_MPS_LOG_DIRECTORY": str(folder),
        }
        """Environment variables of the daemon."""
        # The daemon serves the GPUs that it sees, numbered from 0; the variable would select among these once more.
        self.env = {name: value for name, value in self.daemon_env.items() if name != VISIBLE_DEVICES}
        """Environment variables of the processes that share the GPU."""

    @classmethod
    def start(cls) -> MpsDaemon | None:
        """Start the daemon; return None if MPS is not installed, runs already or does not start."""
        control = shutil.which(CONTROL)
        if control is None or _answers(control, dict(os.environ)):
            return None
        daemon = cls(control, Path(tempfile.mkdtemp(prefix="ahac-mps-")))
        try:
            subprocess.run(
                [control, "-d"],
                env=daemon.daemon_env,
                check=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # the daemon would keep a pipe open
                stderr=subprocess.DEVNULL,
                timeout=TIMEOUT,
            )
        except (OSError, subprocess.SubprocessError) as error:
            logger.warning("NVIDIA MPS did not start (%s); runs share the GPU without it", error)
            shutil.rmtree(daemon.folder, ignore_errors=True)
            return None
        return daemon

    def stop(self) -> None:
        """Stop the daemon."""
        try:
            subprocess.run(
                [self.control], input=b"quit\n", env=self.env, check=True, capture_output=True, timeout=TIMEOUT
            )
        except (OSError, subprocess.SubprocessError) as error:
            logger.warning("NVIDIA MPS did not stop (%s); its folder is %s", error, self.folder)
            return
        shutil.rmtree(self.folder, ignore_errors=True)


def _answers(control: str, env: dict[str, str]) -> bool:
    """Return whether a daemon runs already."""
    try:
        done = subprocess.run(
            [control], input=b"get_server_list\n", env=env, check=False, capture_output=True, timeout=TIMEOUT
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0 and b"Cannot find" not in done.stdout + done.stderr
