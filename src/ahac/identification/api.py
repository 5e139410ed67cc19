"""`ahac.identify`: estimate parameters of a robot from recorded motions."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate

import torch

from ahac.core.checks import check_finite, check_int, check_positive
from ahac.core.errors import InputError
from ahac.identification.fit import Fit
from ahac.identification.recordings import Recording, read_recording, same_dt
from ahac.identification.result import Identification
from ahac.identification.segments import Segments, cut
from ahac.identification.simulated import SimulatedRobot
from ahac.sim import Integrator, Model, Parameters, Simulator, load_model

__all__ = ["identify"]

SUBSTEP = 1e-3
"""Longest substep by default [s]."""

SEGMENT = 1.0
"""Length of a segment by default [s]."""
FEWEST = 10
"""Number of segments for which they are made shorter."""
USED = 0.9
"""Share of the samples that must be in recordings as long as a segment, by default."""

Source = Recording | str | os.PathLike[str]


def identify(  # noqa: PLR0913 - public settings, keyword-only
    model: Model | str | os.PathLike[str],
    recordings: Source | Sequence[Source],
    parameters: Parameters | str | Sequence[str],
    *,
    segment: float | None = None,
    substeps: int | None = None,
    integrator: Integrator = "implicit",
    held_out: float = 0.2,
    prior: float = 10.0,
    resample: float | None = None,
    max_iterations: int = 100,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
    num_threads: int | None = None,
) -> Identification:
    """Estimate parameters of a robot from recorded motions.

    Recordings are cut into segments that are simulated in parallel. Levenberg–Marquardt on the exact Jacobians of all
    steps finds the parameters, and the start of every segment, for which the simulation follows the measurements best.
    Each channel is weighted by its own noise, which is estimated as well.

    Args:
        model: A model from `load_model`, or the path of an MJCF or URDF file.
        recordings: One or several recordings, or paths of .npz files.
        parameters: Parameters from `model.parameters`, or patterns such as "dof_damping:*".
        segment: Length of a segment [s]; by default one second, or less if recordings are short (the guide says how
            much). Long segments average noise better; short ones suit chaotic motions. Recordings that are shorter
            than a segment are left out, with a warning.
        substeps: Substeps of the simulation per sample; by default as many as keep them below 1 ms.
        integrator: "implicit" or "explicit". Estimates belong to the substep and integrator they were found with.
        held_out: Share of the segments that is not fitted, but used to compare predictions before and after.
        prior: Standard deviation of the prior around the defaults, relative to the scale of each parameter; it only
            matters for what the data do not determine.
        resample: Time between samples [s] to which recordings are interpolated; required for uneven sampling.
        max_iterations: Maximum number of linearizations.
        device: "cpu" or a CUDA device.
        dtype: Precision of the simulation, torch.float32 or torch.float64.
        num_threads: Number of CPU threads; all cores by default.
    """
    settings = _Settings(segment, substeps, integrator, held_out, prior, max_iterations, device, dtype, num_threads)
    model = model if isinstance(model, Model) else load_model(model)
    return _run(_parameters(model, parameters), _recordings(model, recordings, resample), settings)


@dataclass(frozen=True)
class _Settings:
    """Settings of an identification, as described in `identify`."""

    segment: float | None
    substeps: int | None
    integrator: Integrator
    held_out: float
    prior: float
    max_iterations: int
    device: str | torch.device
    dtype: torch.dtype
    num_threads: int | None

    def __post_init__(self) -> None:
        check_positive("prior", self.prior)
        check_int("max_iterations", self.max_iterations, 1)
        if self.segment is not None:
            check_positive("segment", self.segment)
        if self.substeps is not None:
            check_int("substeps", self.substeps, 1)
        if check_finite("held_out", self.held_out, 0.0) >= 1.0:
            raise InputError(f"held_out must be below 1, got {self.held_out!r}")


def _run(parameters: Parameters, recordings: Sequence[Recording], settings: _Settings) -> Identification:
    begin = time.perf_counter()
    model = parameters.model
    for recording in recordings:
        recording.check(model)
    dt = same_dt(recordings)
    substeps = settings.substeps or max(1, math.ceil(dt / SUBSTEP - 1e-6))
    segments = cut(model, recordings, settings.segment or _segment(recordings), parameters.max_delay)
    fitted, kept = _split(segments, settings.held_out)

    def make(inputs: Parameters | None) -> Simulator:
        return Simulator(
            model,
            num_worlds=fitted.count,
            dt=dt,
            substeps=substeps,
            integrator=settings.integrator,
            device=settings.device,
            dtype=settings.dtype,
            num_threads=settings.num_threads,
            parameters=inputs,
            validate_parameters=False,
        )

    fit = Fit(parameters, SimulatedRobot(parameters, make), dt, settings.prior, settings.max_iterations)
    with _one_torch_thread():
        solution, undetermined = fit.solve(fitted)
        errors = fit.prediction_errors(kept if kept.count else fitted, solution)
    estimates, channels = fit.estimates(solution, undetermined), fit.channels(solution, errors)
    step = {"dt": dt, "substeps": substeps, "integrator": settings.integrator}
    return Identification(
        parameters=parameters,
        **vars(estimates),
        channels=channels,
        warnings=segments.warnings + fit.warnings(solution, estimates, channels, fit.problem(fitted).spread()),
        held_out=kept.count,
        segments=fitted.count,
        iterations=solution.iterations,
        seconds=time.perf_counter() - begin,
        settings={**step, "segment": fitted.steps * dt, "prior": settings.prior},
    )


@contextmanager
def _one_torch_thread() -> Iterator[None]:
    """Run torch on one thread: its matrices are small, and its idle threads would compete with the simulator's."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _parameters(model: Model, given: Parameters | str | Sequence[str]) -> Parameters:
    if isinstance(given, str):
        return model.parameters(given)
    if isinstance(given, Sequence):
        return model.parameters(*given)
    if not isinstance(given, Parameters):
        raise InputError(
            f"parameters must be patterns such as 'dof_damping:*', or from model.parameters, got {given!r}"
        )
    given.check_model(model)
    return given if given.model is model else model.parameters(*given.names, max_delay=given.max_delay)


def _recordings(model: Model, given: Source | Sequence[Source], resample: float | None) -> list[Recording]:
    sources = [given] if isinstance(given, Recording | str | os.PathLike) else given
    if not isinstance(sources, Sequence) or not sources:
        raise InputError(f"recordings must be one or more recordings or paths of .npz files, got {given!r}")
    read = [source if isinstance(source, Recording) else read_recording(source) for source in sources]
    return read if resample is None else [recording.resampled(resample, model) for recording in read]


def _segment(recordings: Sequence[Recording]) -> float:
    """Return the default length of a segment [s]."""
    durations = sorted((recording.dt * len(recording.time) for recording in recordings), reverse=True)
    total = sum(durations)
    enough = next(i for i, used in enumerate(accumulate(durations)) if used >= USED * total)
    return min(SEGMENT, total / FEWEST, durations[enough])


def _split(segments: Segments, held_out: float) -> tuple[Segments, Segments]:
    """Return the segments to fit and those held out, which are spread evenly."""
    count = int(segments.count * held_out)
    index = torch.arange(segments.count)
    kept = ((index + 1) * count) // segments.count > (index * count) // segments.count
    return segments.select(~kept), segments.select(kept)
