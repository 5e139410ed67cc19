"""Studies in TOML: products, names, settings, errors that name the table, and the files of the package."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ahac.algos.config import ShortHorizonConfig
from ahac.cli.sweep import read_list
from ahac.core.errors import InputError
from ahac.experiments.study import (
    available,
    configure_runs,
    find_study,
    override,
    parse_override,
    read_study,
    select,
)
from ahac.training.api import configure
from ahac.training.config import RunConfig
from support.marks import keep

ROOT = Path(__file__).parents[3]
STUDY = """
about = "an example"
seeds = "0-1"
settings = {device = "cpu", num_envs = 64}

[[runs]]
tasks = ["hopper", "ant"]
algos = ["ahac", "shac"]

[[runs]]
tasks = ["ant"]
algos = ["ahac"]
presets = ["default", "paper"]
seeds = [7]
name = "wide"
[runs.settings]
num_envs = 512
algorithm.actor.hidden = [64, 32]
[[runs.variants]]
name = "h32"
settings = {"algorithm.horizon.max" = 32}
[[runs.variants]]
name = "single"
settings = {algorithm.critic = {num_critics = 1, plateau_tolerance = "none"}}
"""
ONE = '[[runs]]\ntasks = ["hopper"]\nalgos = ["ahac"]\n'


def written(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return path


def configs(folder: Path, text: str, **overrides: Any) -> list[RunConfig]:  # noqa: ANN401 - settings
    return configure_runs(read_study(written(folder, text)).runs, "runs", overrides)


def test_a_study_is_a_product_with_all_combinations_of_a_seed_before_the_next(tmp_path: Path) -> None:
    study = read_study(written(tmp_path, STUDY))
    assert (study.name, study.about) == ("mine", "an example")
    assert [run.name for run in study.runs] == [
        *(f"{task}-{algo}-s{seed}" for seed in (0, 1) for task in ("hopper", "ant") for algo in ("ahac", "shac")),
        *(f"ant-ahac-{rest}-s7" for rest in ("wide-h32", "wide-single", "paper-wide-h32", "paper-wide-single")),
    ]


def test_settings_of_variants_replace_those_of_tables_and_of_the_study(tmp_path: Path) -> None:
    runs = {config.name: config for config in configs(tmp_path, STUDY)}
    first, h32, single = (runs[name] for name in ("hopper-ahac-s0", "ant-ahac-wide-h32-s7", "ant-ahac-wide-single-s7"))
    assert (first.num_envs, first.device, first.seed, first.out) == (64, "cpu", 0, "runs")
    assert (h32.num_envs, h32.seed, h32.preset) == (512, 7, "default")
    assert runs["ant-ahac-paper-wide-h32-s7"].preset == "paper"
    assert isinstance(h32.algorithm, ShortHorizonConfig)
    assert h32.algorithm.horizon.max == 32
    assert h32.algorithm.actor.hidden == (64, 32)
    assert isinstance(single.algorithm, ShortHorizonConfig)
    assert single.algorithm.critic is not None
    assert (single.algorithm.critic.num_critics, single.algorithm.critic.plateau_tolerance) == (1, None)


def test_overrides_replace_settings_of_all_runs(tmp_path: Path) -> None:
    runs = configs(tmp_path, STUDY, iterations=5, num_envs=8)
    assert {(run.iterations, run.num_envs) for run in runs} == {(5, 8)}
    with pytest.raises(InputError, match=r"^no setting named 'iteration' .*; got the overrides iteration$"):
        configs(tmp_path, STUDY, iteration=5)
    with pytest.raises(InputError, match="device must be of type str, got 3; got the overrides device"):
        configs(tmp_path, STUDY, device=3)


@pytest.mark.parametrize("seeds", ['"0-2, 5"', "[0, 1, 2, 5]", '"0, 1,2, 5"'])
def test_seeds_are_a_list_or_ranges(seeds: str, tmp_path: Path) -> None:
    study = read_study(written(tmp_path, f"seeds = {seeds}\n{ONE}"))
    assert [run.seed for run in study.runs] == [0, 1, 2, 5]


def test_without_seeds_the_seed_is_0(tmp_path: Path) -> None:
    assert [run.name for run in read_study(written(tmp_path, ONE)).runs] == ["hopper-ahac-s0"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed = 3\n" + ONE, r"mine.toml: unknown key 'seed' \(did you mean seeds\?\)"),
        ("name = 3\n" + ONE, "mine.toml: name must be a text, got 3"),
        ('name = "a/b"\n' + ONE, "mine.toml: name must be a folder name without a path, got 'a/b'"),
        ('name = "a\\u001b"\n' + ONE, "mine.toml: name must have printable characters only"),
        ("seeds = 5\n" + ONE, "seeds must be distinct whole numbers, .* got 5"),
        ('seeds = "0-x"\n' + ONE, "seeds must be distinct whole numbers"),
        ('seeds = "0, 5-2"\n' + ONE, "seeds must be distinct whole numbers, .* got '0, 5-2'"),
        ("seeds = [0, 0]\n" + ONE, "seeds must be distinct whole numbers"),
        ('seeds = "0-99999999999"\n' + ONE, "a range has at most 1000 seeds, got '0-99999999999'"),
        ("seeds = [true]\n" + ONE, "seeds must be distinct whole numbers"),
        ("seeds = []\n" + ONE, "seeds must be distinct whole numbers"),
        ("settings = 3\n" + ONE, "settings must be a table"),
        (
            ONE + "settings = {iterations = 5, env_steps = 80}",
            r"\[\[runs\]\] 1: expected one length, got iterations = 5 and env_steps = 80; remove one of them",
        ),
        ("settings = {seed = 3}\n" + ONE, "mine.toml: 'seed' is not a setting here; use seeds"),
        (ONE + "task = 3", r"\[\[runs\]\] 1: unknown key 'task' \(did you mean tasks\?\)"),
        (ONE + ONE, r"\[\[runs\]\] 2: the run 'hopper-ahac-s0' is also made by \[\[runs\]\] 1; give one"),
        ('[[runs]]\nalgos = ["ahac"]', r"\[\[runs\]\] 1: tasks must be a list of names, .* got None"),
        ('[[runs]]\ntasks = "ant"\nalgos = ["ahac"]', "tasks must be a list of names"),
        (
            '[[runs]]\ntasks = ["ant", "ant"]\nalgos = ["ahac"]',
            "tasks must be distinct, got ant, ant; remove the repeated ones",
        ),
        (ONE + "[[runs.variants]]\nnam = 3", r"\[\[runs\]\] 1, \[\[runs.variants\]\] 1: unknown key 'nam'"),
        (ONE + "[[runs.variants]]", r"\[\[runs.variants\]\] 1: name must be a text, got None"),
        (ONE + "[runs.variants]\nname = 3", r"\[\[runs\]\] 1: variants must be tables \[\[runs.variants\]\]"),
        ("[runs]\ntasks = 3", r"runs must be tables \[\[runs\]\]"),
        ("runs = [3]", r"\[\[runs\]\] 1: expected a table, got 3"),
        ("about = 'x'", "has no runs; add a table"),
        ("about = ", "mine.toml is not a study: Invalid value"),
    ],
)
def test_errors_name_the_table(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        read_study(written(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[runs]]\ntasks = ["hoper"]\nalgos = ["ahac"]', r"\[\[runs\]\] 1: no task named 'hoper'"),
        ('[[runs]]\ntasks = ["ant"]\nalgos = ["ahc"]', r"\[\[runs\]\] 1: no algorithm named 'ahc'"),
        (ONE + 'presets = ["papr"]', r"\[\[runs\]\] 1: no preset named 'papr' \(did you mean paper\?\)"),
        (ONE + "settings = {num_env = 3}", r"no setting named 'num_env' \(did you mean num_envs\?\)"),
        (
            ONE + "settings = {x = 3}",
            "no setting named 'x'; settings: variant, (?!.*(task|out|name|seed),).*algorithm$",
        ),
        (ONE + "settings = {num_envs = 'x'}", r"\[\[runs\]\] 1: num_envs must be a whole number"),
        (ONE + "settings = {device = 3}", "device must be of type str, got 3"),
        (ONE + "settings = {algorithm.actor.normalize_obs = 1}", "normalize_obs must be of type bool, got 1"),
        (ONE + "[[runs.variants]]\nname='v'\nsettings = {x = 1}", r"\[\[runs.variants\]\] 1: no setting named 'x'"),
    ],
)
def test_wrong_settings_name_the_table(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        configs(tmp_path, text)


def test_runs_are_selected_by_name(tmp_path: Path) -> None:
    runs = read_study(written(tmp_path, STUDY)).runs
    assert [run.name for run in select(runs, ["hopper-shac-*", "*-wide-h32-s7"])] == [
        "hopper-shac-s0", "hopper-shac-s1", "ant-ahac-wide-h32-s7", "ant-ahac-paper-wide-h32-s7",
    ]  # fmt: skip
    assert select(runs, []) == runs
    assert [run.name for run in select(runs, ["hopper-*"], ["*-s0", "hopper-shac-*"])] == ["hopper-ahac-s1"]
    with pytest.raises(InputError, match=r"no run is named like 'x\*'"):
        select(runs, [], ["x*"])
    with pytest.raises(InputError, match=r"'h\*' leaves out every selected run of hopper-ahac-s0, .*; use narrower"):
        select(runs, ["hopper-*"], ["h*"])
    for patterns in (["x*"], ["hopper-*", "x*"]):
        with pytest.raises(InputError, match=r"no run is named like 'x\*'; runs: hopper-ahac-s0, .* and 6 more"):
            select(runs, patterns)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("iterations=5", ("iterations", 5)),
        ("num-envs=8", ("num_envs", 8)),
        ("device=cpu", ("device", "cpu")),
        ("deterministic=true", ("deterministic", True)),
        ("algorithm.actor.hidden=[8, 8]", ("algorithm.actor.hidden", (8, 8))),
        ("env_steps=none", ("env_steps", None)),
        ("device=", ("device", "")),
    ],
)
def test_overrides_are_written_as_in_toml(text: str, expected: tuple[str, object]) -> None:
    assert parse_override(text) == dict([expected])


def test_an_override_may_be_a_table() -> None:
    assert parse_override("algorithm.horizon={max=32, rule='fixed'}") == {
        "algorithm.horizon.max": 32, "algorithm.horizon.rule": "fixed",
    }  # fmt: skip


def test_iterations_replace_a_length_in_environment_steps(tmp_path: Path) -> None:
    text = "settings = {env_steps = 9000}\n" + ONE
    assert [run.length for run in configs(tmp_path, text)] == [("env_steps", 9000)]
    assert [run.length for run in configs(tmp_path, text, iterations=5)] == [("iteration", 5)]
    assert [run.length for run in configs(tmp_path, text, iterations=5, env_steps=70)] == [("env_steps", 70)]
    table = "settings = {iterations = 5}\n"
    variants = '[[runs.variants]]\nname = "a"\n[[runs.variants]]\nname = "b"\nsettings = {env_steps = 80}\n'
    assert [run.length for run in configs(tmp_path, text + table + variants)] == [("iteration", 5), ("env_steps", 80)]


@pytest.mark.parametrize(
    ("text", "message"),
    [("iterations", "expected KEY=VALUE"), ("=3", "expected KEY=VALUE"), ("seed=3", "'seed' is not a setting here")],
)
def test_wrong_overrides_are_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_override(text)


def test_an_override_keeps_the_other_settings() -> None:
    settings: dict[str, Any] = {"num_envs": 8, "name": "a", "algorithm.horizon.initial": 16}
    config = configure("hopper", "shac", **settings)
    changed = override(config, {"iterations": 5, "algorithm.gamma": 0.9})
    assert isinstance(config.algorithm, ShortHorizonConfig)
    assert changed == replace(config, iterations=5, algorithm=replace(config.algorithm, gamma=0.9))


def test_a_task_in_a_file_gives_its_name_without_the_file(tmp_path: Path) -> None:
    study = read_study(written(tmp_path, '[[runs]]\ntasks = ["robots/dog.py:dog"]\nalgos = ["ahac"]'))
    assert [(run.name, run.task) for run in study.runs] == [("dog-ahac-s0", "robots/dog.py:dog")]


def test_folders_and_missing_files_are_no_studies(tmp_path: Path) -> None:
    (tmp_path / "a.toml").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"^[^']*a\.toml is a folder; expected a study, a TOML file"):
        read_study(tmp_path / "a.toml")
    with pytest.raises(InputError, match=r"^no such file: [^']*file/b\.toml; expected a study"):
        read_study(tmp_path / "file" / "b.toml")


def test_a_length_may_replace_none_in_the_same_table(tmp_path: Path) -> None:
    (run,) = configs(tmp_path, ONE + 'settings = {iterations = 5, env_steps = "none"}')
    assert run.length == ("iteration", 5)


def test_studies_of_the_package_are_found_by_name() -> None:
    assert {"paper-main", "paper-ahac1", "paper-ablation", "horizon-rules", "smoke"} <= available().keys()
    assert find_study("smoke").name == "smoke.toml"
    with pytest.raises(InputError, match=r"no study named 'smoky' \(did you mean smoke\?\); expected a list of runs"):
        find_study("smoky")


@pytest.mark.parametrize("name", keep(2, sorted(available(), reverse=True)))
def test_studies_of_the_package_are_valid(name: str) -> None:
    study = read_study(find_study(name))
    assert study.name == name
    assert study.about
    assert len(configure_runs(study.runs, "runs", {})) == len(study.runs)


@pytest.mark.extended
def test_horizon_rules_has_the_runs_of_the_lists() -> None:
    def alike(config: RunConfig) -> RunConfig:
        return replace(config, name="", device="auto")

    folder = ROOT / "docs" / "studies"
    left = [alike(config) for config in configure_runs(read_study(find_study("horizon-rules")).runs, "runs", {})]
    for config in (*read_list(folder / "ant-horizons.txt"), *read_list(folder / "hopper-horizons.txt")):
        left.remove(alike(config))
    assert not left


def test_listing_studies_and_misspelling_one_import_no_torch() -> None:
    code = "import sys; from ahac.cli.main import main; assert main(['list', 'studies']) == 0; "
    code += "assert main(['sweep', 'smoky']) == 2; assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    header, *rows = (line.split() for line in done.stdout.splitlines())
    assert header == ["study", "runs", "about"]
    assert {row[0]: row[1] for row in rows}["paper-main"] == "250"
    assert [row[0] for row in rows] == list(available())
