"""The fault-injection script (`make faults`) detects the faults it looks for, and runs."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import faults
from ahac.core.files import write_json
from ahac.training.checkpoint import load_checkpoint, save_checkpoint
from faults.damage import WAYS, path_of
from faults.damage_files import Scene
from faults.forms import form_of
from faults.moments import Hook, Moment, kind_of, read_record
from faults.mutations import mutated, robots
from faults.report import failed, failures, table
from faults.runs import damaged_files, differences
from faults.trials import Outcome

TESTS = Path(faults.__file__).parents[1]
RUNS = TESTS / "fixtures" / "runs-0.1.0"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return Path(shutil.copytree(RUNS / "sac", tmp_path / "runs" / "run"))


# --------------------------------------------------------------------------------------------------------- comparisons


def test_equal_runs_do_not_differ(run: Path) -> None:
    assert differences(run, RUNS / "sac") == damaged_files(run) == []


def test_name_and_place_do_not_count(run: Path, tmp_path: Path) -> None:
    config = json.loads((run / "config.json").read_text(encoding="utf-8"))
    saved = load_checkpoint(run / "checkpoints" / "last.safetensors")
    other = Path(shutil.copytree(run, tmp_path / "elsewhere" / "other"))
    for folder, name, out in ((run, "run", "runs"), (other, "other", "elsewhere")):
        settings = {**config, "name": name, "out": out}
        write_json(folder / "config.json", settings, checksum=True)
        save_checkpoint(folder / "checkpoints" / "last.safetensors", replace(saved, settings=settings))
    assert differences(run, other) == []
    write_json(other / "config.json", {**config, "seed": 1}, checksum=True)
    save_checkpoint(other / "checkpoints" / "last.safetensors", replace(saved, settings={**config, "seed": 1}))
    assert differences(run, other) == ["different: checkpoints/last.safetensors", "different: config.json"]


def test_times_do_not_count(run: Path, tmp_path: Path) -> None:
    path = run / "checkpoints" / "last.safetensors"
    other = Path(shutil.copytree(run, tmp_path / "other"))
    saved = load_checkpoint(path)
    save_checkpoint(path, saved)
    save_checkpoint(other / path.relative_to(run), replace(saved, numbers={**saved.numbers, "seconds": 1e6}))
    assert differences(run, other) == []
    save_checkpoint(other / path.relative_to(run), replace(saved, numbers={**saved.numbers, "env_steps": 1e6}))
    assert differences(run, other) == ["different: checkpoints/last.safetensors"]


@pytest.mark.parametrize("kind", ["last", "iteration", "metrics.csv", "evaluation.json", "config.json", "segment"])
def test_one_flipped_bit_is_a_difference(kind: str, run: Path) -> None:
    path = path_of(kind, run, random.Random(0))
    assert path is not None
    content = bytearray(path.read_bytes())
    content[-40] ^= 1
    path.write_bytes(content)
    shown = "replay" if kind == "segment" else str(path.relative_to(run))
    assert differences(run, RUNS / "sac") == [f"different: {shown}"]


def test_lost_and_left_files_are_differences(run: Path) -> None:
    (run / "checkpoints" / "iteration-000003.safetensors").unlink()
    (run / "checkpoints" / ".last.77.tmp.safetensors").touch()
    (run / "replay" / ".rows-1.77.tmp.safetensors").touch()
    (run / "odd.txt").touch()
    assert differences(run, RUNS / "sac") == [
        "lost: checkpoints/iteration-000003.safetensors",
        "temporary file left: checkpoints/.last.77.tmp.safetensors",
        "unexpected file: odd.txt",
        "temporary file left: replay/.rows-1.77.tmp.safetensors",
    ]


def test_half_written_files_are_found(run: Path) -> None:
    path = run / "checkpoints" / "last.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    (found,) = damaged_files(run)
    assert found.startswith("damaged by the kill: checkpoints/last.safetensors: ")


# -------------------------------------------------------------------------------------------------------------- damage


@pytest.mark.filterwarnings("ignore:invalid value encountered")
@pytest.mark.parametrize("kind", WAYS)
def test_every_way_to_damage_a_file_changes_it(kind: str, run: Path) -> None:
    for way, act in WAYS[kind].items():
        rng = random.Random(way)
        source = path_of("iteration" if kind == "best" else kind, run, rng)
        assert source is not None
        path = Path(shutil.copy(source, run / "damaged"))
        other = next(iter((RUNS / "svg").rglob(source.name)), source)
        said = act(Scene(path, twin=RUNS / "ppo" / "metrics.csv", other=other, rng=rng))
        assert said
        assert not path.is_file() or path.read_bytes() != source.read_bytes(), way
        path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)


@pytest.mark.filterwarnings("ignore:invalid value encountered")
@pytest.mark.parametrize(
    ("kind", "way", "sound", "wrong"),
    [
        ("last", "tensor short, no checksum", False, True),
        ("last", "tensor float16, valid checksum", False, True),
        ("last", "moment renamed, no checksum", False, True),
        ("last", "tensor NaN, old checksum", False, False),
        ("last", "number text, no checksum", False, True),
        ("last", "number of 400 digits, no checksum", False, True),
        ("last", "numbers deeply nested", False, True),
        ("last", "truncate", False, False),
        ("segment", "fewer rows, no checksum", False, True),
        ("config.json", "key missing", True, False),
        ("config.json", "key renamed", False, False),
        ("config.json", "deeply nested", False, False),
        ("config.json", "delete", False, False),
    ],
)
def test_only_other_values_are_sound(kind: str, way: str, sound: bool, wrong: bool, run: Path) -> None:
    """Only damage that is undetectable without a checksum need not be refused."""
    rng = random.Random(0)
    path = path_of(kind, run, rng)
    assert path is not None
    if kind == "last":
        save_checkpoint(path, load_checkpoint(path))  # with a checksum
    original = path.read_bytes()
    WAYS[kind][way](Scene(path, path, path, rng))
    form = form_of(path, original)
    assert (form.sound, form.wrong) == (sound, wrong)


def test_other_values_of_the_same_form_are_sound(run: Path) -> None:
    path = run / "checkpoints" / "last.safetensors"
    original, saved = path.read_bytes(), load_checkpoint(path)
    save_checkpoint(path, replace(saved, tensors={name: 0 * x for name, x in saved.tensors.items()}))
    assert form_of(path, original).sound
    save_checkpoint(path, replace(saved, numbers={**saved.numbers, "best": float("inf")}))
    assert form_of(path, original).wrong
    save_checkpoint(path, replace(saved, numbers={**saved.numbers, "best": float("-inf")}))
    assert form_of(path, original).sound


def test_mutants_differ_from_their_robot_and_repeat() -> None:
    for name, text in robots().items():
        mutants = [mutated(text, random.Random(k))[0] for k in range(20)]
        assert len(set(mutants)) > 10, name
        assert mutants == [mutated(text, random.Random(k))[0] for k in range(20)]


# ------------------------------------------------------------------------------------------------------------- moments

WRITER = """
import os, sys
from faults.moments import Hook, install
install(Hook.from_json(sys.argv[1]))
os.mkdir("runs/run")
for k in range(3):
    with open(f"runs/run/.config.{os.getpid()}.tmp.json", "w") as file:
        file.write("0123456789")
        file.flush()
        os.fsync(file.fileno())
    os.replace(file.name, "runs/run/config.json")
with open("elsewhere", "w"):
    pass
"""


def written(folder: Path, hook: Hook) -> int:
    """Return the exit status of a small program that writes three times."""
    (folder / "runs").mkdir()
    command = [sys.executable, "-c", WRITER, hook.to_json()]
    return subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONPATH": str(TESTS)}, check=False).returncode


def test_file_operations_are_recorded(tmp_path: Path) -> None:
    assert written(tmp_path, Hook(str(tmp_path / "runs"), record=str(tmp_path / "record"))) == 0
    each = [("open", "config.json"), ("fsync", "config.json"), ("rename", "config.json")]
    assert read_record(tmp_path / "record") == [("mkdir", "run"), *each * 3]


@pytest.mark.parametrize(
    ("moment", "left"),
    [
        (Moment("rename", "config.json", 2), ["0123456789", "0123456789"]),
        (Moment("rename", "config.json", 2, "half", 0.3), ["012", "0123456789"]),
        (Moment("rename", "config.json", 3, "after"), None),
        (Moment("rename", "config.json", 1, "after"), ["", "0123456789"]),
        (Moment(count=1), []),
    ],
)
def test_a_process_is_killed_at_a_moment(moment: Moment, left: list[str] | None, tmp_path: Path) -> None:
    """`left` lists the remaining files, temporary ones first."""
    status = written(tmp_path, Hook(str(tmp_path / "runs"), moment))
    if left is None:  # no operation follows
        assert status == 0
        return
    assert status == -signal.SIGKILL
    files = sorted((path for path in (tmp_path / "runs").rglob("*") if path.is_file()), key=lambda path: path.name)
    found = [path.read_text(encoding="utf-8") for path in files]
    assert found == left if moment.how != "after" else found[-1:] == left[-1:]


def test_kinds_of_files() -> None:
    kinds = {
        "run": "run",
        "run/config.json": "config.json",
        "run/checkpoints/last.safetensors": "last.safetensors",
        "run/checkpoints/.last.77.tmp.safetensors": "last.safetensors",
        "run/replay": "replay",
        "run/checkpoints/iteration-000003.safetensors": "iteration.safetensors",
        "": "runs",
        "run/replay/.rows-0-5.7.tmp.safetensors": "segment",
        "run/tensorboard/events.1": "tensorboard",
    }
    assert {name: kind_of(f"/runs/{name}", "/runs") for name in kinds} == kinds


# -------------------------------------------------------------------------------------------------------------- script


def test_the_report_names_what_failed_and_how_to_repeat_it() -> None:
    outcomes = [
        Outcome("kill-0000", "kill", "shac: killed", "identical", (), 1.0),
        Outcome("kill-0001", "kill", "sac: killed", "lost", ("lost: best",), 1.0),
    ]
    assert failed(outcomes) == outcomes[1:]
    assert "| kill   | 2      | 1        | identical 1, FAILED: lost 1 |" in table(outcomes)
    said = failures(outcomes, Path("out"), "--seed 0")
    assert "kill-0001 (kill): sac: killed\n    lost: best\n" in said
    assert 'again: make faults ARGS="--seed 0 --trial kill-0001"' in said


@pytest.mark.extended
def test_a_few_attacks_of_each_kind(tmp_path: Path) -> None:
    options = (
        "--kills 2 --signals 2 --damages 6 --robots 10 --only kills signals damage robots --algos shac sac --jobs 1"
    )
    command = [
        sys.executable,
        "-m",
        "faults",
        *options.split(),
        "--out",
        tmp_path / "out",
        "--json",
        tmp_path / "found",
    ]
    paths = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "found").read_text(encoding="utf-8"))
    assert len(found["outcomes"]) == 2 + 2 + 6 + 10 + 1
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["references"], "nothing else is kept"
