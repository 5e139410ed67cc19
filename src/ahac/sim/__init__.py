"""A differentiable rigid-body simulator with soft contact.

    model = load_model("robot.xml")                                    # MJCF or URDF
    sim = Simulator(model, num_worlds=64, dt=1 / 60, substeps=4)       # CPU or CUDA
    state = sim.step(sim.rest_state(), control)                        # differentiable

The physics (`ahac.sim.physics`) is plain Python on scalars, traced once per model and compiled with its exact adjoint.
User-defined force laws and readouts are written in the same Python: see `World`, `Vec3` and the functions below.
"""

from ahac.core.errors import AhacError, InputError, ModelError, TraceError
from ahac.sim.armature import add_armature
from ahac.sim.compiler.graph import Real, Scalar
from ahac.sim.compiler.operations import (
    abs_,
    atan2,
    clip,
    cos,
    exp,
    log,
    maximum,
    minimum,
    sin,
    sqrt,
    stop_gradient,
    tanh,
    where,
)
from ahac.sim.compiler.program import trace
from ahac.sim.inspection import inspect_model
from ahac.sim.jacobian import StepJacobian
from ahac.sim.model.load import load_model
from ahac.sim.model.motors import Motor, Servo
from ahac.sim.model.parameters import Parameters
from ahac.sim.model.types import (
    Actuator,
    ContactConstants,
    ContactMaterial,
    Joint,
    JointKind,
    JointLimit,
    Keyframe,
    Model,
)
from ahac.sim.physics.algebra import Mat3, Quat, Vec3, norm
from ahac.sim.physics.contact import ContactLaw, compliant, penalty
from ahac.sim.physics.substep import ForceLaw
from ahac.sim.physics.world import AppliedForce, RandomSource, World
from ahac.sim.programs import Controller, Readout
from ahac.sim.simulator import Integrator, Simulator
from ahac.sim.state import Contacts, Poses, State, Wrenches

__all__ = [
    "Actuator",
    "AhacError",
    "AppliedForce",
    "ContactConstants",
    "ContactLaw",
    "ContactMaterial",
    "Contacts",
    "Controller",
    "ForceLaw",
    "InputError",
    "Integrator",
    "Joint",
    "JointKind",
    "JointLimit",
    "Keyframe",
    "Mat3",
    "Model",
    "ModelError",
    "Motor",
    "Parameters",
    "Poses",
    "Quat",
    "RandomSource",
    "Readout",
    "Real",
    "Scalar",
    "Servo",
    "Simulator",
    "State",
    "StepJacobian",
    "TraceError",
    "Vec3",
    "World",
    "Wrenches",
    "abs_",
    "add_armature",
    "atan2",
    "clip",
    "compliant",
    "cos",
    "exp",
    "inspect_model",
    "load_model",
    "log",
    "maximum",
    "minimum",
    "norm",
    "penalty",
    "sin",
    "sqrt",
    "stop_gradient",
    "tanh",
    "trace",
    "where",
]
