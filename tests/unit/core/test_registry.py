"""Registries of named factories, and the lazy imports of the `ahac` package."""

import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

import ahac
from ahac.core.errors import InputError
from ahac.core.registry import Registry
from ahac.envs import Task, make_task
from ahac.envs import registry as task_registry

GROUP = "ahac.fruit"


@pytest.fixture
def fruit() -> Registry[str]:
    table: Registry[str] = Registry("fruit", GROUP)
    table.add("apple", lambda: "a red one")
    table.add("pear", lambda: "a green one")
    return table


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str, str], None]:
    """Simulate an installed package with one module and entry points."""

    def installed(group: str, points: str, code: str) -> None:
        folder = tmp_path / "orchard-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: orchard\nVersion: 1.0\n", encoding="utf-8")
        (folder / "entry_points.txt").write_text(f"[{group}]\n{points}\n", encoding="utf-8")
        (tmp_path / "orchard.py").write_text(code, encoding="utf-8")
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "orchard", raising=False)

    return installed


def test_names_are_in_order_of_registration(fruit: Registry[str]) -> None:
    assert fruit.names() == ["apple", "pear"]
    assert fruit.lookup("pear")() == "a green one"


def test_an_unknown_name_lists_the_known_ones(fruit: Registry[str]) -> None:
    with pytest.raises(InputError, match="no fruit named 'plum'; known: apple, pear"):
        fruit.lookup("plum")


def test_a_name_registered_again_is_replaced_unless_it_is_built_in(fruit: Registry[str]) -> None:
    fruit.add("apple", lambda: "another")
    assert fruit.lookup("apple")() == "another"
    fruit.add("fig", lambda: "ours", builtin=True)
    with pytest.raises(InputError, match="the fruit 'fig' is built in; choose another name"):
        fruit.add("fig", lambda: "theirs")
    assert fruit.lookup("fig")() == "ours"


@pytest.mark.parametrize("factory", [None, "a red one", 3])
def test_a_factory_is_a_function(fruit: Registry[str], factory: Any) -> None:  # noqa: ANN401
    with pytest.raises(InputError, match="fruit 'plum' must be a function that creates one, got"):
        fruit.add("plum", factory)
    assert fruit.names() == ["apple", "pear"]


def test_other_packages_add_names_by_entry_points(
    fruit: Registry[str], install: Callable[[str, str, str], None]
) -> None:
    install(GROUP, "quince = orchard:quince", "def quince(): return 'a yellow one'")
    assert [point.name for point in entry_points(group=GROUP)] == ["quince"]
    assert fruit.names() == ["apple", "pear", "quince"]
    assert "orchard" not in sys.modules, "listing names must not import anything"
    assert fruit.lookup("quince")() == "a yellow one"
    with pytest.raises(InputError, match="no fruit named 'plum'; known: apple, pear, quince"):
        fruit.lookup("plum")
    fruit.add("quince", lambda: "our own")
    assert fruit.lookup("quince")() == "our own", "a package must not be able to block built-in names"


def test_our_own_names_win_over_those_of_other_packages(
    fruit: Registry[str], install: Callable[[str, str, str], None]
) -> None:
    install(GROUP, "apple = orchard:apple", "def apple(): return 'a rotten one'")
    assert fruit.names() == ["apple", "pear"]
    assert fruit.lookup("apple")() == "a red one"


def test_entry_points_of_other_groups_are_ignored(
    fruit: Registry[str], install: Callable[[str, str, str], None]
) -> None:
    install("somebody.else", "quince = orchard:quince", "def quince(): return 'a yellow one'")
    assert fruit.names() == ["apple", "pear"]


def cartpole_again(variant: str) -> Task:
    return make_task("cartpole", variant)


def test_a_task_is_registered_and_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_registry._tasks, "_factories", dict(task_registry._tasks._factories))
    ahac.register_task("mine", cartpole_again)
    assert ahac.tasks()[-1] == "mine"
    env = ahac.make("mine", num_envs=2, variant="released", episode_steps=3)
    assert env.spec.episode_steps == 3
    assert env.obs.shape == (2, 5)
    with pytest.raises(InputError, match="the task 'cartpole' is built in"):
        ahac.register_task("cartpole", cartpole_again)


def test_a_task_function_needs_no_variant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_registry._tasks, "_factories", dict(task_registry._tasks._factories))
    ahac.register_task("plain", lambda: make_task("cartpole"))
    assert make_task("plain").name == "cartpole"
    with pytest.raises(InputError, match="this task has no variants, got variant='released'; omit it"):
        make_task("plain", "released")


def test_a_package_adds_a_task_by_an_entry_point(install: Callable[[str, str, str], None]) -> None:
    code = "from ahac.envs import make_task\ndef pole(variant): return make_task('cartpole', variant)"
    install("ahac.tasks", "pole = orchard:pole", code)
    assert "pole" in ahac.tasks()
    assert ahac.make("pole", num_envs=2).spec.action_size == 1


def test_registered_tasks_do_not_leak_between_tests() -> None:
    assert "mine" not in ahac.tasks()
    assert "pole" not in ahac.tasks()


def test_an_unknown_task_lists_the_known_ones() -> None:
    with pytest.raises(
        InputError, match=r"no task named 'hoper' \(did you mean hopper\?\); known: hopper, ant, anymal"
    ):
        ahac.make("hoper", num_envs=2)


@pytest.mark.parametrize("task", [None, 3, cartpole_again])
def test_arguments_other_than_names_and_tasks_are_rejected(task: Any) -> None:  # noqa: ANN401
    with pytest.raises(InputError, match=r"task must be a Task or a name from ahac.tasks\(\), got"):
        ahac.make(task, num_envs=2)


def test_importing_the_package_imports_nothing_large() -> None:
    code = "import sys, ahac; dir(ahac); print(*sys.modules.keys() & {'torch', 'mujoco', 'warp', 'gymnasium', 'numpy'})"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == ""


def test_importing_the_tasks_does_not_import_gymnasium() -> None:
    code = "import sys, ahac; ahac.tasks(); print('gymnasium' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


def test_the_package_lists_its_public_names() -> None:
    code = "import ahac; print(dir(ahac) == ahac.__all__); import ahac.core; print(*set(dir(ahac)) - set(ahac.__all__))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["True", "core"]
    assert {"make", "make_gym", "tasks", "register_task", "RobotTask", "__version__"} <= set(ahac.__all__)
    for name in ahac.__all__:
        assert getattr(ahac, name) is not None


def test_a_misspelled_attribute_lists_the_public_names() -> None:
    with pytest.raises(AttributeError, match=r"module 'ahac' has no attribute 'walk'; it has: .*RobotTask, .*make"):
        ahac.walk  # noqa: B018
