"""`ahac new`: task files for robots."""

from importlib import resources
from importlib.util import find_spec
from pathlib import Path

import pytest

import ahac
from ahac.cli.main import main
from ahac.envs import RobotTask, make_task

ASSETS = resources.files("ahac.envs") / "assets"


def mjlab(robot: str) -> Path:
    package = find_spec("mjlab")
    assert package is not None
    assert package.origin is not None
    return Path(package.origin).parent / f"asset_zoo/robots/unitree_{robot}/xmls/{robot}.xml"


def written(robot: Path, tmp_path: Path, *options: str) -> str:
    """Write a task file and return FILE.py:NAME."""
    target = tmp_path / "own.py"
    assert main(["new", str(robot), "--out", str(target), "--name", "own", *options]) == 0
    return f"{target}:own"


@pytest.mark.parametrize(
    ("robot", "feet", "knee"),
    [
        (mjlab("go1"), ("FL_foot_collision", "FR_foot_collision", "RL_foot_collision", "RR_foot_collision"), -1.4),
        (mjlab("g1"), ("left_foot*", "right_foot*"), 0.7),
        (Path(str(ASSETS / "go2.xml")), ("FL_foot", "FR_foot", "RL_foot", "RR_foot"), None),
        (Path(str(ASSETS / "g1.xml")), ("left_foot_*", "right_foot_*"), None),
    ],
)
def test_legged_robots_walk(robot: Path, feet: tuple[str, ...], knee: float | None, tmp_path: Path) -> None:
    name = written(robot, tmp_path)
    text = (tmp_path / "own.py").read_text(encoding="utf-8")
    assert [line.strip(' ",\n') for line in text.split("feet=(")[1].split("),")[0].splitlines()[1:-1]] == list(feet)
    task = make_task(name)
    assert {"track_lin_vel_xy", "swing_height", "foothold"} <= set(task.reward)
    assert task.recipe == ("g1" if len(feet) == 2 else "go1")
    if knee is None:
        assert 'STANCE = "home"' in text
    else:
        assert f": {knee:.2f}," in text


LEG = """<body name="{name}" pos="{x} {y} 0"><joint axis="0 1 0"/>
<geom type="capsule" size="0.02" fromto="0 0 0 0 0 -0.3"/>
<body name="{name}_shin" pos="0 0 -0.3"><joint axis="0 1 0"/>
<geom name="{name}_shank" type="capsule" size="0.02" fromto="0 0 0 0 0 -0.3"/>
FOOT</body></body>"""
FOOT = """<geom name="{name}_foot" type="sphere" size="0.025" pos="0 0 -0.3"/>"""


@pytest.mark.parametrize("with_feet", [True, False])
def test_feet_are_told_from_shins(with_feet: bool, tmp_path: Path) -> None:
    """Also if a foot is hardly lower than its shin."""
    places = {"fl": (0.2, 0.1), "fr": (0.2, -0.1), "rl": (-0.2, 0.1), "rr": (-0.2, -0.1)}
    foot = FOOT if with_feet else ""
    legs = "".join(LEG.replace("FOOT", foot).format(name=name, x=x, y=y) for name, (x, y) in places.items())
    robot = tmp_path / "dog.xml"
    trunk = '<freejoint/><geom type="box" size="0.25 0.1 0.05" mass="4"/>'
    robot.write_text(f'<mujoco><worldbody><body name="trunk" pos="0 0 0.65">{trunk}{legs}</body></worldbody></mujoco>')
    written(robot, tmp_path)
    text = (tmp_path / "own.py").read_text(encoding="utf-8")
    feet = [line.strip(' ",') for line in text.split("feet=(")[1].split("),")[0].splitlines()[1:-1]]
    assert feet == [f"{name}_{'foot' if with_feet else 'shank'}" for name in places]
    assert ("These geoms are whole shins" in text) is not with_feet
    assert "disturbances=Disturbances(payload=(0.0, 1." in text, "a quarter of the mass"


SERVO = """<mujoco><worldbody><body name="arm"><joint name="hinge"/><geom size="0.1"/></body></worldbody>
<actuator><position joint="hinge" kp="20" {limit}/></actuator></mujoco>"""


@pytest.mark.parametrize(("limit", "limited"), [("", False), ('forcerange="-5 5"', True)])
def test_missing_force_limits_of_servos_are_mentioned(limit: str, limited: bool, tmp_path: Path) -> None:
    robot = tmp_path / "arm.xml"
    robot.write_text(SERVO.format(limit=limit), encoding="utf-8")
    written(robot, tmp_path)
    text = (tmp_path / "own.py").read_text(encoding="utf-8")
    assert "actions=JointTargets(scale=0.5)," in text
    assert ("no force limit" in text) is not limited


def test_a_robot_without_joints_has_no_targets(tmp_path: Path) -> None:
    robot = tmp_path / "ball.xml"
    robot.write_text('<mujoco><worldbody><body><freejoint/><geom size="0.1"/></body></worldbody></mujoco>')
    written(robot, tmp_path)
    assert "JointTargets" not in (tmp_path / "own.py").read_text(encoding="utf-8")


@pytest.mark.parametrize(("robot", "limited"), [(mjlab("go1"), False), (Path(str(ASSETS / "ant.xml")), True)])
def test_missing_force_limits_are_mentioned(robot: Path, limited: bool, tmp_path: Path) -> None:
    written(robot, tmp_path)
    assert ("no force limit" in (tmp_path / "own.py").read_text(encoding="utf-8")) is not limited


def test_training_a_robot_file_points_to_the_template(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "my robot.xml"]) == 2
    assert "is a robot file, not a task; `ahac new 'my robot.xml'` writes a task for it" in capsys.readouterr().err


def test_a_robot_without_two_or_four_feet_runs(tmp_path: Path) -> None:
    task = make_task(written(Path(str(ASSETS / "ant.xml")), tmp_path))
    assert isinstance(task, RobotTask)
    assert task.torso == "torso"


@pytest.mark.parametrize("robot", ["cartpole", "double_pendulum"])
def test_a_robot_on_a_fixed_base_holds_a_pose(robot: str, tmp_path: Path) -> None:
    name = written(Path(str(ASSETS / f"{robot}.xml")), tmp_path)
    run = ahac.train(name, "shac", num_envs=4, iterations=1, out=str(tmp_path), device="cpu", display=False)
    assert run.metrics()["iteration"].tolist() == [1]


def test_a_quadruped_stands_with_actions_of_zero(tmp_path: Path) -> None:
    env = ahac.make(written(mjlab("go1"), tmp_path), num_envs=4)
    obs = env.reset()
    assert obs.isfinite().all()
    ended = 0
    for _ in range(50):
        step = env.step(obs.new_zeros(4, env.spec.action_size))
        ended += int(step.terminated.sum())
    assert ended == 0


def test_existing_files_and_wrong_names_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    robot = str(ASSETS / "ant.xml")
    target = tmp_path / "own.py"
    target.write_text("# mine\n", encoding="utf-8")
    assert main(["new", robot, "--out", str(target)]) == 2
    assert main(["new", robot, "--out", str(tmp_path / "own.txt")]) == 2
    assert main(["new", robot, "--name", "my robot", "--out", str(tmp_path / "b.py")]) == 2
    assert main(["new", str(tmp_path / "none.xml")]) == 2
    err = capsys.readouterr().err
    for message in ("exists; remove it", "use the suffix .py", "must be a Python name", "no file"):
        assert message in err
    assert target.read_text(encoding="utf-8") == "# mine\n"


def test_the_default_name_is_not_that_of_a_bundled_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new", str(ASSETS / "ant.xml")]) == 0
    assert "the task is named my_ant: ant is taken\n" in capsys.readouterr().err
    assert make_task("my_ant_task.py:my_ant").name == "my_ant"
    assert main(["new", str(ASSETS / "ant.xml"), "--name", "walk", "--out", "walk.py"]) == 2
