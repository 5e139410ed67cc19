"""Identification of a simulated arm: estimates, wrong models, insufficient data, results and the command line."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

import ahac
from ahac.cli.main import main
from ahac.core.errors import InputError
from ahac.identification import Identification, Recording, read_estimates
from ahac.identification.api import _segment
from ahac.sim import Model, Simulator, load_model

ARM = """<mujoco model="arm"><compiler angle="radian"/>
<worldbody>
  <body name="upper"><joint name="shoulder" axis="0 1 0" damping="0.3" armature="0.02" frictionloss="0.1"/>
    <geom type="capsule" fromto="0 0 0 0 0 -.3" size=".03" mass="1"/>
    <body name="fore" pos="0 0 -.3"><joint name="elbow" axis="0 1 0" damping="0.3" armature="0.02"/>
      <geom type="capsule" fromto="0 0 0 0 0 -.3" size=".02" mass="0.5"/></body></body>
</worldbody>
<actuator><position name="shoulder" joint="shoulder" kp="20" kv="0.5"/>
  <position name="elbow" joint="elbow" kp="10" kv="0.3"/></actuator>
</mujoco>"""
PATTERNS = ("dof_damping:*", "dof_frictionloss:shoulder", "joint_offset:elbow", "actuator_delay")
TRUE = (0.5, 0.2, 0.25, 0.06, 0.013)
DT = 0.01
SETTINGS = {"substeps": 2, "segment": 0.5, "num_threads": 1}
ACCURACY = 0.03
"""Relative error under noise; standard errors are about 1 %."""


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model(ARM)


def record(model: Model, seconds: float = 6.0, driven: tuple[float, float] = (0.6, 0.6), seed: int = 0) -> Recording:
    """Return a motion with the true parameters and sensor noise; targets have the given amplitudes."""
    parameters = model.parameters(*PATTERNS)
    sim = Simulator(model, num_worlds=1, dt=DT, substeps=2, num_threads=1, parameters=parameters)
    time = np.arange(round(seconds / DT)) * DT
    chirp = 2.0 * math.pi * (0.3 + 0.25 * time) * time
    control = np.stack([np.sin(chirp), np.sin(1.3 * chirp + 1.0)], axis=1) * driven
    values = torch.tensor([TRUE])
    state, states = sim.rest_state(), []
    for target in torch.from_numpy(control).float():
        states.append(state)
        state = sim.step(state, target[None], parameters=values)
    rng = np.random.default_rng(seed)
    q = np.concatenate([state.q.numpy() for state in states]) + np.array([0.0, TRUE[3]])
    v = np.concatenate([state.v.numpy() for state in states])
    q += 1e-4 * rng.standard_normal(q.shape)
    v += 1e-2 * rng.standard_normal(v.shape)
    return Recording(time, q, control, v)


@pytest.fixture(scope="module")
def recording(model: Model) -> Recording:
    return record(model)


@pytest.fixture(scope="module")
def result(model: Model, recording: Recording) -> Identification:
    return ahac.identify(model, recording, PATTERNS, **SETTINGS)


def test_parameters_are_recovered_within_their_intervals(result: Identification) -> None:
    true = torch.tensor(TRUE, dtype=torch.float64)
    torch.testing.assert_close(result.values, true, rtol=ACCURACY, atol=0.0)
    assert ((result.values - true).abs() < 4.0 * result.standard_errors).all()
    assert (result.standard_errors < ACCURACY * true).all()
    assert not result.warnings
    assert not result.undetermined
    assert result.held_out == 2
    for channel in result.channels:
        assert channel.after < 0.2 * channel.before, channel.name


def test_estimates_are_parameters_of_a_step(result: Identification, model: Model) -> None:
    sim = Simulator(model, num_worlds=3, dt=DT, substeps=2, num_threads=1, parameters=result.parameters)
    state = sim.step(sim.rest_state(), parameters=result.for_worlds(3))
    assert sim.is_finite(state).all()


def test_result_round_trips_through_its_file(result: Identification, tmp_path: Path) -> None:
    result.save(tmp_path / "result.json")
    torch.testing.assert_close(read_estimates(tmp_path / "result.json", result.parameters), result.values)
    more = result.parameters.model.parameters(*PATTERNS, "body_mass:fore")
    with pytest.raises(InputError, match="no estimate of body_mass:fore; it has: dof_damping:shoulder"):
        read_estimates(tmp_path / "result.json", more)


def test_a_wrong_model_is_reported(model: Model, recording: Recording) -> None:
    """Without dry friction and offset, the model cannot follow the motion; damping alone does not explain it."""
    fitted = ahac.identify(model, recording, "dof_damping:*", **SETTINGS)
    (warning,) = [text for text in fitted.warnings if "not noise" in text]
    assert "The model does not explain the motion" in warning
    assert warning in fitted.table()


def test_a_joint_that_does_not_move_leaves_its_parameters_unknown(model: Model) -> None:
    still = record(model, seconds=3.0, driven=(0.6, 0.0))
    assert still.v is not None
    held = Recording(still.time, still.q * [1.0, 0.0], still.control, still.v * [1.0, 0.0])
    locked = load_model(ARM.replace('kp="10"', 'kp="100000"'))
    fitted = ahac.identify(locked, held, ("dof_damping:*",), **SETTINGS)
    assert [str(each) for each in fitted.undetermined] == ["dof_damping:elbow"]
    assert "not determined" in fitted.table()
    assert any("do not determine 1 combination" in text for text in fitted.warnings)
    assert fitted.by_label["dof_damping:elbow"] == pytest.approx(0.3, abs=0.01), "it stays near its default"


@pytest.mark.extended
def test_combinations_that_act_alike_are_named(model: Model, recording: Recording) -> None:
    """Damping of a joint and of its servo exert the same torque."""
    fitted = ahac.identify(model, recording, (*PATTERNS, "actuator_damping:*"), **SETTINGS)
    pairs = {frozenset(each.labels) for each in fitted.undetermined}
    assert pairs == {
        frozenset({f"dof_damping:{joint}", f"actuator_damping:{joint}"}) for joint in ("shoulder", "elbow")
    }


def test_a_second_stage_keeps_the_encoder_offsets_of_the_first(
    result: Identification, model: Model, recording: Recording
) -> None:
    """The identified model has the elbow's offset as a constant; only damping and delay are estimated again."""
    identified = result.parameters.apply(model, result.values.tolist())
    again = ahac.identify(identified, recording, ("dof_damping:*", "actuator_delay"), **SETTINGS)
    wanted = torch.tensor([TRUE[0], TRUE[1], TRUE[4]], dtype=torch.float64)
    torch.testing.assert_close(again.values, wanted, rtol=ACCURACY, atol=0.0)
    assert not again.warnings


def test_recordings_that_are_shorter_than_a_segment_are_left_out(model: Model, recording: Recording) -> None:
    short = Recording(*(x[:20] for x in (recording.time, recording.q, recording.control)), name="short.npz")
    fitted = ahac.identify(model, [recording, short], PATTERNS, max_iterations=2, **SETTINGS)
    assert fitted.settings["segment"] == pytest.approx(0.5)
    (warning,) = [text for text in fitted.warnings if "left out" in text]
    assert "1 of 2 recordings are shorter than a segment of 0.5 s and were left out: short.npz" in warning
    assert [channel.name[0] for channel in fitted.channels] == ["q", "q", "v", "v"], "its velocities do not matter"
    assert _segment([recording, short]) == pytest.approx(0.62), "it is below a tenth of the samples"
    assert _segment([short] * 3) == pytest.approx(0.06)
    assert _segment([short] * 60) == pytest.approx(0.2)
    with pytest.raises(InputError, match=r"a segment of 9 s does not fit .* the longest takes 5.99 s; give a shorter"):
        ahac.identify(model, [recording, short], PATTERNS, segment=9.0)


def test_a_recording_without_velocities_is_reported(model: Model, recording: Recording) -> None:
    positions = Recording(recording.time, recording.q, recording.control, name="positions.npz")
    fitted = ahac.identify(model, [recording, positions], PATTERNS, max_iterations=2, **SETTINGS)
    (warning,) = [text for text in fitted.warnings if "velocities" in text]
    assert "no velocities were used, since positions.npz has none; record them, or fit positions.npz" in warning


def test_a_urdf_needs_servos(recording: Recording, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    joints = "".join(
        f'''<joint name="{name}" type="continuous"><axis xyz="0 1 0"/><parent link="{parent}"/><child link="{child}"/>
        <origin xyz="0 0 {z}"/><dynamics damping="0.3"/></joint>'''
        for name, parent, child, z in (("shoulder", "base", "upper", 0.0), ("elbow", "upper", "fore", -0.3))
    )
    links = "".join(
        f'''<link name="{name}"><inertial><origin xyz="0 0 -0.15"/><mass value="{mass}"/>
        <inertia ixx="0.01" iyy="0.01" izz="0.001" ixy="0" ixz="0" iyz="0"/></inertial></link>'''
        for name, mass in (("upper", 1.0), ("fore", 0.5))
    )
    (tmp_path / "arm.urdf").write_text(
        f'<robot name="arm"><link name="base"/>{links}{joints}</robot>', encoding="utf-8"
    )
    recording.save(tmp_path / "data.npz")
    command = ["identify", str(tmp_path / "arm.urdf"), str(tmp_path / "data.npz"), "--parameters", "dof_damping:*"]
    options = ["--substeps", "2", "--max-iterations", "2"]
    assert main([*command, *options]) != 0
    error = capsys.readouterr().err
    assert "control must have nu = 0 columns for the robot 'arm', got 2. Its file has no actuators" in error
    assert "--servos KP KV" in error
    assert main([*command, *options, "--servos", "15", "0.4"]) == 0
    printed = capsys.readouterr().out
    assert "dof_damping:elbow" in printed
    assert "no convergence within 2 iterations; allow more (max_iterations=, --max-iterations)" in printed


@pytest.mark.extended
def test_velocities_are_optional(model: Model, recording: Recording) -> None:
    positions = Recording(recording.time, recording.q, recording.control)
    fitted = ahac.identify(model, positions, PATTERNS, **SETTINGS)
    torch.testing.assert_close(fitted.values, torch.tensor(TRUE, dtype=torch.float64), rtol=0.1, atol=0.0)
    assert [channel.name for channel in fitted.channels] == ["q shoulder", "q elbow"]


def test_the_command_prints_a_table_and_writes_a_file(
    recording: Recording, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "arm.xml").write_text(ARM, encoding="utf-8")
    recording.save(tmp_path / "data.npz")
    files = [str(tmp_path / name) for name in ("arm.xml", "data.npz", "result.json")]
    options = ["--parameters", *PATTERNS, "--substeps", "2", "--out", files[2]]
    assert main(["identify", *files[:2], *options]) == 0
    printed = capsys.readouterr().out
    assert "dof_damping:elbow" in printed
    assert "held-out segments" in printed
    saved = json.loads(Path(files[2]).read_text(encoding="utf-8"))
    assert saved["parameters"]["actuator_delay"]["value"] == pytest.approx(TRUE[4], rel=ACCURACY)


def test_the_given_model_is_simulated_even_if_the_parameters_are_those_of_another(
    model: Model, recording: Recording
) -> None:
    """The other model has the same damping but another mass."""
    other = load_model(ARM.replace('mass="0.5"', 'mass="0.9"')).parameters(*PATTERNS)
    found = [ahac.identify(model, recording, p, max_iterations=2, **SETTINGS) for p in (PATTERNS, other)]
    assert found[1].parameters.model is model
    torch.testing.assert_close(found[0].values, found[1].values)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"segment": 0.0}, "segment must be more than 0"),
        ({"held_out": 1.0}, "held_out must be below 1"),
        ({"recordings": []}, "must be one or more recordings"),
        ({"recordings": 3}, "must be one or more recordings or paths of .npz files, got 3"),
        ({"parameters": 3}, "parameters must be patterns such as"),
        ({"parameters": "dof_dampin:*"}, "no parameter is of kind 'dof_dampin'"),
        ({"substeps": 0}, "substeps must be a whole number"),
    ],
)
def test_bad_settings_are_refused(changes: dict[str, object], message: str, model: Model, recording: Recording) -> None:
    given = {"recordings": recording, "parameters": PATTERNS, **changes}
    with pytest.raises(InputError, match=message):
        ahac.identify(model, **given)
