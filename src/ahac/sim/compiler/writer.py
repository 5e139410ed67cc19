"""Write the statements of a kernel's body: load, save and store groups of numbers, run programs, loop over substeps.

On CUDA several threads may share a world. All of them execute the statements outside of a loop. Inside a loop each
thread computes its share of the program, and they exchange values through slots of shared memory (see `schedule`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ahac.native.source import Source
from ahac.sim.compiler.expressions import expression, term
from ahac.sim.compiler.graph import Real
from ahac.sim.compiler.invariants import FIXED, split, sum_of
from ahac.sim.compiler.loop_writer import LoopWriter, fast_expression
from ahac.sim.compiler.program import Program
from ahac.sim.compiler.schedule import ThreadSchedule, schedule

__all__ = ["Writer"]

SYNC = "SYNC;"
"""Barrier: all threads of a world wait for each other."""
NO_UNROLL = '_Pragma("unroll 1")'
"""Prevents unrolling: instruction fetch limits these loops, so their code must not be duplicated."""
FORWARD = "for (int s = 0; s < steps; ++s)"
BACKWARD = "for (int s = steps - 1; s >= 0; --s)"


@dataclass
class Writer:
    """Collects the statements of one kernel body."""

    arrays: list[str] = field(default_factory=list)
    """Arrays that the kernel takes, in the order of their addresses."""
    lines: list[str] = field(default_factory=list)
    operations: int = 0
    """Scalar operations written so far; the body of the loop over substeps counts once."""
    threads: int = 1
    """CUDA threads that share a world."""
    shared_words: int = 0
    """Numbers per world in shared memory, through which those threads exchange values."""
    loops: LoopWriter = field(default_factory=LoopWriter)

    def pointer(self, array: str) -> None:
        """Declare an array as an argument of the kernel."""
        self.lines.append(f"real* const {array}_p = (real*)args.address[{len(self.arrays)}];")
        self.arrays.append(array)

    def declare(self, name: str, size: int) -> None:
        """Declare a local group of numbers, initialized to zero."""
        if size:
            self.lines.append(f"T {name}[{size}] = {{}};")

    def load(self, name: str, size: int, array: str | None = None) -> None:
        """Declare a group and read it from an array; it stays zero if the array was not passed."""
        self.pointer(array := array or name)
        self.declare(name, size)
        if size:
            self.lines.append(f"if ({array}_p) EACH({size}) {name}[i] = lane::load({array}_p, i, {size}, e, n);")

    def load_timestep(self) -> None:
        """Declare the group `h`, the length of a substep."""
        self.lines.append("const int steps = args.count; T h[1]; h[0] = lane::k(args.scalar);")

    def store(self, name: str, size: int, array: str | None = None) -> None:
        """Write a group to an array, if it was passed."""
        self.pointer(array := array or name)
        if size:
            test = f"{array}_p && FIRST_PART"
            self.lines.append(f"if ({test}) EACH({size}) lane::store({array}_p, i, {size}, e, n, {name}[i]);")

    def each(self, size: int, statement: str) -> None:
        """Write a statement once per index from 0 to `size` - 1, inserted at `{i}`."""
        self.lines.extend(statement.format(i=i) for i in range(size))

    def save_state(self, groups: Mapping[str, int], thread: int) -> None:
        """Write the groups to row `s` of `saved_states`, if it was passed; each thread writes its share of them."""
        self.lines.append("if (saved_states_p) {")
        for index, (local, saved) in enumerate(_saved_numbers(groups)):
            if index % self.threads == thread:
                self.lines.append(f"lane::put({saved}, {local});")
        self.lines.append("}")

    def restore_state(self, groups: Mapping[str, int]) -> None:
        """Read the groups from row `s` of `saved_states`."""
        self.lines.extend(f"{local} = lane::get({saved});" for local, saved in _saved_numbers(groups))

    def restore_first_state(self, groups: Mapping[str, int]) -> None:
        """Read the groups from row 0 of `saved_states`."""
        self.lines.append("{ const int s = 0;")
        self.restore_state(groups)
        self.lines.append("}")

    def sum_magnitudes(self, total: str, groups: Mapping[str, int]) -> None:
        """Declare `total`, the sum of absolute values of some adjoints: if it is zero, so are all gradients."""
        self.lines.append(f"T {total} = {{}};")
        self.lines += [f"EACH({size}) {total} += lane::abs({name}[i]);" for name, size in groups.items() if size]

    def zero_unless(self, total: str, name: str, size: int) -> None:
        """Set a group to zero in worlds where `total` is zero, so that 0 · NaN cannot turn a masked loss into NaN."""
        if size:
            self.lines.append(f"EACH({size}) {name}[i] = lane::less({total}, lane::k(real(1e-37)), T{{}}, {name}[i]);")

    def run(
        self, program: Program, inputs: Mapping[str, str], outputs: Mapping[str, str], add: Sequence[str] = ()
    ) -> None:
        """Run a program on local groups; outputs in `add` are added to their groups instead of replacing them."""
        self.operations += program.operations()
        self.lines.append("{")
        self._compute(program, program.live(), inputs)
        for name, i, value in _outputs(program):
            self.lines.append(f"{outputs[name]}[{i}] {'+=' if name in add else '='} {term(value)};")
        self.lines.append("}")

    def substeps(
        self,
        begin: Callable[[int], None],
        program: Program,
        inputs: Mapping[str, str],
        outputs: Mapping[str, str],
        add: Sequence[str] = (),
        backward: bool = False,
        fixed: Sequence[str] = (),
    ) -> None:
        """Run a program once per substep `s`, from the last to the first if `backward`.

        `begin(thread)` writes the statements with which each iteration of a thread begins. What depends only on the
        inputs `fixed` is computed once, before or after all substeps, in programs with loops, which are long, and with
        parameters or memory, from which much follows. The few operations of other programs are not worth it.
        """
        header = BACKWARD if backward else FORWARD
        if not program.picks and not {"p", "m"} & program.inputs.keys():
            self._repeat(header, begin, program, inputs, outputs, add)
            return
        parts = split(program, fixed, add)
        self.declare(FIXED, len(parts.before.outputs[FIXED]))
        self.run(parts.before, inputs, {FIXED: FIXED})
        inputs = {**inputs, FIXED: FIXED}
        self._repeat(header, begin, parts.inside, inputs, outputs, add)
        self.run(parts.after, {**inputs, **{sum_of(name): outputs[name] for name in add}}, outputs)

    def _repeat(
        self,
        header: str,
        begin: Callable[[int], None],
        program: Program,
        inputs: Mapping[str, str],
        outputs: Mapping[str, str],
        add: Sequence[str],
    ) -> None:
        """Write the loop over substeps."""
        if self.threads == 1:
            self.lines.append(f"{header} {{")
            begin(0)
            self.run(program, inputs, outputs, add)
            self.lines.append("}")
            return
        plan = schedule(program, self.threads)
        results = [(name, f"{outputs[name]}[{i}]", plan.owner_of(v), v) for name, i, v in _outputs(program)]
        slot_of = {local: plan.memory + k for k, (_, local, _, _) in enumerate(results)}
        from_inputs = [index for index in program.live() if program.source(index) is not None]
        self.operations += program.operations()
        self.shared_words = max(self.shared_words, plan.memory + len(results))
        self.lines.append("switch (PART) {")
        for thread in range(self.threads):
            self.lines.append(f"case {thread}: {NO_UNROLL} {header} {{")
            begin(thread)
            self._stages(program, from_inputs, inputs, plan, thread)
            for name, local, owner, value in results:
                if owner == thread:
                    target = f"{local} +=" if name in add else f"SMEM({slot_of[local]}) ="
                    self.lines.append(f"{target} {term(value)};")
            self.lines.append(SYNC)
            self.lines += [f"{local} = SMEM({slot_of[local]});" for name, local, _, _ in results if name not in add]
            # With a single stage, no other barrier keeps the next iteration from overwriting slots that are being read.
            self.lines.append(f"{SYNC if plan.stages == 1 else ''} }}")
            sums = [local for name, local, owner, _ in results if name in add and owner == thread]
            self.lines += [*(f"SMEM({slot_of[local]}) = {local};" for local in sums), "break;"]
        self.lines += ["}", SYNC]
        self.lines += [f"{local} = SMEM({slot_of[local]});" for name, local, _, _ in results if name in add]

    def source(self, name: str) -> Source:
        """Return the finished kernel."""
        body = "\n".join(self.lines)
        functions = self.loops.functions()
        return Source(name, tuple(self.arrays), body, self.operations, self.threads, self.shared_words, 1, functions)

    def _stages(
        self,
        program: Program,
        from_inputs: Sequence[int],
        inputs: Mapping[str, str],
        plan: ThreadSchedule,
        thread: int,
    ) -> None:
        """Write one thread's share of a program, stage by stage."""
        self._compute(program, from_inputs, inputs)
        for stage in range(plan.stages):
            if stage:
                self.lines.append(SYNC)
            self.lines += [f"const T t{i} = SMEM({plan.slots[i]});" for i in plan.imports[thread][stage]]
            self._compute(program, plan.nodes[thread][stage], inputs, plan.slots)

    def _compute(
        self, program: Program, nodes: Iterable[int], inputs: Mapping[str, str], slots: Mapping[int, int] | None = None
    ) -> None:
        """Compute nodes one after the other, and copy those with a slot to shared memory."""
        graph, shared = program.graph, slots or {}
        written = fast_expression if program.picks else expression
        for index in nodes:
            if (source := program.source(index)) is not None:
                group, position = source
                self.lines.append(f"const T t{index} = {inputs[group]}[{position}];")
            elif index in graph.calls:
                self.lines += self.loops.call(program, index)
            elif graph.nodes[index][0] != "pick":  # a call writes its results itself
                self.lines.append(f"const T t{index} = {written(graph, index)};")
            if index in shared:
                self.lines.append(f"SMEM({shared[index]}) = t{index};")


def _saved_numbers(groups: Mapping[str, int]) -> list[tuple[str, str]]:
    """List each number of the groups as (local variable, its address in row `s` of `saved_states`)."""
    width = sum(groups.values())
    locals_ = [f"{name}[{i}]" for name, size in groups.items() for i in range(size)]
    return [
        (local, f"lane::saved_state(saved_states_p, {index}, s, {width}, steps, e, n)")
        for index, local in enumerate(locals_)
    ]


def _outputs(program: Program) -> list[tuple[str, int, Real]]:
    return [(name, i, value) for name, group in program.outputs.items() for i, value in enumerate(group)]
