"""Other ways to the 49 parameters of `ahac bench identify`: MuJoCo's sysid, and Adam on the simulator's gradients.

ahac bench identify --data own mj_step --folder DATA
python compare.py sysid DATA mj_step       # needs pip install "mujoco[sysid]"
python compare.py adam DATA own
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ahac.bench.identification import KINDS, MAX_DELAY, NOISE, PATTERNS, SAMPLE, SUBSTEPS, delayed, draw_truth
from ahac.identification import Recording, read_recording
from ahac.identification.segments import cut
from ahac.sim import Parameters, Simulator, State, load_model

ITERATIONS = 400
"""Of Adam."""


def sysid(folder: Path, recording: Recording, parameters: Parameters) -> Tensor:
    """Gauss–Newton with finite differences, each a rollout of the whole recording from its start at rest."""
    import mujoco
    from mujoco import rollout
    from mujoco import sysid as package

    model = mujoco.MjModel.from_xml_path(str(folder / "robot.xml"))
    model.opt.timestep = SAMPLE / SUBSTEPS
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_EULERDAMP)
    model.dof_solref[:, 0] = 2.0 * model.opt.timestep
    assert recording.v is not None
    measured = np.concatenate([recording.q[1:], recording.v[1:]], axis=1)
    noise = np.repeat(NOISE, model.nv)
    defaults = parameters.defaults(1, dtype=torch.float64)[0].numpy()
    columns = {kind: parameters.index(f"{pattern}*") for kind, pattern in KINDS.items()}
    workspaces = [mujoco.MjData(model) for _ in range(2)]
    start = np.zeros(mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS))

    def residual(x: np.ndarray, params: package.ParameterDict) -> tuple[list[np.ndarray], list, list]:
        points = x.reshape(len(x), -1).T
        models, controls = [], []
        for point in points:
            changed = mujoco.MjModel.from_xml_path(str(folder / "robot.xml"))
            changed.opt = model.opt
            changed.dof_solref[:] = model.dof_solref
            changed.dof_armature[:] = point[columns["armature"]]
            changed.dof_damping[:] = np.reshape(point[columns["damping"]], changed.dof_damping[:].shape)
            changed.dof_frictionloss[:] = point[columns["friction"]]
            late = delayed(recording.control, float(point[columns["delay"]][0]), SUBSTEPS)[:-1]
            controls.append(late.reshape(-1, model.nu) - point[columns["offset"]])
            models.append(changed)
        states, _ = rollout.rollout(models, workspaces, np.tile(start, (len(models), 1)), np.stack(controls))
        motion = states[:, SUBSTEPS - 1 :: SUBSTEPS, 1 : 1 + model.nq + model.nv].copy()
        motion[:, :, : model.nq] += points[:, None, columns["offset"]]
        errors = ((motion - measured) / noise).reshape(len(models), -1).T
        return [errors[:, 0] if x.ndim == 1 else errors], [], []

    bounds = {"armature": (1e-3, 1.0), "damping": (0.0, 5.0), "friction": (0.0, 5.0), "offset": (-0.5, 0.5)}
    guess = package.ParameterDict()
    for kind, indices in columns.items():
        low, high = bounds.get(kind, (0.0, MAX_DELAY))
        for i in indices:
            guess.add(package.Parameter(parameters.labels[i], defaults[i], low, high))
    found, _ = package.optimize(guess, residual, optimizer="mujoco", verbose=True)
    return torch.from_numpy(found.as_vector())


def adam(recording: Recording, parameters: Parameters, rate: float = 0.02, segment: float = 0.1) -> Tensor:
    """Adam on the gradient of the mean squared error of all segments, which begin at measured states."""
    model = parameters.model
    segments = cut(model, [recording], segment, MAX_DELAY)
    steps, before = segments.steps, segments.controls.shape[1] - segments.steps
    inner = model.parameters(*PATTERNS[:-1])
    sim = Simulator(model, num_worlds=segments.count, dt=SAMPLE, substeps=SUBSTEPS, parameters=inner)
    measured, controls = segments.measured.float(), segments.controls.float()
    spread = measured.flatten(0, 1).std(dim=0)
    default = parameters.defaults(1)[0]
    scale = torch.where(default == 0.0, 0.1, default)
    scale[-1] = 0.01
    x = torch.zeros(parameters.size, requires_grad=True)
    optimizer = torch.optim.Adam([x], lr=rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, ITERATIONS)
    offsets = parameters.index("joint_offset:*")
    for iteration in range(ITERATIONS):
        values = default + scale * x
        shift = (values[-1] / SAMPLE).clamp(0.0, before - 1.0)
        n = int(shift)
        newer, older = (controls[:, before - n - late :][:, :steps] for late in (0, 1))
        late = newer + (shift - n) * (older - newer)
        physical = values[:-1].repeat(segments.count, 1)
        state = State(measured[:, 0, : model.nq] - values[offsets], measured[:, 0, model.nq :])
        loss = torch.zeros(())
        for k in range(steps):
            state = sim.step(state, late[:, k].contiguous(), parameters=physical)
            seen = torch.cat([state.q + values[offsets], state.v], dim=1)
            loss = loss + ((seen - measured[:, k + 1]) / spread).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if iteration % 50 == 0:
            sys.stderr.write(f"{iteration}: {loss.item() / steps:.3e}\n")
    return (default + scale * x.detach()).double()


def main() -> None:
    """Run one method on one recording, and write time and errors."""
    method, folder, name = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    parameters = load_model(folder / "robot.xml").parameters(*PATTERNS, max_delay=MAX_DELAY)
    recording = read_recording(folder / f"{name}.npz")
    begin, cpu = time.perf_counter(), time.process_time()
    found = sysid(folder, recording, parameters) if method == "sysid" else adam(recording, parameters)
    took = f"{time.perf_counter() - begin:.0f} s, CPU {time.process_time() - cpu:.0f} s"
    truth = draw_truth(parameters.model.nu).values(parameters)
    error = 100.0 * (found / truth - 1.0).abs()
    worst = {kind: f"{float(error[parameters.index(f'{pattern}*')].max()):.3f} %" for kind, pattern in KINDS.items()}
    sys.stdout.write(f"{method} {name}: {took}, {worst}\n")


if __name__ == "__main__":
    main()
