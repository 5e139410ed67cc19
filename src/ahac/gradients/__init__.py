"""Studies of gradients through contact: section 3 of the paper, and the same tools for any task.

    from ahac.gradients import check, landscape, study_ball, study_heaviside, study_task

    study_task("hopper")["error"]            # numpy arrays by name
    check("robot.xml").passed                # compare gradients with finite differences

`ahac grad` does the same from the command line, and draws figures. Each function documents the arrays it returns.
"""

from ahac.gradients.ball import BallSettings
from ahac.gradients.ball import study as study_ball
from ahac.gradients.check import CheckSettings, GradientReport, GradientRow, check
from ahac.gradients.estimators import Agreement, Estimate, agreement, estimate, gaussian_scores, zeroth_order
from ahac.gradients.gait import gait_period
from ahac.gradients.gait_runs import GaitSettings
from ahac.gradients.gait_runs import study as study_gaits
from ahac.gradients.heaviside import HeavisideSettings
from ahac.gradients.heaviside import study as study_heaviside
from ahac.gradients.landscape import LandscapeSettings, landscape
from ahac.gradients.study import Study, load_study
from ahac.gradients.task_study import TaskSettings
from ahac.gradients.task_study import study as study_task

__all__ = [
    "Agreement",
    "BallSettings",
    "CheckSettings",
    "Estimate",
    "GaitSettings",
    "GradientReport",
    "GradientRow",
    "HeavisideSettings",
    "LandscapeSettings",
    "Study",
    "TaskSettings",
    "agreement",
    "check",
    "estimate",
    "gait_period",
    "gaussian_scores",
    "landscape",
    "load_study",
    "study_ball",
    "study_gaits",
    "study_heaviside",
    "study_task",
    "zeroth_order",
]
