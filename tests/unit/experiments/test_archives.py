"""Archives of runs are read like folders of runs, and refused if they are damaged or something else."""

import errno
import io
import lzma
import os
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from ahac.core.errors import InputError
from ahac.experiments.archives import COLUMNS, unpack
from ahac.experiments.collect import archive_runs, write_table
from ahac.experiments.compare import compare
from ahac.experiments.report.page import write_report
from ahac.experiments.run_sets import RunSet
from support.run_folders import MANIFEST, write_run


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    for seed in range(3):
        write_run(folder / f"ant-shac-s{seed}", seed, returns=[None, 0.5, 123.25], score=5.0 + seed, manifest=MANIFEST)
    write_run(folder / "hopper-ppo-s0", task="hopper", algo="ppo", algorithm={"actor": {"hidden": [64, 32]}})
    return folder


@pytest.fixture
def archive(runs: Path, tmp_path: Path) -> Path:
    assert archive_runs([runs], tmp_path / "all.tar.xz") == 4
    return tmp_path / "all.tar.xz"


def write_tar(path: Path, files: Mapping[str, str], kind: bytes = tarfile.REGTYPE) -> Path:
    """Write an archive of texts by name, of which links point to a system file."""
    with tarfile.open(path, "w:xz", format=tarfile.PAX_FORMAT) as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.type, member.size = kind, len(text)
            member.linkname = "" if kind == tarfile.REGTYPE else "/etc/passwd"
            archive.addfile(member, io.BytesIO(text.encode()))
    return path


def test_archived_runs_are_those_of_the_folder(runs: Path, archive: Path) -> None:
    for original, archived in zip(RunSet([runs]).read(), RunSet([archive]).read(), strict=True):
        assert archived.folder == archive / original.folder.name
        assert archived.settings == original.settings
        assert archived.evaluation == original.evaluation
        assert archived.manifest == {name: value for name, value in original.manifest.items() if name != "host"}
        assert archived.complete == original.complete
        assert [row.keys() for row in archived.rows] == [row.keys() for row in original.rows]
    assert RunSet([archive]).paths == [archive / run.name for run in sorted(runs.iterdir())]


def test_counts_are_exact_and_other_metrics_have_five_digits(runs: Path, archive: Path, tmp_path: Path) -> None:
    metrics = "iteration,env_steps,seconds,episode_return,unused\n1,123456789,0.123456,-0.000123456,7\n"
    (runs / "ant-shac-s0" / "metrics.csv").write_text(metrics, encoding="utf-8")
    archive_runs([runs / "ant-shac-s0"], tmp_path / "one.tar.xz")
    (run,) = RunSet([tmp_path / "one.tar.xz"]).read()
    assert run.rows == [{"iteration": 1, "env_steps": 123456789, "seconds": 0.12346, "episode_return": -0.00012346}]
    assert set(run.rows[0]) <= set(COLUMNS)
    assert [row["episode_return"] for row in next(RunSet([archive]).read()).rows[1:]] == [0.5, 123.25]


def test_archives_keep_what_shows_how_gradients_were_reused_and_mixed(runs: Path, tmp_path: Path) -> None:
    updates = {"policy_kl": 2.5, "share_clipped": 0.27, "analytic_share": 0.75}
    metrics = f"iteration,env_steps,seconds,{','.join(updates)}\n1,10,0.5,{','.join(map(str, updates.values()))}\n"
    (runs / "ant-shac-s0" / "metrics.csv").write_text(metrics, encoding="utf-8")
    archive_runs([runs], tmp_path / "all.tar.xz")
    first, second, *_ = RunSet([tmp_path / "all.tar.xz"]).read()
    assert updates.items() <= first.rows[0].items()
    assert updates.keys().isdisjoint(second.rows[0])
    write_table([tmp_path / "all.tar.xz"], tmp_path / "all.csv")
    header = (tmp_path / "all.csv").read_text(encoding="utf-8").splitlines()[0].split(",")
    assert updates.keys() <= set(header)


def test_the_same_runs_make_the_same_bytes(runs: Path, archive: Path, tmp_path: Path) -> None:
    for given in ([archive], sorted(runs.iterdir(), reverse=True)):
        archive_runs(given, tmp_path / "again.tar.xz")
        assert (tmp_path / "again.tar.xz").read_bytes() == archive.read_bytes()
    (runs / "ant-shac-s1" / "evaluation.json").unlink()
    archive_runs([runs], tmp_path / "again.tar.xz")
    assert (tmp_path / "again.tar.xz").read_bytes() != archive.read_bytes()


def test_an_archive_of_every_second_iteration_is_of_the_same_runs(runs: Path, tmp_path: Path) -> None:
    archive_runs([runs], tmp_path / "half.tar.xz", every=2)
    for original, archived in zip(RunSet([runs]).read(), RunSet([tmp_path / "half.tar.xz"]).read(), strict=True):
        last = original.rows[-1]["iteration"]
        assert [row["iteration"] for row in archived.rows] == [*range(2, int(last), 2), last]
        assert (archived.complete, archived.evaluation) == (original.complete, original.evaluation)
    archive_runs([tmp_path / "half.tar.xz"], tmp_path / "again.tar.xz", every=2)
    assert (tmp_path / "again.tar.xz").read_bytes() == (tmp_path / "half.tar.xz").read_bytes()


def test_comparisons_and_reports_read_archives(runs: Path, archive: Path, tmp_path: Path) -> None:
    assert repr(compare([archive])) == repr(compare([runs]))  # texts, since NaN differs from NaN
    for source in (runs, archive):
        write_report([source], tmp_path / f"{source.name}.html", markdown=tmp_path / f"{source.name}.md")
    folder, archived = ((tmp_path / f"{source.name}.md").read_text(encoding="utf-8") for source in (runs, archive))
    folder = folder.replace("| box |", "| – |")  # archives do not have the host's name
    assert folder.replace(str(runs), "") == archived.replace(str(archive), "").replace("all.tar.xz", "runs")


def test_runs_of_archives_and_folders_are_groups_of_their_own(runs: Path, archive: Path) -> None:
    assert [group.group for group in compare([runs, archive])] == [
        "runs/ant-shac", "runs/hopper-ppo", "all.tar.xz/ant-shac", "all.tar.xz/hopper-ppo",
    ]  # fmt: skip


def test_names_of_this_machine_are_left_out(tmp_path: Path) -> None:
    write_run(tmp_path / "secret" / "ant-s0", manifest={**MANIFEST, "host": "secret"}, out="/home/secret")
    archive_runs([tmp_path / "secret"], tmp_path / "a.tar.xz")
    assert b"secret" not in lzma.decompress((tmp_path / "a.tar.xz").read_bytes())


def test_unpacked_files_are_removed(archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    given = RunSet([archive])
    assert list(temporary.iterdir())
    del given
    assert not list(temporary.iterdir())
    other = write_tar(tmp_path / "other.tar.xz", {"x/config.json": "{}", "x/other.py": ""})
    with pytest.raises(InputError, match="is not an archive of runs"):
        RunSet([other])
    assert not list(temporary.iterdir())
    temporary.rmdir()
    with pytest.raises(InputError, match=r"cannot be unpacked: No such file .*; set TMPDIR"):
        RunSet([archive])


def test_a_full_disk_is_reported_with_a_remedy(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(InputError, match=r"cannot be unpacked: No space left .*; free some disk space, or set TMPDIR"):
        RunSet([archive])


def test_a_damaged_run_of_an_archive_is_named_by_its_place_in_it(tmp_path: Path) -> None:
    good = write_run(tmp_path / "good")
    files = {f"good/{path.name}": path.read_text(encoding="utf-8") for path in good.iterdir()}
    given = RunSet([write_tar(tmp_path / "a.tar.xz", {**files, "bad/config.json": "{}"})])
    assert [run.folder for run in given.read()] == [tmp_path / "a.tar.xz" / "good"]
    assert given.skipped[tmp_path / "a.tar.xz" / "bad"].startswith(
        f"{tmp_path / 'a.tar.xz' / 'bad'}/config.json is not"
    )


@pytest.mark.parametrize(
    "name",
    [
        "../config.json", "../x/config.json", "/x/config.json", "./x/config.json", "x/y/config.json", "config.json",
        "x/other.py", ".x/config.json", "a\\b/config.json", "C:/config.json", "x\0/config.json",
        "metrics.csv/config.json",
    ],
)  # fmt: skip
def test_archives_of_something_else_are_refused(tmp_path: Path, name: str) -> None:
    write_tar(tmp_path / "a.tar.xz", {name: ""})
    (tmp_path / "out").mkdir()
    with pytest.raises(
        InputError, match=r"a\.tar\.xz is not an archive of runs: it holds '.*'; expected RUN/config\.json"
    ):
        unpack(tmp_path / "a.tar.xz", tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar.xz", "out"]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE])
def test_links_and_devices_in_archives_are_refused(tmp_path: Path, kind: bytes) -> None:
    write_tar(tmp_path / "a.tar.xz", {"x/config.json": ""}, kind)
    with pytest.raises(InputError, match="is not an archive of runs"):
        RunSet([tmp_path / "a.tar.xz"])


def test_archives_that_would_fill_the_memory_are_refused(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(lzma.decompress(archive.read_bytes()))
    monkeypatch.setattr("ahac.experiments.archives.LARGEST", size)
    assert RunSet([archive]).paths
    monkeypatch.setattr("ahac.experiments.archives.LARGEST", size - 1)
    with pytest.raises(InputError, match=r"all\.tar\.xz would have more than 0 GiB when unpacked"):
        RunSet([archive])


def test_no_run_of_a_damaged_archive_is_lost_silently(archive: Path, tmp_path: Path) -> None:
    content = bytearray(lzma.decompress(archive.read_bytes()))
    second = content.index(b"ant-shac-s1/config.json")
    content[second + 150] ^= 1  # in the checksum of its header
    (tmp_path / "header.tar.xz").write_bytes(lzma.compress(content))
    (tmp_path / "two.tar.xz").write_bytes(2 * archive.read_bytes())
    for name in ("header", "two"):
        with pytest.raises(InputError, match=r"is damaged after the first \d+ files"):
            RunSet([tmp_path / f"{name}.tar.xz"])


def test_damaged_archives_are_refused(archive: Path, tmp_path: Path) -> None:
    content = archive.read_bytes()
    middle = len(content) // 2
    flipped = content[:middle] + bytes([content[middle] ^ 4]) + content[middle + 1 :]
    for number, damaged in enumerate([b"", b"text", content[:-40], content[:middle], flipped]):
        path = tmp_path / f"{number}.tar.xz"
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=r"\.tar\.xz is damaged or not an archive of runs: "):
            RunSet([path])
    with pytest.raises(InputError, match=r"none\.tar\.xz cannot be unpacked: No such file"):
        RunSet([tmp_path / "none.tar.xz"])
    write_tar(tmp_path / "empty.tar.xz", {})
    with pytest.raises(InputError, match=r"empty\.tar\.xz holds no runs; `ahac collect "):
        RunSet([tmp_path / "empty.tar.xz"])


def test_names_that_an_archive_cannot_hold_are_refused(runs: Path, archive: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"an archive must be a \.tar\.xz file, got '.*all\.zip'"):
        archive_runs([runs], tmp_path / "all.zip")
    with pytest.raises(InputError, match="several runs have the name 'ant-shac-s0'"):
        archive_runs([runs, archive], tmp_path / "both.tar.xz")
    hidden = write_run(tmp_path / ".hidden")
    with pytest.raises(InputError, match=r"the run '\.hidden' cannot be archived under this name; rename its folder"):
        archive_runs([hidden], tmp_path / "both.tar.xz")
    assert not (tmp_path / "both.tar.xz").exists()
    (tmp_path / "folder.tar.xz").mkdir()
    with pytest.raises(InputError, match=r"folder\.tar\.xz': it is a folder"):
        archive_runs([runs], tmp_path / "folder.tar.xz")


def test_a_folder_of_archives_is_refused_with_their_names(archive: Path, tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    archive.rename(tmp_path / "kept" / archive.name)
    with pytest.raises(InputError, match=r"; it holds archives, which you can name: .*kept/all\.tar\.xz"):
        RunSet([tmp_path / "kept"])
