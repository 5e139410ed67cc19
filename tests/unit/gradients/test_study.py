"""Results as files: written, read, and not computed twice."""

from pathlib import Path

import numpy as np
import pytest

from ahac.core.errors import InputError
from ahac.gradients.study import Study, load_or_compute, load_study


def made(value: float = 1.0) -> Study:
    return Study("kind", {"n": [1, 2], "name": "x"}, {"a": np.arange(3) * value, "words": np.array(["ä", "b"])})


def test_a_study_is_read_as_it_was_written(tmp_path: Path) -> None:
    made().save(tmp_path / "new" / "study.npz")
    found = load_study(tmp_path / "new" / "study.npz")
    assert (found.kind, found.settings) == ("kind", {"n": [1, 2], "name": "x"})
    assert found["a"].tolist() == [0.0, 1.0, 2.0]
    assert found["words"].tolist() == ["ä", "b"]
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["study.npz"]


def test_what_was_computed_is_computed_again_only_for_other_settings_or_when_asked(tmp_path: Path) -> None:
    path, asked = tmp_path / "study.npz", list[float]()

    def make(value: float) -> Study:
        asked.append(value)
        return made(value)

    settings = {"n": (1, 2), "name": "x"}  # a tuple, where JSON has a list
    assert load_or_compute(path, "kind", settings, lambda: make(1.0))["a"][1] == 1.0
    assert load_or_compute(path, "kind", settings, lambda: make(2.0))["a"][1] == 1.0
    assert load_or_compute(path, "kind", settings, lambda: make(3.0), redo=True)["a"][1] == 3.0
    assert load_or_compute(path, "kind", {**settings, "name": "y"}, lambda: make(4.0))["a"][1] == 4.0
    assert load_or_compute(path, "other", settings, lambda: make(5.0))["a"][1] == 5.0
    assert asked == [1.0, 3.0, 4.0, 5.0]


def test_missing_and_damaged_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no study at .*none\.npz; `ahac grad study` makes one"):
        load_study(tmp_path / "none.npz")
    made().save(tmp_path / "whole.npz")
    (tmp_path / "half.npz").write_bytes((tmp_path / "whole.npz").read_bytes()[:200])
    np.savez(tmp_path / "other.npz", a=np.ones(2))
    for name in ("half", "other"):
        with pytest.raises(InputError, match=rf"{name}\.npz is damaged or no study"):
            load_study(tmp_path / f"{name}.npz")
