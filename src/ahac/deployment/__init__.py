"""Trained policies as files for robots: ONNX or TorchScript, and a description in JSON.

ahac.export("runs/hopper-ahac-s0", "hopper.onnx")
"""

from ahac.deployment.api import FORMATS, export
from ahac.deployment.verification import ExportError

__all__ = ["FORMATS", "ExportError", "export"]
