# pyright: reportAttributeAccessIssue=false
"""What a newcomer does first, and gets wrong first."""

import math
from typing import Any

import mujoco
import numpy as np
import pytest
import torch

from ahac.sim import ContactMaterial, InputError, ModelError, Simulator, State, load_model
from support.robots import FREE_SPHERE, PENDULUM, URDF_ARM

SETTINGS: dict[str, Any] = {"num_worlds": 4, "dt": 0.01, "substeps": 4}
ICE = ContactMaterial(friction=0.0)


def test_a_masked_loss_forgets_lost_worlds(device: torch.device) -> None:
    """One world that exploded must not spoil what all worlds share, as long as the loss leaves it out."""
    sim = Simulator(load_model(FREE_SPHERE), device=device, **SETTINGS)
    rest = sim.rest_state()
    q = rest.q.clone()
    q[2] = math.nan  # the whole row: of a height alone, neither mass matrix nor rotation would know
    push = torch.zeros(6, device=device, requires_grad=True)
    end = sim.step(State(q, rest.v), force=push.expand(4, 6))
    alive = sim.is_finite(end)
    assert alive.tolist() == [True, True, False, True]
    torch.where(alive, end.v[:, 0], 0.0).sum().backward()
    assert push.grad is not None
    assert push.grad.isfinite().all()
    assert push.grad[0] > 0.0
    depth = sim.contacts(State(q.requires_grad_(), rest.v)).depth
    torch.where(alive, depth[:, 0], 0.0).sum().backward()
    assert q.grad is not None
    assert q.grad.isfinite().all()


def test_the_planes_material_counts_where_the_geom_has_none() -> None:
    plain = load_model(FREE_SPHERE)
    floor = next(iter(load_model(FREE_SPHERE).planes)).name
    skin = plain.contact_candidates[0].geom
    assert load_model(FREE_SPHERE, materials={floor: ICE}).contact_candidates[0].material == ICE
    both = load_model(FREE_SPHERE, materials={floor: ICE, skin: ContactMaterial(friction=0.3)})
    assert both.contact_candidates[0].material.friction == 0.3


def test_the_flag_that_disables_constraints_disables_contact_and_limits() -> None:
    limited = PENDULUM.replace("<joint ", '<joint range="-1 1" limited="true" ', 1)
    flag = '<option><flag constraint="disable"/></option></mujoco>'
    assert load_model(limited).joints[0].range is not None
    assert load_model(limited.replace("</mujoco>", flag)).joints[0].range is None
    assert load_model(FREE_SPHERE.replace("</mujoco>", flag)).contact_candidates == ()


def test_a_floating_base_for_a_urdf_and_an_edited_specification() -> None:
    fixed = load_model(URDF_ARM)
    floating = load_model(URDF_ARM, floating=True, ground=True)
    assert (floating.nq, floating.nv) == (fixed.nq + 7, fixed.nv + 6)
    spec = mujoco.MjSpec.from_string(PENDULUM)
    assert load_model(spec).nv == load_model(PENDULUM).nv
    assert load_model(spec) == load_model(spec)  # the caller's specification is left as it was


def test_a_misspelt_topic_in_the_file_is_refused() -> None:
    numeric = '<custom><numeric name="ahac:contacts" data="1 2 3 4"/></custom></mujoco>'
    with pytest.raises(ModelError, match="'ahac:contacts' is not a known setting; known: ahac:contact, ahac:limit"):
        load_model(PENDULUM.replace("</mujoco>", numeric))
    text = '<custom><text name="ahac:muscle" data="linear"/></custom></mujoco>'
    with pytest.raises(ModelError, match="'ahac:muscle' is not a known setting; known: ahac:muscles"):
        load_model(PENDULUM.replace("</mujoco>", text))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"readouts": [abs]}, "readouts must map names to functions"),
        ({"forces": abs}, "forces must be a list of functions"),
        ({"contact_law": "penalty"}, "contact_law must be a function, got 'penalty'"),
        ({"integrator": "euler"}, "integrator must be 'implicit' or 'explicit', got 'euler'"),
        ({"integrator": None}, "integrator must be 'implicit' or 'explicit', got None"),
        ({"num_worlds": 0}, "num_worlds must be a whole number of at least 1, got 0"),
        ({"dt": True}, "dt must be a positive number of seconds, got True"),
    ],
)
def test_wrong_settings_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Simulator(load_model(PENDULUM), **{**SETTINGS, **options})


def test_a_path_is_not_a_model_and_a_numpy_number_is_a_number() -> None:
    with pytest.raises(InputError, match="model must be a Model from load_model, got str"):
        Simulator("robot.xml", **SETTINGS)  # pyright: ignore[reportArgumentType]
    assert Simulator(load_model(PENDULUM), **{**SETTINGS, "num_worlds": np.int64(3)}).num_worlds == 3


def test_a_model_shows_itself_in_a_line() -> None:
    assert len(repr(load_model(FREE_SPHERE))) < 160
    with pytest.raises(ModelError, match="cannot ignore friction; features that can be ignored: "):
        load_model(PENDULUM, ignore="friction")
