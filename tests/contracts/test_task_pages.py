"""Every task has a page, and the tables on it match the code."""

import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pytest

from ahac.envs import (
    STIFFNESS_SIGNALS,
    GaitClock,
    NoisyReset,
    RandomPushes,
    Task,
    VelocityCommand,
    WalkRewards,
    make_task,
    tasks,
)
from ahac.envs.g1 import WEIGHTS as G1_WEIGHTS
from ahac.envs.planning import observation_sizes
from ahac.envs.variants import VARIANTS

PAGES = Path(__file__).parents[2] / "docs" / "tasks"
OVERVIEW = PAGES / "README.md"
TASKS = tuple(tasks())
"""Tasks before any test registers more."""
WALKING = ("go1", "go2", "g1")
"""Tasks of `walk`."""
ABSENT = "–"
"""Entry of a variant without this term."""

Row = dict[str, str]


def rows(page: Path, heading: str) -> list[Row]:
    """Return the rows of the first table under a heading, as dictionaries by column name."""
    _, match, rest = page.read_text(encoding="utf-8").partition(f"{heading}\n")
    assert match, f"{page.name} has no section {heading!r}"
    section = re.split(r"^#", rest, maxsplit=1, flags=re.MULTILINE)[0]
    table = re.search(r"(?:^\|.*\n)+", section, flags=re.MULTILINE)
    assert table is not None, f"{heading!r} of {page.name} has no table"
    names, _, *body = [[cell.strip() for cell in line.strip("|").split("|")] for line in table[0].splitlines()]
    return [dict(zip(names, cells, strict=True)) for cells in body]


def first_number(text: str) -> int:
    """Return the integer at the beginning of a cell."""
    number = re.match(r"\d+", text)
    assert number is not None, f"{text!r} does not begin with a number"
    return int(number[0])


def numbers(text: str) -> list[float]:
    """Return all numbers of a cell."""
    return [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", text.replace("−", "-"))]


def bounds(value: float | Sequence[float]) -> list[float]:
    """Return the bounds of a range, or a number."""
    return list(value) if isinstance(value, Sequence) else [value]


def slots(text: str) -> range:
    """Return the slots that "7" or "1–4" denotes."""
    first, _, last = text.partition("–")
    return range(int(first), int(last or first) + 1)


@pytest.fixture(params=TASKS)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def page_of(name: str) -> Path:
    return PAGES / f"{name}.md"


def test_every_task_has_a_page_and_every_page_a_task() -> None:
    pages = {page.stem for page in PAGES.glob("*.md")} - {OVERVIEW.stem}
    assert pages == set(TASKS)


def test_the_observation_table_is_the_layout(name: str) -> None:
    layout, table = observation_sizes(make_task(name)), rows(page_of(name), "## Observation")
    assert [(row["term"], len(slots(row["slots"]))) for row in table] == list(layout.items())
    assert [i for row in table for i in slots(row["slots"])] == list(range(sum(layout.values())))


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_reward_table_has_the_terms(name: str, variant: str) -> None:
    table = rows(page_of(name), "## Reward")
    column = "value" if name in WALKING else f"`{variant}`"
    shown = [row["term"] for row in table if row[column] != ABSENT]
    assert shown == list(make_task(name, variant).reward)


@pytest.mark.parametrize(("name", "weights"), [("go1", WalkRewards()), ("go2", WalkRewards()), ("g1", G1_WEIGHTS)])
def test_the_reward_table_of_walking_robots_has_the_weights(name: str, weights: WalkRewards) -> None:
    shown = {row["term"]: numbers(row["weight w"]) for row in rows(page_of(name), "## Reward")}
    assert shown == {term: [asdict(weights)[term]] for term in make_task(name).reward}


def test_the_episode_table_has_steps_and_substeps(name: str) -> None:
    task, table = make_task(name), {row["what"]: row["value"] for row in rows(page_of(name), "## Episodes")}
    assert table["control step"] == f"1/{1 / task.dt:.0f} s"
    assert table["substeps"] == f"{task.substeps} of 1/{task.substeps / task.dt:.0f} s"
    assert first_number(table["episode steps"]) == task.episode_steps


def walking_numbers(task: Task) -> dict[str, list[float]]:
    """Return the numbers in the rows of the episode table that only tasks of `walk` have."""
    command, clock, pushes = (task.memory[part].owner for part in ("command", "gait", "push"))
    assert isinstance(command, VelocityCommand)
    assert isinstance(clock, GaitClock)
    assert isinstance(pushes, RandomPushes)
    assert isinstance(task.reset, NoisyReset)
    ranges = {pattern.partition(":")[0]: (d.low[0], d.high[0]) for pattern, d in task.randomize.items()}
    (left, right), (clockwise, counter) = bounds(command.lin_vel_y), bounds(command.ang_vel_z)
    assert (left, clockwise) == (-right, -counter)
    strength = [100.0 * bound for bound in ranges["actuator_strength"]]
    drawn = [*ranges["geom_friction"], *ranges["body_mass"], *strength]
    often = bounds(command.resample_every)
    return {
        "command": [*bounds(command.lin_vel_x), right, counter, *often, 100.0 * command.standing],
        "gait clock": bounds(clock.frequency),
        "disturbances": [*drawn, pushes.velocity, *bounds(pushes.every)],
        "reset": [task.reset.root_rotation, task.reset.joint_position, task.reset.velocity],
    }


@pytest.mark.parametrize("name", WALKING)
def test_the_episode_table_of_walking_robots_has_commands_and_disturbances(name: str) -> None:
    table = {row["what"]: row["value"] for row in rows(page_of(name), "## Episodes")}
    for what, expected in walking_numbers(make_task(name)).items():
        assert numbers(table[what]) == pytest.approx(expected), what


def test_the_overview_lists_all_tasks_with_their_sizes() -> None:
    shown = {}
    for row in rows(OVERVIEW, "# Tasks"):
        link = re.fullmatch(r"\[(\w+)\]\((\w+)\.md\)", row["task"])
        assert link is not None
        assert link[1] == link[2]
        shown[link[1]] = tuple(int(row[part]) for part in ("observation", "action", "substeps", "episode steps"))
    definitions = {name: make_task(name) for name in TASKS}
    assert shown == {
        name: (sum(observation_sizes(task).values()), task.model.nu, task.substeps, task.episode_steps)
        for name, task in definitions.items()
    }


def test_the_overview_lists_the_stiffness_signals() -> None:
    assert [row["signal"].strip("`") for row in rows(OVERVIEW, "## How stiff a step was")] == list(STIFFNESS_SIGNALS)


@pytest.mark.extended
def test_code_of_the_overview_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", OVERVIEW.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert blocks
    namespace: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(OVERVIEW), "exec"), namespace)
