"""Two ranks that are the same process: on one GPU, NCCL between one process and itself, recorded and replayed.

PYTHONPATH=tests python tests/support/loopback_ranks.py cuda|cpu STORE
"""

import sys

import torch
from torch import Tensor, distributed

from ahac.algos.short_horizon import ShortHorizonActorCritic
from ahac.core.distributed import ProcessGroup
from ahac.envs import make
from ahac.runtime.cuda_graphs import make_executor
from support.small_runs import small_algorithm


class Twins(ProcessGroup):
    """The other has the same worlds."""

    def _gather_list(self, x: Tensor) -> Tensor:
        sent = x.detach().contiguous()
        sent = sent.view(torch.uint8) if x.dtype == torch.bool else sent
        parts = torch.empty_like(sent)
        distributed.all_gather_into_tensor(parts.view(-1), sent.view(-1))
        return torch.stack([parts, parts]).view(x.dtype)


def learnt(device: str, algo: str, graphs: bool) -> tuple[list[dict[str, float]], dict[str, Tensor]]:
    """What some iterations come to."""
    ranks = Twins(size=2)
    env = make("hopper", num_envs=8, device=device, seed=3, ranks=ranks)
    algorithm = ShortHorizonActorCritic(small_algorithm("hopper", algo), env.spec, 1, ranks)
    executor = make_executor(env, [algorithm.generator], graphs)
    rows = [dict(executor.call(algorithm.iterate, env, 0.05 * k).metrics) for k in range(8)]
    return rows, algorithm.state_dict() | env.state_dict()


def main(device: str, store: str) -> None:
    """Recorded iterations are those done step by step, to the bit."""
    backend = "nccl" if device == "cuda" else "gloo"
    distributed.init_process_group(backend, init_method=f"file://{store}", rank=0, world_size=1)
    for algo in ("shac", "ahac"):
        (rows, state), (again, recorded) = (learnt(device, algo, graphs) for graphs in (False, True))
        assert again == rows, algo
        assert all(torch.equal(recorded[name], value) for name, value in state.items()), algo


if __name__ == "__main__":
    main(*sys.argv[1:])
