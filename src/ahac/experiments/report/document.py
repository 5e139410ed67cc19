"""A document of sections, texts, tables and figures, and its forms: an HTML page and Markdown."""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from ahac.core.text import printable

__all__ = ["Document", "Figure", "Section", "Table", "Text", "html_page", "markdown_text"]

TEMPLATE = Path(__file__).with_name("page.html")
SAFE = " !$'()*+,/:;=?@[]{}"
"""Characters of an SVG document that a data URI in double quotes may hold as they are."""
MARKDOWN_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#|~&!])")


@dataclass(frozen=True)
class Text:
    """A paragraph of plain text."""

    text: str


@dataclass(frozen=True)
class Table:
    """A table of plain text."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: Collection[int] = (0,)
    """Indices of left-aligned columns; the others hold numbers and are right-aligned."""
    wraps: bool = True
    """Whether text may take several lines of a page; otherwise a wide table scrolls."""


@dataclass(frozen=True)
class Figure:
    """A drawing with a caption."""

    name: str
    """Name of the file, without suffix, where the figure is a file of its own."""
    svg: str
    """The drawing as an SVG document."""
    caption: str


Block = Text | Table | Figure


@dataclass(frozen=True)
class Section:
    """A heading with what follows it."""

    title: str
    blocks: Sequence[Block]
    sections: Sequence[Section] = field(default=())


@dataclass(frozen=True)
class Document:
    """A title, an introduction and sections."""

    title: str
    introduction: Sequence[Block]
    sections: Sequence[Section]

    def figures(self) -> Iterator[Figure]:
        """Yield all figures in order."""
        for section in self.sections:
            for part in (section, *section.sections):
                yield from (block for block in part.blocks if isinstance(block, Figure))


def html_page(document: Document) -> str:
    """Return one HTML page that needs no other file: its style is in it, figures are data URIs."""
    contents: list[str] = []
    body: list[str] = []
    for number, section in enumerate(document.sections, start=1):
        anchor = f"section-{number}"
        contents.append(f'<li><a href="#{anchor}">{_escape(section.title)}</a>')
        body += [f'<h2 id="{anchor}">{_escape(section.title)}</h2>', *map(_html, section.blocks)]
        inner: list[str] = []
        for place, part in enumerate(section.sections, start=1):
            inner.append(f'<li><a href="#{anchor}-{place}">{_escape(part.title)}</a></li>')
            body += [f'<h3 id="{anchor}-{place}">{_escape(part.title)}</h3>', *map(_html, part.blocks)]
        contents.append(f"<ul>{''.join(inner)}</ul></li>" if inner else "</li>")
    values = {
        "__TITLE__": _escape(document.title),
        "__INTRODUCTION__": "\n".join(map(_html, document.introduction)),
        "__CONTENTS__": "\n".join(contents),
        "__BODY__": "\n".join(body),
    }
    # Substitute in a single pass, because a name may contain a placeholder.
    return re.sub("|".join(values), lambda match: values[match[0]], TEMPLATE.read_text(encoding="utf-8"))


def markdown_text(document: Document, prefix: str) -> str:
    """Return the document as Markdown; figures are the files PREFIX-NAME.svg next to it."""
    parts = [f"# {_escape_markdown(document.title)}", *(_markdown(block, prefix) for block in document.introduction)]
    for section in document.sections:
        for marks, part in (("##", section), *(("###", part) for part in section.sections)):
            parts.append(f"{marks} {_escape_markdown(part.title)}")
            parts += [_markdown(block, prefix) for block in part.blocks]
    return "\n\n".join(parts) + "\n"


def _html(block: Block) -> str:
    if isinstance(block, Text):
        return f"<p>{_escape(block.text)}</p>"
    if isinstance(block, Figure):
        # Shorter than base64 by a quarter, and compressible.
        data = quote(" ".join(block.svg.split()), safe=SAFE)
        caption = _escape(block.caption)
        image = f'<img src="data:image/svg+xml,{data}" alt="{caption}">'
        return f"<figure>{image}<figcaption>{caption}</figcaption></figure>"
    head = _html_row("th", block.header, block.left)
    rows = "\n".join(_html_row("td", row, block.left) for row in block.rows)
    kind = "" if block.wraps else ' class="lines"'
    return f'<div class="table"><table{kind}>\n<thead>{head}</thead>\n<tbody>\n{rows}\n</tbody>\n</table></div>'


def _html_row(tag: str, cells: Sequence[str], left: Collection[int]) -> str:
    kinds = (' class="text"' if place in left else "" for place in range(len(cells)))
    inner = "".join(f"<{tag}{kind}>{_escape(cell)}</{tag}>" for kind, cell in zip(kinds, cells, strict=True))
    return f"<tr>{inner}</tr>"


def _markdown(block: Block, prefix: str) -> str:
    if isinstance(block, Text):
        return _escape_markdown(block.text)
    if isinstance(block, Figure):
        return f"![{_escape_markdown(block.caption)}]({_link(f'{prefix}-{block.name}.svg')})"
    rule = ["---" if place in block.left else "--:" for place in range(len(block.header))]
    lines = [[_escape_markdown(cell) for cell in row] for row in (block.header, *block.rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (lines[0], rule, *lines[1:]))


def _escape(text: str) -> str:
    """Return external text for HTML, in an element or an attribute."""
    return html.escape(printable(text))


def _escape_markdown(text: str) -> str:
    """Return external text for Markdown, shown as it is."""
    return MARKDOWN_SPECIAL.sub(r"\\\1", printable(text))


def _link(path: str) -> str:
    """Return a file name as the target of a Markdown link, in angle brackets if it has more than letters and digits."""
    return path if re.fullmatch(r"[\w.-]+", path) else "<" + re.sub(r"([\\<>])", r"\\\1", path) + ">"
