"""The house rules that no linter knows: true paths in the architecture page, small files, small functions.

Each rule is one test that reports every offender at once. Import directions are contracts of import-linter, in
`pyproject.toml`.
"""

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "ahac"
ARCHITECTURE = ROOT / "docs" / "architecture.md"

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
"""From `def` to the last line of the body, docstring included."""

FILE_SUFFIXES = {".cff", ".md", ".py", ".toml", ".typed", ".yaml", ".yml"}
"""What makes a name without a slash a file of this repository; robots and outputs have other suffixes."""

FENCED_BLOCK = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
CODE_SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
PATH_CHARACTERS = re.compile(r"[\w.*/-]+")


@pytest.fixture(scope="module")
def sources() -> dict[Path, str]:
    """The text of every Python file of the package."""
    files = {path: path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
    assert files, f"no Python file under {PACKAGE}: the rules below would hold for nothing"
    return files


def named_paths(markdown: str) -> list[str]:
    """Names in backticks that look like paths of this repository; `a.py::name` and `a.py:12` count as `a.py`."""
    spans = CODE_SPAN.findall(FENCED_BLOCK.sub("", markdown))
    return sorted({name for span in spans if looks_like_path(name := span.partition(":")[0])})


def looks_like_path(name: str) -> bool:
    """Whether `name` is a folder (`docs/`), a file by its suffix, or begins in a known place; `m/s` does not."""
    if not PATH_CHARACTERS.fullmatch(name) or name.startswith("/"):
        return False
    begins_in_repository = "/" in name and any((base / name.split("/")[0]).exists() for base in (ROOT, PACKAGE))
    return name.endswith("/") or Path(name).suffix in FILE_SUFFIXES or begins_in_repository


def exists(name: str) -> bool:
    """Whether `name`, which may hold `*`, is found from the root or the package; a bare file name, anywhere in them."""
    pattern = name.rstrip("/")
    if "/" not in pattern and any(PACKAGE.rglob(pattern)):
        return True
    return any(any(base.glob(pattern)) for base in (ROOT, PACKAGE))


def offenders(sources: dict[Path, str], find: Callable[[ast.AST], bool]) -> list[str]:
    """`file:line` of every syntax node for which `find` is true."""
    return [
        f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
        for path, text in sources.items()
        for node in ast.walk(ast.parse(text, path))
        if find(node)
    ]


def is_print(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"


def is_bare_except(node: ast.AST) -> bool:
    return isinstance(node, ast.ExceptHandler) and node.type is None


def is_long_function(node: ast.AST) -> bool:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1 > MAX_FUNCTION_LINES


def packages_and_modules() -> Iterator[Path]:
    """Every folder and Python file of the package."""
    return (path for path in PACKAGE.rglob("*") if path.is_dir() or path.suffix == ".py")


def test_paths_named_in_the_architecture_page_exist() -> None:
    paths = named_paths(ARCHITECTURE.read_text(encoding="utf-8"))
    assert paths, f"{ARCHITECTURE.name} names no path in backticks: it should show where things are"
    missing = [name for name in paths if not exists(name)]
    assert not missing, f"{ARCHITECTURE.name} names what does not exist: {', '.join(missing)}"


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("see `src/ahac/__init__.py` and `docs/`", ["docs/", "src/ahac/__init__.py"]),
        ("`autograd.py::Step` and `sim/autograd.py:12`", ["autograd.py", "sim/autograd.py"]),
        ("`tests/contracts` without a suffix", ["tests/contracts"]),
        ("`docs/decisions/*.md`", ["docs/decisions/*.md"]),
        ("speeds in `m/s`, `1/60`, `/dev/null`, `State(q, v)`, `robot.xml`, `ahac.sim`, `q`", []),
        ("```\n`src/in_a_drawing.py`\n```\n", []),
    ],
)
def test_paths_are_told_from_other_code(markdown: str, expected: list[str]) -> None:
    assert named_paths(markdown) == expected


@pytest.mark.parametrize("name", ["src/ahac/absent.py", "absent.py", "docs/absent/", "docs/decisions/absent-*.md"])
def test_absent_paths_are_noticed(name: str) -> None:
    assert named_paths(f"`{name}`") == [name]
    assert not exists(name)


def test_files_are_short(sources: dict[Path, str]) -> None:
    lengths = {path.relative_to(ROOT): len(text.splitlines()) for path, text in sources.items()}
    long = [f"{path} ({lines})" for path, lines in lengths.items() if lines > MAX_FILE_LINES]
    assert not long, f"files over {MAX_FILE_LINES} lines: {', '.join(long)}"


def test_functions_are_short(sources: dict[Path, str]) -> None:
    long = offenders(sources, is_long_function)
    assert not long, f"functions over {MAX_FUNCTION_LINES} lines: {', '.join(long)}"


def test_the_library_does_not_print(sources: dict[Path, str]) -> None:
    prints = offenders(sources, is_print)
    assert not prints, f"a library reports through return values and exceptions: {', '.join(prints)}"


def test_no_exception_is_swallowed_unnamed(sources: dict[Path, str]) -> None:
    bare = offenders(sources, is_bare_except)
    assert not bare, f"name the exception that is expected: {', '.join(bare)}"


def test_there_are_no_utils() -> None:
    modules = [str(path.relative_to(ROOT)) for path in packages_and_modules() if path.stem in {"util", "utils"}]
    assert not modules, f"move helpers to the package that they belong to, instead of: {', '.join(modules)}"
