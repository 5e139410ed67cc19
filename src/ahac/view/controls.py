"""The control panel of the live viewer: buttons, switches and plots, built from viser widgets.

User input is queued as commands, which the viewer's thread executes between two frames.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING

import numpy as np

from ahac.view.colors import CURVE_COLORS
from ahac.view.sources import Velocity, ViewSource

if TYPE_CHECKING:
    import viser

__all__ = ["SPEEDS", "Command", "Panel", "Plots"]

Command = tuple[str, object]
"""Name of a command, and its value."""

SPEEDS = {"2x": 2.0, "1x (real time)": 1.0, "1/2x": 0.5, "1/4x": 0.25, "1/10x": 0.1}
"""Playback speeds, by their label in the panel."""

SWITCHES = {
    "follow": ("Follow", "The camera follows the robots"),
    "contacts": (
        "Contact forces",
        "An arrow 1.5 times the robot's reach is a force equal to its weight",
    ),
    "muscles": ("Muscles", "Blue at rest, red when fully active"),
}

VELOCITIES = ("Forward [m/s]", "Left [m/s]", "Turn left [rad/s]")
"""Labels of the sliders of a velocity command."""

SLIDER_STEPS = 20
"""Steps of these sliders per m/s and rad/s."""

HISTORY = 10.0
"""Time span of the plots [s]."""

TORQUE = "torque "
"""Channels with this prefix share one plot."""


class Panel:
    """Buttons and switches."""

    def __init__(
        self, gui: viser.GuiApi, commands: SimpleQueue[Command], switches: tuple[str, ...], source: ViewSource
    ) -> None:
        self._commands = commands
        self.status = gui.add_markdown("")
        self.pause = gui.add_button("Pause", icon=_icon("PLAYER_PAUSE"))
        self.pause.on_click(self._sender("pause", lambda _: None))
        others = gui.add_button_group("", ("Step", "Reset", "Push"), hint="Single step · reset · push the robots")
        others.on_click(self._sender("button", lambda event: event.target.value))
        speed = gui.add_dropdown("Speed", tuple(SPEEDS), initial_value="1x (real time)")
        speed.on_update(self._sender("speed", lambda event: event.target.value))
        for name, (label, hint) in SWITCHES.items():
            if name in switches:
                switch = gui.add_checkbox(label, initial_value=True, hint=hint)
                switch.on_update(self._sender(name, lambda event: event.target.value))
        if source.command_ranges:
            self._add_velocities(gui, source)
        self._choices = None
        if choices := source.checkpoints:
            self._choices = gui.add_dropdown("Checkpoint", choices, initial_value=choices[0])
            self._choices.on_update(self._sender("choose", lambda event: event.target.value))

    def offer(self, choices: tuple[str, ...]) -> None:
        """Update the list of checkpoints."""
        if self._choices is not None and choices and tuple(self._choices.options) != choices:
            self._choices.options = choices

    def show(self, paused: bool, time: float, note: str) -> None:
        """Show whether playback is paused, the time, and a note."""
        label = "Play" if paused else "Pause"
        if self.pause.label != label:
            self.pause.label = label
            self.pause.icon = _icon(f"PLAYER_{label.upper()}")
        self.status.content = f"{'paused at' if paused else 'time'} **{time:.2f} s**{note}"

    def _add_velocities(self, gui: viser.GuiApi, source: ViewSource) -> None:
        """Add a switch and sliders for the velocity that the robots are to follow."""
        hint = "All robots follow the sliders; otherwise commands vary as in training"
        disabled = source.command is None
        switch = gui.add_checkbox("Command velocity", initial_value=not disabled, hint=hint)
        start = source.command or (0.0, 0.0, 0.0)
        sliders = [
            gui.add_slider(
                label, *_slider_bounds(*bounds, value), step=1 / SLIDER_STEPS, initial_value=value, disabled=disabled
            )
            for label, bounds, value in zip(VELOCITIES, source.command_ranges, start, strict=True)
        ]

        def enable_sliders(_: viser.GuiEvent) -> None:
            for slider in sliders:
                slider.disabled = not switch.value

        def velocity(_: viser.GuiEvent) -> Velocity | None:
            forward, left, turn = (slider.value for slider in sliders)
            return (forward, left, turn) if switch.value else None

        switch.on_update(enable_sliders)
        for widget in (switch, *sliders):
            widget.on_update(self._sender("velocity", velocity))

    def _sender(self, name: str, value: Callable[[viser.GuiEvent], object]) -> Callable[[viser.GuiEvent], None]:
        def send(event: viser.GuiEvent) -> None:
            # Without a client, this program changed the widget itself.
            if event.client is not None:
                self._commands.put((name, value(event)))

        return send


class Plots:
    """Curves of the last seconds, one per world; joint torques share a plot that shows one joint at a time."""

    def __init__(self, gui: viser.GuiApi, channels: tuple[str, ...], worlds: int) -> None:
        self._worlds = worlds
        self._times: deque[float] = deque()
        self._values: dict[str, deque[np.ndarray]] = {name: deque() for name in channels}
        torques = tuple(name for name in channels if name.startswith(TORQUE))
        self._handles = {name: self._add(gui, name) for name in channels if name not in torques}
        self._joint = None
        self._torque = None
        if torques:
            joints = tuple(name.removeprefix(TORQUE) for name in torques)
            self._joint = gui.add_dropdown("Torque of", joints, initial_value=joints[0])
            self._torque = self._add(gui, "joint torque")

    def add(self, time: float, channels: dict[str, np.ndarray]) -> None:
        """Append the channels of one frame."""
        if self._times and time < self._times[-1]:
            self.clear()
        self._times.append(time)
        for name, values in self._values.items():
            values.append(np.asarray(channels[name], dtype=np.float64)[: self._worlds])
        while self._times[-1] - self._times[0] > HISTORY:
            self._times.popleft()
            for values in self._values.values():
                values.popleft()

    def clear(self) -> None:
        """Discard all samples."""
        self._times.clear()
        for values in self._values.values():
            values.clear()

    def draw(self) -> None:
        """Send the curves to the browser."""
        if len(self._times) < 2:
            return
        for name, handle in self._handles.items():
            handle.data = self._curves(name)
        if self._joint is not None and self._torque is not None:
            channel = TORQUE + self._joint.value
            if channel in self._values:  # a client can send any text
                self._torque.data = self._curves(channel)

    def _curves(self, name: str) -> tuple[np.ndarray, ...]:
        curves = np.array(self._values[name]).T
        return (np.array(self._times), *curves)

    def _add(self, gui: viser.GuiApi, title: str) -> viser.GuiUplotHandle:
        from viser import uplot

        curves = tuple(
            uplot.Series(label=f"world {k}", stroke=CURVE_COLORS[k % len(CURVE_COLORS)], width=1.5)
            for k in range(self._worlds)
        )
        empty = tuple(np.zeros(1) for _ in range(self._worlds + 1))
        return gui.add_uplot(
            empty,
            (uplot.Series(label="s"), *curves),
            title=title,
            aspect=1.9,
            axes=(uplot.Axis(size=32), uplot.Axis(size=64)),
            scales={"x": uplot.Scale(time=False)},
            legend=uplot.Legend(show=False),
        )


def _slider_bounds(low: float, high: float, value: float) -> tuple[float, float]:
    """Return the bounds of a slider: multiples of its step, so that it can be set to zero, and not equal."""
    first = math.floor(min(low, value) * SLIDER_STEPS)
    last = math.ceil(max(high, value) * SLIDER_STEPS)
    return first / SLIDER_STEPS, max(last, first + 1) / SLIDER_STEPS


def _icon(name: str) -> viser.IconName:
    from viser import Icon

    return getattr(Icon, name)
