"""Custom algorithms: registering, training, resuming and reading their runs, and errors."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

import ahac
from ahac.algos import registry
from ahac.algos.algorithm import IterationResult
from ahac.algos.config import ShortHorizonConfig
from ahac.algos.ppo import PPO, PPOConfig
from ahac.algos.recipes import ALGOS, describe_algorithms, recipe
from ahac.cli.main import main
from ahac.core import registry as core_registry
from ahac.core.distributed import ProcessGroup
from ahac.core.env import Env, EnvSpec
from ahac.core.errors import InputError
from ahac.training.config import RunConfig, config_from_file, config_to_file
from ahac.training.run import open_run
from support.small_algorithms import SETTINGS, worlds
from support.small_runs import state, table


@dataclass(frozen=True, kw_only=True)
class WalkConfig:
    """A random walk in the space of policies. It learns nothing."""

    scale: float = 0.1
    """Standard deviation of its steps."""
    steps: int = 4
    """Steps per iteration."""


class Walk:
    """Takes random steps, with the metrics of a learner."""

    def __init__(self, config: WalkConfig, spec: EnvSpec, seed: int, ranks: ProcessGroup) -> None:
        self.config = config
        self.generator = torch.Generator(spec.device).manual_seed(seed)
        self.weight = torch.zeros(spec.action_size, spec.obs_size, dtype=spec.dtype)
        self.policy_state = {"weight": self.weight}

    def iterate(self, env: Env, progress: float) -> IterationResult:
        self.weight += self.config.scale * torch.randn(self.weight.shape, generator=self.generator)
        with torch.no_grad():
            steps = [env.step(self.act(env.obs)) for _ in range(self.config.steps)]
        metrics = {"reward": float(torch.stack([step.reward for step in steps]).mean())}
        return IterationResult(env.spec.num_envs * len(steps), metrics, steps)

    def act(self, obs: Tensor) -> Tensor:
        return torch.tanh(obs @ self.weight.T)

    def policy_layers(self) -> nn.Sequential:
        layer = nn.Linear(self.weight.shape[1], len(self.weight), bias=True)
        layer.load_state_dict({"weight": self.weight, "bias": torch.zeros(len(self.weight))})
        return nn.Sequential(layer, nn.Tanh())

    def state_dict(self) -> dict[str, Tensor]:
        return {"weight": self.weight.clone(), "generator": self.generator.get_state()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.weight.copy_(state["weight"])
        self.generator.set_state(state["generator"])


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the algorithm for one test."""
    monkeypatch.setattr(registry._algorithms, "_factories", dict(registry._algorithms._factories))
    ahac.register_algorithm("walk", Walk, WalkConfig)


def train(folder: Path, name: str = "mine", **more: object) -> Path:
    settings = {"num_envs": 8, "iterations": 4, "device": "cpu", "eval_episodes": 4, "out": str(folder), "name": name}
    return ahac.train("cartpole", "walk", display=False, **{**settings, **more}).folder


def test_a_custom_algorithm_trains_and_resumes_bit_exactly(tmp_path: Path) -> None:
    whole = train(tmp_path, "whole")
    part = train(tmp_path, "part", callbacks=[lambda run, metrics: metrics["iteration"] < 2])
    assert len(table(part)) == 2
    ahac.resume(part, display=False)
    assert state(part) == state(whole)
    assert table(part) == table(whole)
    assert "reward" in table(whole)[0]


def test_its_settings_come_back_from_the_run_folder(tmp_path: Path) -> None:
    folder = train(tmp_path, algorithm=WalkConfig(scale=0.5))
    assert json.loads((folder / "config.json").read_text(encoding="utf-8"))["algorithm"] == {"scale": 0.5, "steps": 4}
    assert open_run(folder).config.algorithm == WalkConfig(scale=0.5)
    assert train(tmp_path, "dotted", **{"algorithm.steps": 2}).is_dir()


def test_settings_with_the_fields_of_another_algorithm_come_back() -> None:
    @dataclass(frozen=True, kw_only=True)
    class OtherConfig:
        """The same fields."""

        scale: float = 2.0
        steps: int = 1

    ahac.register_algorithm("other", Walk, OtherConfig)
    for algo, settings in (("walk", WalkConfig(steps=3)), ("other", OtherConfig(steps=3))):
        config = RunConfig(algo=algo, algorithm=settings)
        assert config_from_file(json.loads(json.dumps(config_to_file(config)))) == config


def test_the_command_line_trains_evaluates_and_lists_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options = "--num-envs 8 --iterations 2 --eval-episodes 4 --device cpu --algorithm.scale 0.25 --name mine"
    assert main(["train", "cartpole", "--algo", "walk", *options.split()]) == 0
    assert open_run(tmp_path / "runs" / "mine").config.algorithm == WalkConfig(scale=0.25)
    assert main(["eval", "runs/mine"]) == 0
    assert main(["resume", "runs/mine", "--iterations", "3"]) == 0
    assert main(["export", "runs/mine", "--format", "torchscript"]) == 0
    capsys.readouterr()
    assert main(["list", "algos"]) == 0
    assert "A random walk in the space of policies. It learns nothing" in capsys.readouterr().out


def test_a_run_of_an_unregistered_algorithm_says_what_to_do(tmp_path: Path) -> None:
    folder = train(tmp_path)
    del registry._algorithms._factories["walk"]
    with pytest.raises(
        InputError, match=r"algorithm 'walk' is not known in this program; known: ahac, .* call ahac.reg"
    ):
        open_run(folder)


def test_settings_of_an_unknown_name_are_refused() -> None:
    config = RunConfig(algo="my_variant", algorithm=replace(PPOConfig(), gamma=0.5))
    with pytest.raises(InputError, match="its algorithm 'my_variant' is not known in this program"):
        config_from_file(json.loads(json.dumps(config_to_file(config))))


def test_algorithms_of_other_packages_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    del registry._algorithms._factories["walk"]
    entry = SimpleNamespace(name="walk", load=lambda: lambda: (Walk, WalkConfig))
    found = core_registry.entry_points
    monkeypatch.setattr(
        core_registry, "entry_points", lambda group: [entry] if group == "ahac.algorithms" else found(group=group)
    )
    assert describe_algorithms().keys() == {*ALGOS, "walk"}
    assert open_run(train(tmp_path)).config.algorithm == WalkConfig()


def test_a_recipe_has_the_default_settings_and_the_worlds_of_the_task() -> None:
    made, ours = recipe("ant", "walk"), recipe("ant", "ahac")
    assert made.algorithm == WalkConfig()
    assert (made.num_envs, made.iterations) == (ours.num_envs, ours.iterations)


def test_settings_select_the_algorithm_and_subclasses_that_of_their_base() -> None:
    @dataclass(frozen=True, kw_only=True)
    class MyPPOConfig(PPOConfig):
        """PPO with other defaults."""

    assert isinstance(registry.make_algorithm(MyPPOConfig(hidden=(4,), critic_hidden=(4,)), worlds().spec, 0), PPO)
    ahac.register_algorithm("my_ppo", Walk, MyPPOConfig)
    assert isinstance(registry.make_algorithm(MyPPOConfig(hidden=(4,)), worlds().spec, 0), Walk)


def test_one_process_is_the_default() -> None:
    two = ProcessGroup(size=2)
    with pytest.raises(InputError, match="Walk trains in one process, got 2 ranks; start it without torchrun"):
        registry.check_process_group(WalkConfig(), two)
    ahac.register_algorithm("walk", Walk, WalkConfig, distributed=True)
    registry.check_process_group(WalkConfig(), two)
    registry.check_process_group(SETTINGS["shac"], two)


@dataclass
class Melting:
    """Not frozen."""


@dataclass(frozen=True)
class Incomplete:
    """Without a default."""

    steps: int


@pytest.mark.parametrize(
    ("name", "make", "config", "message"),
    [
        ("mine", 3, WalkConfig, "make of algorithm 'mine' must be a function that creates one, got 3"),
        ("mine", Walk, Walk, "config of algorithm 'mine' must be a dataclass, got <class"),
        ("mine", Walk, WalkConfig(), "must be a dataclass, got WalkConfig"),
        ("mine", Walk, Melting, r"Melting must be frozen: @dataclass\(frozen=True, kw_only=True\)"),
        ("mine", Walk, Incomplete, "every field of Incomplete must have a default: .*steps"),
        ("mine", Walk, WalkConfig, "WalkConfig already has the algorithm 'walk'; settings select their algorithm"),
        ("mine", Walk, ShortHorizonConfig, "ShortHorizonConfig already has the algorithm 'ahac'"),
    ],
)
def test_wrong_registrations_are_refused(name: str, make: object, config: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ahac.register_algorithm(name, make, config)  # pyright: ignore[reportArgumentType]


def test_built_in_names_are_taken_and_others_may_be_registered_again() -> None:
    @dataclass(frozen=True)
    class Mine:
        """Another class."""

    with pytest.raises(InputError, match="the algorithm 'ppo' is built in"):
        ahac.register_algorithm("ppo", Walk, Mine)
    ahac.register_algorithm("walk", Walk, Mine)
    assert registry.settings_class("walk") is Mine


def test_settings_of_another_algorithm_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="algorithm must be a WalkConfig for algo 'walk', got a PPOConfig"):
        train(tmp_path, algorithm=PPOConfig())
    assert not list(tmp_path.iterdir())
