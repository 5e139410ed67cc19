# pyright: reportAttributeAccessIssue=false
"""Friction of a contact by MuJoCo's rules, and a note on everything else that a file sets for contacts.

An explicit pair has a friction and a dimension (condim) of its own. Otherwise those of the geom of higher priority
count; of geoms of equal priority the larger friction and the larger dimension.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import mujoco
import numpy as np

from ahac.sim.model.notes import Notes
from ahac.sim.model.solver_settings import DEFAULT_SOLIMP, DEFAULT_SOLREF, count_unusual, differs

__all__ = ["Friction", "explicit_pair", "friction_between", "note_approximations"]

TORSIONAL, ROLLING = 4, 6
"""Smallest dimensions of a contact with torsional and with rolling friction."""


@dataclass(frozen=True)
class Friction:
    """Friction of the contact of two geoms."""

    sliding: float
    """Coulomb coefficient; zero for a frictionless contact (condim 1)."""
    dimension: int
    """MuJoCo's condim: 1, 3, 4 (torsional) or 6 (rolling)."""
    anisotropic: bool = False
    """Whether an explicit pair has different coefficients in two directions; the first is used."""


def friction_between(model: mujoco.MjModel, geom: int, other: int | None) -> Friction:
    """Return the friction of a geom and a plane; None is a plane without friction of its own, added by the loader."""
    pair = None if other is None else explicit_pair(model, geom, other)
    if pair is not None:
        sliding, second = (float(f) for f in model.pair_friction[pair, :2])
        dimension, anisotropic = int(model.pair_dim[pair]), sliding != second
    else:
        geoms = [geom] if other is None else [geom, other]
        highest = max(model.geom_priority[g] for g in geoms)
        decisive = [g for g in geoms if model.geom_priority[g] == highest]
        sliding = float(max(model.geom_friction[g, 0] for g in decisive))
        dimension, anisotropic = int(max(model.geom_condim[g] for g in decisive)), False
    if model.opt.enableflags & mujoco.mjtEnableBit.mjENBL_OVERRIDE:
        sliding, anisotropic = float(model.opt.o_friction[0]), False
    return Friction(0.0 if dimension == 1 else sliding, dimension, anisotropic and dimension > 1)


def explicit_pair(model: mujoco.MjModel, a: int, b: int) -> int | None:
    """Return the number of the explicit contact pair of two geoms, if there is one."""
    for i, geoms in enumerate(zip(model.pair_geom1, model.pair_geom2, strict=True)):
        if {a, b} == {int(g) for g in geoms}:
            return i
    return None


def note_approximations(
    model: mujoco.MjModel, touching: Collection[int], frictions: Collection[Friction], notes: Notes
) -> None:
    """Note which settings of contacts and limits are not simulated.

    Args:
        model: The compiled file.
        touching: Geoms that can touch a plane, and the planes.
        frictions: Frictions of their contacts.
        notes: Where to add the notes.
    """
    torsional = sum(f.dimension >= TORSIONAL for f in frictions)
    rolling = sum(f.dimension >= ROLLING for f in frictions)
    anisotropic = sum(f.anisotropic for f in frictions)
    if torsional:
        kinds = f"torsional friction ({torsional})" + (f" and rolling friction ({rolling})" if rolling else "")
        notes.add(f"contact: {kinds} dropped, sliding friction only")
    if anisotropic:
        notes.add(f"contact: {anisotropic} pairs of geoms slide with the first of their two friction coefficients")
    geoms = sorted(touching)
    if names := _unusual(model, geoms):
        notes.add(
            f"contact: {', '.join(f'{name} ({count})' for name, count in names.items())} of geoms not read; "
            "stiffness and damping are those of ContactMaterial"
        )
    _note_limits(model, notes)


def _note_limits(model: mujoco.MjModel, notes: Notes) -> None:
    joints, tendons = (np.flatnonzero(limited) for limited in (model.jnt_limited, model.tendon_limited))
    for kind, solref, solimp, margin in (
        ("joint", model.jnt_solref[joints], model.jnt_solimp[joints], model.jnt_margin[joints]),
        ("tendon", model.tendon_solref_lim[tendons], model.tendon_solimp_lim[tendons], model.tendon_margin[tendons]),
    ):
        if limits := count_unusual(solref, solimp):
            notes.add(
                f"{kind} limits: solref and solimp of {limits} {kind}s not read; their forces are those of JointLimit"
            )
        if margins := int(np.count_nonzero(margin)):
            notes.add(f"{kind} limits: margin of {margins} {kind}s not read")


def _unusual(model: mujoco.MjModel, geoms: list[int]) -> dict[str, int]:
    """Count the geoms and explicit pairs whose settings are not MuJoCo's defaults, by setting."""
    pairs = [i for i in range(model.npair) if model.pair_geom1[i] in geoms and model.pair_geom2[i] in geoms]
    counts = {}
    for name, default in (("solref", DEFAULT_SOLREF), ("solimp", DEFAULT_SOLIMP), ("margin", 0.0), ("gap", 0.0)):
        of_geoms, of_pairs = getattr(model, f"geom_{name}"), getattr(model, f"pair_{name}")
        counts[name] = sum(differs(of_geoms[g], default) for g in geoms)
        counts[name] += sum(differs(of_pairs[i], default) for i in pairs)
    return {name: count for name, count in counts.items() if count}
