"""System identification: parameters of a robot from recorded motions.

result = ahac.identify("robot.xml", "data.npz", ["dof_damping:*", "joint_offset:*"])
print(result.table())
"""

from ahac.identification.api import identify
from ahac.identification.recordings import Recording, read_recording
from ahac.identification.result import Channel, Identification, read_estimates
from ahac.identification.statistics import Combination

__all__ = ["Channel", "Combination", "Identification", "Recording", "identify", "read_estimates", "read_recording"]
