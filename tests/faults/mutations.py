"""Robot files and random changes to them: elements, attributes, text, encodings."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from random import Random
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import ahac
from support.robots import SMALL_ROBOTS

__all__ = ["mutated", "robots"]

ODD = (
    "nan", "inf", "-inf", "1e308", "-1e308", "1e39", "1e-320", "0", "-1", "0.5", "", " ", "many", "true", "0 0 0",
    "1 2", "1 2 3 4 5 6 7 8 9 10 11 12", "99999999999", "1,2,3", "é", "../../../etc/passwd", "nan nan nan",
    "1e30 1e30 1e30",
)  # fmt: skip
REFERENCES = ("joint", "joint1", "joint2", "body", "body1", "body2", "site", "geom", "tendon", "class", "mesh", "link")
"""Attributes that name something else in a file."""
DEEP = (50, 300, 3000)


def robots() -> dict[str, str]:
    """Return the robots of the project and some small ones, as text by name."""
    own = sorted(Path(ahac.__file__).parent.rglob("assets/*.xml"))
    return {path.stem: path.read_text(encoding="utf-8") for path in own} | SMALL_ROBOTS


def mutated(text: str, rng: Random, gentle: bool = False) -> tuple[bytes, str]:
    """Return a mutated file and a description; a gentle change affects one attribute."""
    tree = ElementTree.fromstring(text)
    said = []
    for _ in range(1 if gentle else rng.choice((1, 1, 1, 3))):
        said.append(rng.choice(ATTRIBUTES if gentle else ELEMENTS)(tree, rng))
    content = ElementTree.tostring(tree, encoding="unicode").encode()
    if not gentle and rng.random() < 0.15:
        content, more = rng.choice(TEXTS)(content, rng)
        said.append(more)
    return content, ", ".join(said)


# ------------------------------------------------------------------------------------------------------------ elements


def _any(tree: Element, rng: Random) -> Element:
    return rng.choice(list(tree.iter()))


def _pair(tree: Element, rng: Random) -> tuple[Element, Element]:
    """An element and a child of it."""
    return rng.choice([(parent, child) for parent in tree.iter() for child in parent] or [(tree, tree)])


def _dropped(tree: Element, rng: Random) -> str:
    parent, child = _pair(tree, rng)
    if child in parent:
        parent.remove(child)
    return f"<{child.tag}> dropped"


def _doubled(tree: Element, rng: Random) -> str:
    parent, child = _pair(tree, rng)
    parent.append(copy.deepcopy(child))
    return f"<{child.tag}> doubled"


def _many(tree: Element, rng: Random) -> str:
    parent, child = _pair(tree, rng)
    nameless = copy.deepcopy(child)
    for element in nameless.iter():
        element.attrib.pop("name", None)
    for _ in range(30):
        parent.append(copy.deepcopy(nameless))
    return f"<{child.tag}> thirty times"


def _retagged(tree: Element, rng: Random) -> str:
    element, other = _any(tree, rng), _any(tree, rng)
    before = element.tag
    element.tag = rng.choice((other.tag, "thing", element.tag + "s"))
    return f"<{before}> is <{element.tag}>"


def _moved(tree: Element, rng: Random) -> str:
    (parent, child), place = _pair(tree, rng), _any(tree, rng)
    if child not in parent or place in child.iter():
        return "nothing moved"
    parent.remove(child)
    place.insert(rng.randrange(len(place) + 1), child)
    return f"<{child.tag}> moved into <{place.tag}>"


def _swapped(tree: Element, rng: Random) -> str:
    one, other = _any(tree, rng), _any(tree, rng)
    one.attrib, other.attrib = other.attrib, one.attrib
    return f"attributes of <{one.tag}> and <{other.tag}> swapped"


# ---------------------------------------------------------------------------------------------------------- attributes


def _attribute(tree: Element, rng: Random) -> tuple[Element, str]:
    return rng.choice([(element, name) for element in tree.iter() for name in element.attrib] or [(tree, "model")])


def _odd_value(tree: Element, rng: Random) -> str:
    element, name = _attribute(tree, rng)
    element.set(name, rng.choice(ODD))
    return f"{name} of <{element.tag}> is {element.get(name)!r}"


def _odd_number(tree: Element, rng: Random) -> str:
    """One number of several."""
    element, name = _attribute(tree, rng)
    words = element.get(name, "").split() or ["0"]
    words[rng.randrange(len(words))] = rng.choice(ODD)
    element.set(name, " ".join(words))
    return f"{name} of <{element.tag}> is {element.get(name)!r}"


def _scaled(tree: Element, rng: Random) -> str:
    element, name = _attribute(tree, rng)
    factor = rng.choice((-1.0, 0.0, 1e-6, 1e6, 1e20))
    try:
        element.set(name, " ".join(str(factor * float(word)) for word in element.get(name, "").split()))
    except ValueError:  # a text
        element.set(name, "")
    return f"{name} of <{element.tag}> times {factor:g}"


def _without(tree: Element, rng: Random) -> str:
    element, name = _attribute(tree, rng)
    element.attrib.pop(name, None)
    return f"{name} of <{element.tag}> dropped"


def _renamed(tree: Element, rng: Random) -> str:
    element, name = _attribute(tree, rng)
    element.set(rng.choice(("thing", "name", "type", "size", "range", "axis")), element.attrib.pop(name, "x"))
    return f"{name} of <{element.tag}> renamed"


def _broken_reference(tree: Element, rng: Random) -> str:
    found = [(element, name) for element in tree.iter() for name in element.attrib if name in REFERENCES]
    element, name = rng.choice(found) if found else _attribute(tree, rng)
    element.set(name, rng.choice(("nowhere", "", "world", element.get("name", "x"))))
    return f"{name} of <{element.tag}> is {element.get(name)!r}"


# ---------------------------------------------------------------------------------------------------------------- text


def _truncated(content: bytes, rng: Random) -> tuple[bytes, str]:
    size = rng.randrange(len(content))
    return content[:size], f"cut to {size} bytes"


def _flipped(content: bytes, rng: Random) -> tuple[bytes, str]:
    changed = bytearray(content)
    places = [rng.randrange(len(changed)) for _ in range(rng.choice((1, 1, 5)))]
    for place in places:
        changed[place] ^= 1 << rng.randrange(8)
    return bytes(changed), f"bits flipped in bytes {places}"


def _encoded(content: bytes, rng: Random) -> tuple[bytes, str]:
    coding = rng.choice(("utf-16", "utf-32", "utf-8-sig", "cp037"))
    return content.decode().encode(coding, errors="replace"), f"as {coding}"


def _declared(content: bytes, rng: Random) -> tuple[bytes, str]:
    line = rng.choice(
        (
            b'<?xml version="1.0" encoding="latin-1"?>',
            b'<?xml version="9.9" encoding="klingon"?>',
            b'<!DOCTYPE mujoco [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>',
            b"<!-- ",
            b"]]>",
            b"\xff\xfe",
            b"<?php ?>",
            b"<mujoco/>",
        )
    )
    return line + content, f"{line!r} in front"


def _spoilt(content: bytes, rng: Random) -> tuple[bytes, str]:
    place = rng.randrange(len(content))
    what = rng.choice((b"\0", b"<", b"&", b'"', b"\xc3\x28", b">" * 3, b"\x1b[2J"))
    return content[:place] + what + content[place:], f"{what!r} at byte {place}"


def _nested(content: bytes, rng: Random) -> tuple[bytes, str]:
    depth = rng.choice(DEEP)
    place = rng.choice([k + 1 for k, byte in enumerate(content) if byte == ord(">")])
    return content[:place] + b"<body>" * depth + b"</body>" * depth + content[place:], f"{depth} nested <body>"


ATTRIBUTES: tuple[Callable[[Element, Random], str], ...] = (_odd_value, _odd_number, _scaled, _without)
ELEMENTS: tuple[Callable[[Element, Random], str], ...] = (
    *ATTRIBUTES, *ATTRIBUTES, _renamed, _broken_reference, _dropped, _doubled, _many, _retagged, _moved, _swapped,
)  # fmt: skip
TEXTS: tuple[Callable[[bytes, Random], tuple[bytes, str]], ...] = (
    _truncated,
    _flipped,
    _encoded,
    _declared,
    _spoilt,
    _nested,
)
