"""Study files: saved, loaded, and not computed twice."""

from pathlib import Path

import numpy as np
import pytest

from ahac.core.errors import InputError
from ahac.gradients.study import Study, load_or_compute, load_study


def sample_study(value: float = 1.0) -> Study:
    return Study("kind", {"n": [1, 2], "name": "x"}, {"a": np.arange(3) * value, "words": np.array(["ä", "b"])})


def test_a_saved_study_loads_unchanged(tmp_path: Path) -> None:
    sample_study().save(tmp_path / "new" / "study.npz")
    study = load_study(tmp_path / "new" / "study.npz")
    assert (study.kind, study.settings) == ("kind", {"n": [1, 2], "name": "x"})
    assert study["a"].tolist() == [0.0, 1.0, 2.0]
    assert study["words"].tolist() == ["ä", "b"]
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["study.npz"]


def test_a_study_is_computed_again_only_for_other_settings_or_on_request(tmp_path: Path) -> None:
    path = tmp_path / "study.npz"
    computed = list[float]()

    def make(value: float) -> Study:
        computed.append(value)
        return sample_study(value)

    settings = {"n": (1, 2), "name": "x"}  # a tuple, which JSON stores as a list
    assert load_or_compute(path, "kind", settings, lambda: make(1.0))["a"][1] == 1.0
    assert load_or_compute(path, "kind", settings, lambda: make(2.0))["a"][1] == 1.0
    assert load_or_compute(path, "kind", settings, lambda: make(3.0), redo=True)["a"][1] == 3.0
    assert load_or_compute(path, "kind", {**settings, "name": "y"}, lambda: make(4.0))["a"][1] == 4.0
    assert load_or_compute(path, "other", settings, lambda: make(5.0))["a"][1] == 5.0
    assert computed == [1.0, 3.0, 4.0, 5.0]


def test_missing_and_damaged_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no study at .*none\.npz; compute it with `ahac grad study`"):
        load_study(tmp_path / "none.npz")
    sample_study().save(tmp_path / "whole.npz")
    (tmp_path / "half.npz").write_bytes((tmp_path / "whole.npz").read_bytes()[:200])
    np.savez(tmp_path / "other.npz", a=np.ones(2))
    for name in ("half", "other"):
        with pytest.raises(InputError, match=rf"{name}\.npz is damaged or not a study"):
            load_study(tmp_path / f"{name}.npz")
