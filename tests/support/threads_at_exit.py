"""The threads of a rank, while it trains and when it ends, as a program for torchrun on Linux.

torchrun --nproc-per-node 2 tests/support/threads_at_exit.py FOLDER
"""

import atexit
import json
import sys
from pathlib import Path

import torch

from ahac.core.distributed import init_distributed


def thread_names() -> list[str]:
    """Names of all threads of this process, those of C++ included."""
    return [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]


if __name__ == "__main__":
    names: dict[str, list[str]] = {}
    rank: list[int] = []

    def write() -> None:
        """Write the names; registered first, so called after the process group is destroyed."""
        file = Path(sys.argv[1]) / f"rank-{rank[0]}.json"
        file.write_text(json.dumps({**names, "exit": thread_names()}))

    atexit.register(write)
    ranks = init_distributed()
    rank.append(ranks.rank)
    weight = torch.zeros(1, requires_grad=True)
    torch.optim.Adam([weight])  # imports more of torch
    ranks.mean(weight)
    names["training"] = thread_names()
