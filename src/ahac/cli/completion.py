"""`ahac completion`: scripts that complete commands, options, names and run folders in a shell.

The scripts are static: they hold the words that the help of each command lists, and start no Python when they run.
"""

from __future__ import annotations

import io
import re
import shlex
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass

from ahac.cli.names import PRESETS, algo_names, task_names
from ahac.cli.parser import Commands, Parser, one_of

__all__ = ["completion"]

SHELLS = ("bash", "zsh", "fish")
ABOUT = (
    "Print a script that completes commands, options, tasks, algorithms, studies and run folders. To install it:\n\n"
    "bash: ahac completion bash >> ~/.bashrc\n"
    "zsh: ahac completion zsh >> ~/.zshrc\n"
    "fish: ahac completion fish > ~/.config/fish/completions/ahac.fish"
)
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9.-]*")
TAKE_RUNS = frozenset(
    {"resume", "eval", "play", "export", "compare", "report", "collect", "grad study", "grad landscape"}
)
"""Commands whose argument can be a run folder."""
TAKE_TASKS = frozenset(
    {"demo", "train", "play", "inspect", "grad study", "grad landscape", "grad check", "bench tasks", "bench memory",
     "bench train"}
)  # fmt: skip
"""Commands whose argument can be the name of a task."""
SLOW_HELP = "grad "
"""Start of the commands that import torch to list their options, which are not completed."""


@dataclass(frozen=True)
class Completions:
    """What can follow a command."""

    words: list[str]
    """Subcommands and names."""
    options: list[str]
    runs: bool
    """Whether run folders can follow."""


def completion(arguments: list[str]) -> int:
    """Run `ahac completion`."""
    parser = Parser("ahac completion", "|".join(SHELLS), ABOUT)
    parser.add_argument("shell", type=one_of(*SHELLS), metavar="|".join(SHELLS), help="name of the shell")
    shell = parser.parse(arguments).shell

    from ahac.cli.main import COMMANDS

    summaries = {name: summary for name, (summary, _) in COMMANDS.items()}
    found = _completions(COMMANDS)
    sys.stdout.write(_fish(summaries, found) if shell == "fish" else _bash(list(summaries), found, shell))
    return 0


def _completions(commands: Commands) -> dict[str, Completions]:
    """Return what can follow each command and subcommand, "bench" and "bench train"."""
    from ahac.cli.bench import COMMANDS as BENCH
    from ahac.cli.grad import COMMANDS as GRAD
    from ahac.cli.list import WHAT
    from ahac.experiments.study import available

    nested: dict[str, Commands] = {"bench": BENCH, "grad": GRAD}
    studies = list(available())
    fixed = {"list": list(WHAT), "completion": list(SHELLS), "sweep": studies, "bench study": studies}
    fixed |= {name: list(inner) for name, inner in nested.items()}
    every = {name: function for name, (_, function) in commands.items()}
    for name, inner in nested.items():
        every |= {f"{name} {word}": function for word, (_, function) in inner.items()}
    tasks = task_names()
    return {
        name: Completions(
            words=fixed.get(name, []) + (tasks if name in TAKE_TASKS else []),
            options=[] if name.startswith(SLOW_HELP) else _options(function),
            runs=name in TAKE_RUNS,
        )
        for name, function in every.items()
    }


def _options(command: Callable[[list[str]], int]) -> list[str]:
    """Return the options that the help of a command lists."""
    with redirect_stdout(io.StringIO()) as text, suppress(SystemExit):
        command(["--help-all"])
    left = [line.strip().partition("  ")[0] for line in text.getvalue().splitlines() if line.startswith("  -")]
    return OPTION.findall("\n".join(left))


def _values() -> dict[str, list[str]]:
    """Return the words that can follow an option."""
    from ahac.cli.report import REFERENCES
    from ahac.cli.sweep import LAUNCHERS

    algos = algo_names()
    return {
        "--algo": algos,
        "--algos": algos,
        "--preset": list(PRESETS),
        "--device": ["auto", "cpu", "cuda"],
        "--engine": ["ahac", "mujoco"],
        "--reference": list(REFERENCES),
        "--launcher": list(LAUNCHERS),
    }


BASH = """\
# Completion for ahac, written by `ahac completion`.
_ahac() {
    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" command="${COMP_WORDS[1]}"
    local words="" options="" runs="" run
    COMPREPLY=()
    case "$before" in
@VALUES@
    esac
    if [ -z "$words" ]; then
        if [ "$COMP_CWORD" -eq 1 ]; then
            command=""
        elif [ "$COMP_CWORD" -gt 2 ]; then
            case "$command" in
                @NESTED@) command="$command ${COMP_WORDS[2]}" ;;
            esac
        fi
        case "$command" in
@COMMANDS@
        esac
        case "$word" in
            -*) words="$options"; runs="" ;;
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$word"))
    if [ -n "$runs" ]; then
        for run in runs/*/; do
            case "$run" in
                "$word"*) [ -d "$run" ] && COMPREPLY+=("${run%/}") ;;
            esac
        done
    fi
}
complete -o default -F _ahac ahac
"""
ZSH = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n"
"""With its function bashcompinit, zsh understands completions for bash."""


def _bash(names: list[str], commands: Mapping[str, Completions], shell: str) -> str:
    values = [f'        {option}) words="{" ".join(words)}" ;;' for option, words in _values().items()]
    follow = {"": Completions(names, ["--help", "--version"], runs=False), **commands}
    cases = [
        f'        "{name}") words="{" ".join(c.words)}" options="{" ".join(c.options)}" runs="{"yes" * c.runs}" ;;'
        for name, c in follow.items()
    ]
    nested = "|".join(sorted({name.partition(" ")[0] for name in commands if " " in name}))
    script = BASH.replace("@VALUES@", "\n".join(values)).replace("@COMMANDS@", "\n".join(cases))
    return (ZSH if shell == "zsh" else "") + script.replace("@NESTED@", nested)


def _fish(summaries: Mapping[str, str], commands: Mapping[str, Completions]) -> str:
    first = "not contains -- (commandline -opc)[2] " + " ".join(summaries)
    lines = ["# Completion for ahac, written by `ahac completion`."]
    lines += [
        f"complete -c ahac -f -n {shlex.quote(first)} -a {name} -d {shlex.quote(summary)}"
        for name, summary in summaries.items()
    ]
    values = _values()
    for name, c in commands.items():
        outer, *inner = name.split()
        condition = f"contains -- {outer} (commandline -opc)[2]"
        condition += f"; and contains -- {inner[0]} (commandline -opc)[3]" if inner else ""
        start = f"complete -c ahac -n {shlex.quote(condition)}"
        if c.words:
            lines.append(f"{start} -a {shlex.quote(' '.join(c.words))}")
        if c.runs:
            lines.append(f"{start} -a '(set -l found runs/*/; string trim -r -c / -- $found)'")
        for option in c.options:
            words = f" -x -a {shlex.quote(' '.join(values[option]))}" if option in values else ""
            lines.append(f"{start} -l {option.removeprefix('--')}{words}")
    return "\n".join([*lines, ""])
