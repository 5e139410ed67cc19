"""The documentation site: public names are in the API pages, pages are in the navigation, links are translated."""

import re
import tomllib
from importlib import import_module, util
from pathlib import Path
from types import ModuleType

import pytest
import yaml

import ahac
from ahac.sim.model.unsupported import FEATURES

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PUBLIC = (
    "ahac.sim",
    "ahac.envs",
    "ahac.engines",
    "ahac.gradients",
    "ahac.identification",
    "ahac.deployment",
    "ahac.view",
    "ahac.training.api",
)
"""Modules besides `ahac` whose `__all__` is documented."""


def load_hooks() -> ModuleType:
    spec = util.spec_from_file_location("hooks", DOCS / "_site" / "hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


hooks = load_hooks()
PAGES = {DOCS / "gradients.md": "gradients.md", DOCS / "tasks" / "README.md": "tasks/README.md", **hooks.REPLACED}


def translate(markdown: str, repo_url: str | None = "https://example.org/ahac/") -> str:
    uri = "guides/training.md"
    return hooks.translate(markdown, DOCS / uri, uri, PAGES, repo_url)


@pytest.fixture(scope="module")
def settings() -> dict:
    return yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def documented() -> list[str]:
    """Identifiers that the API pages document."""
    pages = [path.read_text(encoding="utf-8") for path in sorted((DOCS / "api").glob("*.md"))]
    return [name for page in pages for name in re.findall(r"^::: (\S+)$", page, flags=re.MULTILINE)]


def resolve(identifier: str) -> object:
    """Import the object that an identifier names; modules count as themselves."""
    module, _, name = identifier.rpartition(".")
    parent = import_module(module)
    return getattr(parent, name) if hasattr(parent, name) else import_module(identifier)


def test_every_name_of_ahac_is_in_the_api_pages(documented: list[str]) -> None:
    missing = [name for name in ahac.__all__ if f"ahac.{name}" not in documented]
    assert not missing, f"add `::: ahac.NAME` to docs/api/ahac.md for: {', '.join(missing)}"


@pytest.mark.parametrize("module", PUBLIC)
def test_every_name_of_a_public_module_is_in_the_api_pages(module: str, documented: list[str]) -> None:
    objects = [resolve(identifier) for identifier in documented]  # an object may be documented under another path
    public = import_module(module)
    missing = [name for name in public.__all__ if not any(each is getattr(public, name) for each in objects)]
    assert not missing, f"add `::: {module}.NAME` to a page in docs/api for: {', '.join(missing)}"


def test_names_in_the_api_pages_exist_and_occur_once(documented: list[str]) -> None:
    assert len(documented) == len(set(documented))
    for identifier in documented:
        resolve(identifier)


def test_every_page_is_in_the_navigation(settings: dict) -> None:
    listed = list(hooks._pages(hooks.expand(settings["nav"], DOCS, hooks.NOTEBOOKS)))
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} - {"README.md"}
    assert sorted(listed) == sorted(pages | set(hooks.ROOT_PAGES) | set(hooks.NOTEBOOKS))


def test_sources_are_linked_to_the_repository_of_the_package(settings: dict) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert settings["repo_url"] == project["urls"]["Repository"]


def test_the_site_loads_nothing_from_other_servers(settings: dict) -> None:
    assert settings["theme"]["font"] is False
    assert not any("://" in str(settings.get(key, "")) for key in ("extra_css", "extra_javascript"))


def test_features_that_are_refused_or_dropped_are_documented() -> None:
    page = (DOCS / "simulated.md").read_text(encoding="utf-8")
    missing = [feature.name for feature in FEATURES if f"`{feature.name}`" not in page]
    assert not missing, f"docs/simulated.md does not name {', '.join(missing)}"


def test_decisions_are_listed() -> None:
    page = (DOCS / "decisions" / "README.md").read_text(encoding="utf-8")
    missing = [path.name for path in sorted((DOCS / "decisions").glob("0*.md")) if f"]({path.name})" not in page]
    assert not missing, f"docs/decisions/README.md does not list {', '.join(missing)}"


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("[a](../gradients.md#top)", "[a](../gradients.md#top)"),
        ("[a](../tasks/)", "[a](../tasks/README.md)"),
        ("[a](../README.md)", "[a](../index.md)"),
        ("[a](../../LICENSE)", "[a](https://example.org/ahac/blob/main/LICENSE)"),
        ("[a](../../src/ahac/sim)", "[a](https://example.org/ahac/tree/main/src/ahac/sim)"),
        ("[a](https://mujoco.org), [b](#here)", "[a](https://mujoco.org), [b](#here)"),
        ("[a](absent.md)", "[a](absent.md)"),
        ("```\n[a](../../LICENSE)\n```\n[a](../../LICENSE)", "```\n[a](../../LICENSE)\n```\n" + "[a](https://example.org/ahac/blob/main/LICENSE)"),
    ],
)  # fmt: skip
def test_links_are_translated_for_the_site(markdown: str, expected: str) -> None:
    assert translate(markdown) == expected


def test_without_a_repository_links_that_leave_the_site_are_text() -> None:
    assert translate("see [the license](../../LICENSE).", repo_url=None) == "see the license."


def test_pages_of_the_root_link_to_the_site() -> None:
    translated = hooks.translate("[a](docs/gradients.md)", ROOT / "CONTRIBUTING.md", "contributing.md", PAGES, None)
    assert translated == "[a](gradients.md)"


@pytest.mark.parametrize(
    ("heading", "anchor"), [("Weights & Biases, MLflow", "weights--biases-mlflow"), ("What is `q`?", "what-is-q")]
)
def test_anchors_are_those_of_github(heading: str, anchor: str) -> None:
    assert hooks.slug(heading.replace("`", ""), "-") == anchor


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("- a\n  b\n- c\n", "- a\n    b\n- c\n"),
        ("1. a\n\n   | t |\n2. b\n", "1. a\n\n    | t |\n\n2. b\n"),
        ("- a\n  - b\n", "- a\n    - b\n"),
        ("- a\n\ntext\n    code\n", "- a\n\ntext\n    code\n"),
        ("```\n- a\n  b\n```\n", "```\n- a\n  b\n```\n"),
    ],
)
def test_parts_of_list_items_are_indented_for_the_site(markdown: str, expected: str) -> None:
    assert hooks.indent_lists(markdown) == expected


def test_the_rest_of_a_folder_can_be_listed_by_a_pattern(tmp_path: Path) -> None:
    (tmp_path / "guides").mkdir()
    for name in ("a", "b", "c"):
        (tmp_path / "guides" / f"{name}.md").touch()
    nav = ["index.md", {"Guides": ["guides/b.md", "guides/*.md"]}]
    expected = ["guides/b.md", "guides/a.md", "guides/c.md", "guides/d.md"]
    assert hooks.expand(nav, tmp_path, ["guides/d.md", "other.md"]) == ["index.md", {"Guides": expected}]


def test_notebooks_become_pages() -> None:
    notebook = {
        "cells": [
            {"cell_type": "markdown", "source": ["# Title\n", "Text"]},
            {
                "cell_type": "code",
                "source": ["f()"],
                "outputs": [
                    {"output_type": "stream", "text": ["1\n", "2\n"]},
                    {"output_type": "display_data", "data": {"image/png": "AAEC", "text/plain": ["<Figure>"]}},
                    {"output_type": "execute_result", "data": {"text/plain": ["3"]}},
                ],
            },
        ]
    }
    page, images = hooks.notebook_page(notebook, "n")
    parts = [
        "# Title\nText",
        "```python\nf()\n```",
        "```text\n1\n2\n```",
        "![Output of the code above](n-1-1.png)",
        "```text\n3\n```",
    ]
    assert page.startswith("\n\n".join(parts))
    assert images == {"n-1-1.png": b"\0\1\2"}


def test_options_in_inline_code_are_not_broken() -> None:
    html = "<td><code>ant --num-envs 512</code></td><pre><code class=x>ant --seed 1</code></pre> --seed"
    whole = '<td><code>ant <span style="white-space: nowrap">--num-envs</span> 512</code></td>'
    assert hooks.keep_options_whole(html) == whole + html.partition("</td>")[2]
