"""Launcher `ray`: one task of a Ray cluster per run."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ahac.core.checks import check_finite, check_int
from ahac.core.errors import InputError
from ahac.experiments.launchers.launcher import Job, Launcher, describe, import_optional
from ahac.experiments.launchers.remote import RemoteRun
from ahac.training.config import RunConfig

__all__ = ["RayLauncher"]

NUM_CPUS = 2
"""Default number of CPUs of a run."""
CLOSE_TIMEOUT = 30.0
"""Time for a run that was asked to stop twice [s]."""
CONNECT_TIMEOUT = 5.0
"""Time to reach the address of a cluster [s]."""
NAMED_ADDRESSES = ("auto", "local")
"""Addresses that Ray resolves itself."""


class RayLauncher(Launcher):
    """Trains runs as tasks of a Ray cluster, which decides when and where; run folders must be on a shared file system.

    A killed worker is a failed run for the sweep, which retries it.

    Args:
        address: Address of the cluster; by default RAY_ADDRESS or the cluster of this machine, and a new local one if
            there is none.
        num_cpus: CPUs of each run, which pins itself to as many cores.
        num_gpus: GPUs of each run, also a fraction; by default 1 if the cluster has GPUs and the runs may use them.
        jobs: Largest number of runs at a time; by default as many as the cluster has resources for.
    """

    here = False

    def __init__(
        self,
        address: str | None = None,
        num_cpus: int = NUM_CPUS,
        num_gpus: float | None = None,
        jobs: int | None = None,
    ) -> None:
        self.ray = import_optional("ray", "ray")
        self.address = address
        self.num_cpus = check_int("num_cpus", num_cpus, 1)
        self.num_gpus = None if num_gpus is None else check_finite("num_gpus", num_gpus, 0.0)
        self.jobs = None if jobs is None else check_int("jobs", jobs, 1)
        self._jobs: list[_RayJob] = []
        self._train: Any = None
        self._connected = False

    def open(self, configs: Sequence[RunConfig]) -> None:
        """Connect to the cluster."""
        if not self.ray.is_initialized():
            if self.address:
                _check_reachable(self.address)
            try:
                self.ray.init(address=self.address, logging_level="warning", log_to_driver=False)
            except (ConnectionError, RuntimeError, ValueError) as error:
                where = self.address or "of RAY_ADDRESS, or start one"
                raise InputError(f"cannot connect to the Ray cluster {where}: {describe(error)}") from error
            self._connected = True
        most = {name: max(node["Resources"].get(name, 0) for node in self.ray.nodes()) for name in ("CPU", "GPU")}
        gpus = self.num_gpus
        if gpus is None:
            gpus = float(most["GPU"] > 0 and any(config.device != "cpu" for config in configs))
        if self.num_cpus > most["CPU"] or gpus > most["GPU"]:
            self.close()
            raise InputError(
                f"a run needs {self.num_cpus} CPUs and {gpus:g} GPUs, but the machines of the Ray cluster have at most "
                f"{most['CPU']:g} and {most['GPU']:g}; change --num-cpus or --num-gpus"
            )
        # The sweep retries; a worker trains one run only, so that it starts like any other process.
        self._train = self.ray.remote(num_cpus=self.num_cpus, num_gpus=gpus, max_retries=0, max_calls=1)(_train)

    def free_slots(self, waiting: int) -> int:
        """Return 1 until the largest number of runs is reached; Ray queues what does not fit."""
        self._jobs = [job for job in self._jobs if job.poll() is None]
        return min(1, waiting) if self.jobs is None or len(self._jobs) < self.jobs else 0

    def start(self, configs: Sequence[RunConfig]) -> list[Job]:
        """Submit one task for each run."""
        cwd = os.getcwd()
        started: list[_RayJob] = []
        for config in configs:
            shared = replace(config, out=str(Path(config.out).absolute()))
            task = self._train.options(name=config.name).remote(RemoteRun(shared, cwd, self.num_cpus))
            started.append(_RayJob(self.ray, task))
        self._jobs += started
        return list(started)

    def close(self) -> None:
        """Disconnect from the cluster; a local one that was started here ends."""
        if self._connected:
            self.ray.shutdown()


class _RayJob:
    """A task of Ray."""

    def __init__(self, ray: Any, task: Any) -> None:  # noqa: ANN401 - Ray has no useful types
        self.ray = ray
        self.task = task
        self._ended: str | None = None

    def poll(self) -> str | None:
        """Return how the task has ended: what it returned, or what happened to its worker."""
        if self._ended is None and self.ray.wait([self.task], timeout=0)[0]:
            try:
                self._ended = str(self.ray.get(self.task))
            except self.ray.exceptions.RayError as error:
                self._ended = describe(error)
        return self._ended

    def stop(self) -> None:
        """Cancel the task if it waits; interrupt it if it trains."""
        self.ray.cancel(self.task)

    def close(self) -> None:
        """Wait for the task; kill its worker if it takes too long."""
        if not self.ray.wait([self.task], timeout=CLOSE_TIMEOUT)[0]:
            self.ray.cancel(self.task, force=True)


def _check_reachable(address: str) -> None:
    """Raise an InputError if nothing listens at HOST:PORT or ray://HOST:PORT, for which Ray itself takes minutes."""
    scheme, _, rest = address.rpartition("://")
    host, colon, port = rest.rpartition(":")
    if address in NAMED_ADDRESSES:
        return
    if scheme not in ("", "ray") or not (host and colon and port.isdecimal() and int(port) < 2**16):
        raise InputError(f"--address must be HOST:PORT, as in head:6379, or ray://HOST:PORT; got {address!r}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT).close()
    except OSError as error:
        raise InputError(
            f"cannot connect to the Ray cluster {address}: {error}; `ray status` on its head node shows whether it runs"
        ) from error


def _train(run: RemoteRun) -> str:
    return run()
