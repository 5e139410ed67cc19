"""Policies as ONNX graphs, built node by node: docs/decisions/0022-exports.md."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from ahac.core.errors import InputError
from ahac.deployment.program import PolicyProgram
from ahac.nets.policy_layers import Normalization

if TYPE_CHECKING:
    import onnx

__all__ = ["METADATA", "load_libraries", "run_onnx", "to_onnx"]

OPSET = 17
"""Operator set: the oldest that has LayerNormalization."""
IR_VERSION = 8
"""File format that belongs to the operator set; runtimes reject files newer than themselves."""
METADATA = "ahac"
"""Key under which the description is stored in the file."""


def load_libraries() -> tuple[ModuleType, ModuleType]:
    """Return onnx and onnxruntime."""
    try:
        import onnx
        import onnxruntime
    except ImportError as error:
        raise InputError(
            f"exporting to ONNX needs {error.name}, which is not installed: pip install 'ahac[export]'"
        ) from error
    return onnx, onnxruntime


class _Graph:
    """Nodes and constants, added in the order of computation."""

    def __init__(self, library: ModuleType) -> None:
        self.library = library
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, name: str, value: Tensor) -> str:
        array = value.detach().cpu().to(torch.float32).numpy()
        self.constants.append(self.library.numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def node(self, operator: str, *inputs: str, output: str = "", **attributes: float) -> str:
        output = output or f"value_{len(self.nodes)}"
        self.nodes.append(self.library.helper.make_node(operator, list(inputs), [output], **attributes))
        return output

    def layer(self, index: int, layer: nn.Module, x: str) -> str:
        """Add a layer and return the name of its output."""
        prefix = f"layer_{index}"
        match layer:
            case Normalization():
                centered = self.node("Sub", x, self.constant(f"{prefix}_mean", layer.mean))
                return self.node("Mul", centered, self.constant(f"{prefix}_scale", layer.scale))
            case nn.Linear():
                weight = self.constant(f"{prefix}_weight", layer.weight)
                return self.node("Gemm", x, weight, self.constant(f"{prefix}_bias", layer.bias), transB=1)
            case nn.LayerNorm():
                weight = self.constant(f"{prefix}_weight", layer.weight)
                bias = self.constant(f"{prefix}_bias", layer.bias)
                return self.node("LayerNormalization", x, weight, bias, axis=-1, epsilon=layer.eps)
            case nn.ELU():
                return self.node("Elu", x, alpha=layer.alpha)
            case nn.SiLU():
                return self.node("Mul", x, self.node("Sigmoid", x))
            case nn.ReLU():
                return self.node("Relu", x)
            case nn.Tanh():
                return self.node("Tanh", x)
            case nn.Hardtanh():
                low = self.constant(f"{prefix}_low", torch.tensor(layer.min_val))
                return self.node("Clip", x, low, self.constant(f"{prefix}_high", torch.tensor(layer.max_val)))
        raise InputError(
            f"a policy with a layer {type(layer).__name__} cannot be exported to ONNX; export it as torchscript, or "
            "add the layer to ahac/deployment/onnx_format.py"
        )


def to_onnx(program: PolicyProgram, description: str) -> bytes:
    """Return the content of an .onnx file that also has the description."""
    onnx, _ = load_libraries()
    graph, x = _Graph(onnx), "obs"
    for index, layer in enumerate(program.layers):
        x = graph.layer(index, layer, x)
    graph.node("Identity", x, output="actions")
    if program.has_controls:
        scaled = graph.node("Mul", "actions", graph.constant("half_range", program.half_range))
        graph.node("Add", scaled, graph.constant("middle", program.middle), output="controls")

    def matrix(name: str, columns: int) -> onnx.ValueInfoProto:
        return onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", columns])

    outputs = [matrix(name, program.action_size) for name in program.outputs]
    content = onnx.helper.make_graph(graph.nodes, "policy", [matrix("obs", program.obs_size)], outputs, graph.constants)
    opset = [onnx.helper.make_opsetid("", OPSET)]
    model = onnx.helper.make_model(content, opset_imports=opset, ir_version=IR_VERSION, producer_name="ahac")
    onnx.helper.set_model_props(model, {METADATA: description})
    onnx.checker.check_model(model, full_check=True)
    return model.SerializeToString()


def run_onnx(content: bytes, obs: np.ndarray) -> list[np.ndarray]:
    """Return the outputs of an exported policy for [batch, obs_size] observations."""
    _, runtime = load_libraries()
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return session.run(None, {"obs": obs})
