"""Hooks of MkDocs: pages from outside docs/, notebooks, links that leave docs/, lists and anchors as GitHub reads them.

The pages are written for GitHub, where links are paths between files. Links between pages of the site are translated;
links to other files of the repository point to `repo_url` of mkdocs.yml. Without that setting, they become plain text.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
BRANCH = "main"

ROOT_PAGES = {"contributing.md": ROOT / "CONTRIBUTING.md", "changelog.md": ROOT / "CHANGELOG.md"}
"""Pages whose files are outside docs/, by their address in the site."""
NOTEBOOKS = {f"tutorials/{path.stem}.md": path for path in sorted((ROOT / "notebooks").glob("*.ipynb"))}
"""Notebooks, by the address of the page made from each."""
REPLACED = {ROOT / "docs" / "README.md": "index.md"}
"""Files that the site leaves out, and the pages that stand for them."""

LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^][]*)\]\((?P<path>[^)#\s]*)(?P<anchor>#[^)\s]*)?\)")
OPTION = re.compile(r"--[a-z][\w.-]*")
CODE = re.compile(r"<code>[^<]*</code>")
LIST_ITEM = re.compile(r"(- |\d+\. )")
FENCED_BLOCK = re.compile(r"^ *(```|~~~).*?^ *\1", re.MULTILINE | re.DOTALL)


def slug(heading: str, separator: str) -> str:
    """Return the anchor of a heading, as GitHub forms it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", separator)


def translate(markdown: str, source: Path, uri: str, pages: Mapping[Path, str], repo_url: str | None) -> str:
    """Return the text of a page with its links translated for the site.

    Args:
        markdown: Text of the page.
        source: File of the page, to which its links are relative.
        uri: Address of the page's source in the site, such as "guides/training.md".
        pages: Addresses of all files of the site.
        repo_url: Address of the repository, or None.
    """

    def link(match: re.Match[str]) -> str:
        path, anchor = match["path"], match["anchor"] or ""
        if not path or "://" in path or path.startswith("mailto:"):
            return match[0]
        target = (source.parent / path).resolve()
        if (target / "README.md").is_file():
            target /= "README.md"
        if target in pages:
            address = os.path.relpath(pages[target], PurePosixPath(uri).parent)
            return f"{match['image']}[{match['text']}]({address}{anchor})"
        if not target.exists() or not target.is_relative_to(ROOT):
            return match[0]  # MkDocs reports it
        if repo_url is None:
            return match["text"]
        kind = "tree" if target.is_dir() else "blob"
        return (
            f"[{match['text']}]({repo_url.rstrip('/')}/{kind}/{BRANCH}/{target.relative_to(ROOT).as_posix()}{anchor})"
        )

    parts: list[str] = []
    end = 0
    for block in FENCED_BLOCK.finditer(markdown):
        parts += [LINK.sub(link, markdown[end : block.start()]), block[0]]
        end = block.end()
    return "".join([*parts, LINK.sub(link, markdown[end:])])


def indent_lists(markdown: str) -> str:
    """Return the text with the paragraphs, tables and lists inside list items indented by four columns.

    GitHub asks for the width of the item's marker; Python-Markdown for four columns, and for an empty line after them.
    """
    lines: list[str] = []
    width, in_block, parted = 0, False, False
    for line in markdown.splitlines():
        if line.startswith(("```", "~~~")):
            in_block = not in_block
        if marker := LIST_ITEM.match(line):
            if parted and width and lines[-1]:
                lines.append("")
            width, parted = 0 if in_block else len(marker[0]), False
        elif line and not line.startswith(" "):
            width = 0
        parted |= not line
        inside = width and line.startswith(" " * width)
        lines.append("    " + line[width:] if inside else line)
    return "\n".join(lines) + "\n"


def notebook_page(notebook: Mapping[str, Any], name: str) -> tuple[str, dict[str, bytes]]:
    """Return a notebook as Markdown, and its images by the names that the Markdown gives them."""
    parts: list[str] = []
    images: dict[str, bytes] = {}
    for i, cell in enumerate(notebook["cells"]):
        text = "".join(cell["source"])
        parts.append(f"```python\n{text}\n```" if cell["cell_type"] == "code" else text)
        for j, output in enumerate(cell.get("outputs", [])):
            data = output.get("data", {})
            if "image/png" in data:
                image = f"{name}-{i}-{j}.png"
                images[image] = base64.b64decode("".join(data["image/png"]))
                parts.append(f"![Output of the code above]({image})")
            elif printed := "".join(output.get("text") or data.get("text/plain", "")).rstrip():
                parts.append(f"```text\n{printed}\n```")
    return "\n\n".join([*parts, f"This page is the notebook [{name}.ipynb]({name}.ipynb).\n"]), images


Nav = Sequence["str | Mapping[str, str | Nav]"]
"""Entries of the navigation: a page, or a title with a page or with more entries."""


def expand(nav: Nav, docs: Path, generated: Collection[str] = ()) -> Nav:
    """Return the navigation with FOLDER/*.md replaced by the pages of a folder that are not listed by themselves.

    Args:
        nav: Entries.
        docs: Folder of the pages.
        generated: Addresses of pages without a file in it.
    """
    listed = set(_pages(nav))

    def entries(part: Nav) -> Iterator[str | Mapping[str, str | Nav]]:
        for entry in part:
            if isinstance(entry, str) and "*" in entry:
                found = [path.relative_to(docs).as_posix() for path in docs.glob(entry) if path not in REPLACED]
                found += [page for page in generated if fnmatch(page, entry)]
                yield from (page for page in sorted(found) if page not in listed)
            elif isinstance(entry, str):
                yield entry
            else:
                yield {title: x if isinstance(x, str) else list(entries(x)) for title, x in entry.items()}

    return list(entries(nav))


def _pages(nav: Nav) -> Iterator[str]:
    for entry in nav:
        for x in [entry] if isinstance(entry, str) else entry.values():
            yield from [x] if isinstance(x, str) else _pages(x)


def on_config(config: MkDocsConfig) -> None:
    """Expand the navigation, and form anchors as GitHub does."""
    config.nav = expand(config.nav or [], Path(config.docs_dir), NOTEBOOKS)
    config.mdx_configs.setdefault("toc", {})["slugify"] = slug


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the pages whose files are outside docs/."""
    from mkdocs.structure.files import File

    for uri, path in ROOT_PAGES.items():
        files.append(File.generated(config, uri, abs_src_path=str(path)))
    for uri, path in NOTEBOOKS.items():
        text, images = notebook_page(json.loads(path.read_text(encoding="utf-8")), path.stem)
        files.append(File.generated(config, uri, content=text))
        files.append(File.generated(config, f"tutorials/{path.name}", abs_src_path=str(path)))
        for name, image in images.items():
            files.append(File.generated(config, f"tutorials/{name}", content=image))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Translate the links and lists of a page."""
    included = [file for file in files if file.abs_src_path and file.inclusion.is_included()]
    pages = {Path(str(file.abs_src_path)): file.src_uri for file in included} | REPLACED
    source = {**ROOT_PAGES, **NOTEBOOKS}.get(page.file.src_uri) or Path(str(page.file.abs_src_path))
    if page.file.src_uri not in NOTEBOOKS:  # their own page links to the file
        pages |= {path: uri for uri, path in NOTEBOOKS.items()}
    return translate(indent_lists(markdown), source, page.file.src_uri, pages, config.repo_url)


def keep_options_whole(html: str) -> str:
    """Let no browser break a line inside an option such as `--num-envs` of inline code."""
    option = r'<span style="white-space: nowrap">\g<0></span>'
    return CODE.sub(lambda code: OPTION.sub(option, code[0]), html)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Finish the page's HTML."""
    return keep_options_whole(html)
