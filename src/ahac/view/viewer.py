"""A stage in the browser, live: viser's server on this machine, a loop that steps and draws, and an end to it all."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from ahac.core.errors import AhacError, InputError
from ahac.view.controls import SPEEDS, Command, Panel, Plots
from ahac.view.geometry import bounding_radius
from ahac.view.layout import TrackLayout
from ahac.view.playback import Playback, nonfinite_error
from ahac.view.server import serving, show
from ahac.view.sources import ViewSource
from ahac.view.viser_scene import SceneNodes

if TYPE_CHECKING:
    import viser

__all__ = ["serve"]

FRAMES_PER_SECOND = 30.0
"""Pictures per second."""
PLOT_EVERY = 5
"""Pictures between two updates of the plots."""
FIELD = 0.75
"""How wide the camera sees, up and down [rad]."""
IDLE = 0.2
"""Between two looks for a browser, or for an end, while there is nothing to do [s]."""


def serve(
    stage: ViewSource,
    *,
    port: int | None = None,
    worlds: int = 4,
    host: str = "127.0.0.1",
    open_browser: bool = True,
    announce: Callable[[str], None] = lambda address: None,
    stop: threading.Event | None = None,
) -> None:
    """Show a stage in the browser until Ctrl-C, or until `stop` is set; then nothing is left running.

    `announce` gets the address once it can be opened. Without a `port`, the first free one from 8080 upwards is taken.
    While no browser looks on, the worlds stand still.
    """
    if worlds < 1:
        raise InputError(f"worlds must be at least 1, got {worlds}")
    ended = threading.Event() if stop is None else stop
    try:
        with serving(host, port) as server:
            viewer = _Viewer(server, stage, worlds)
            address = f"http://{host}:{server.get_port()}"
            announce(address)
            if open_browser:
                show(address)
            while not ended.is_set():
                viewer.tick()
    except KeyboardInterrupt:
        return


class _Viewer:
    """One stage, its picture and its panel."""

    def __init__(self, server: viser.ViserServer, stage: ViewSource, worlds: int) -> None:
        self._server = server
        self._stage = stage
        self._commands: SimpleQueue[Command] = SimpleQueue()
        self._playback = Playback(stage)
        frame = self._playback.frame
        lanes = TrackLayout(min(worlds, len(frame.position)), bounding_radius(stage.scene, frame))
        server.scene.set_up_direction("+z")
        server.gui.configure_theme(show_logo=False, show_share_button=False)
        server.gui.set_panel_label(f"ahac: {stage.scene.name}")
        self._nodes = SceneNodes(server.scene, stage.scene, lanes)
        self._panel = Panel(server.gui, self._commands, self._switches(), stage.checkpoints)
        self._plots = Plots(server.gui, tuple(frame.channels), lanes.count)
        self._note = ""
        self._pictures = 0
        self._place_camera(lanes, float(frame.position[0, stage.scene.root, 2]))
        self._draw()

    def _switches(self) -> tuple[str, ...]:
        scene = self._stage.scene
        there = {"follow": True, "contacts": bool(scene.contact_points), "muscles": bool(scene.muscles)}
        return tuple(name for name, used in there.items() if used)

    def _place_camera(self, lanes: TrackLayout, height: float) -> None:
        """Beside the nearest lane, so that robots that run along x come from the left."""
        camera = self._server.initial_camera
        across = (lanes.count - 1) * lanes.spacing
        distance = 2.8 * lanes.reach + 0.75 * across
        camera.fov = FIELD
        camera.look_at = (0.12 * across, -0.05 * across, 0.6 * height)
        camera.position = (0.45 * distance, -0.3 * across - distance, 0.5 * height + 0.4 * distance)

    def tick(self) -> None:
        """One picture: what the user asked for, the steps that are due, and a rest."""
        begun = time.perf_counter()
        if not self._server.get_clients():
            time.sleep(IDLE)
            return
        moved = False
        for frame in self._playback.advance():
            self._plots.add(self._playback.time, dict(frame.channels))
            moved = True
            if (error := nonfinite_error(frame)) is not None:
                self._refuse(error)
                break
        if moved:
            self._draw()
        rest = max(0.0, 1.0 / FRAMES_PER_SECOND - (time.perf_counter() - begun))
        self._handle_commands(IDLE if self._playback.paused else rest)

    def _handle_commands(self, wait: float) -> None:
        """Carry out commands as they come, for some time."""
        until = time.perf_counter() + wait
        while True:
            try:
                name, value = self._commands.get(timeout=max(0.0, until - time.perf_counter()))
            except Empty:
                return
            try:
                self._execute(name, value)
            except AhacError as error:
                self._show_note(str(error))
            self._draw()

    def _execute(self, name: str, value: object) -> None:
        """Do what a client asks for; values that the panel does not offer are ignored."""
        playback, nodes = self._playback, self._nodes
        match str(value).lower() if name == "button" else name:
            case "pause":
                playback.paused = not playback.paused
            case "step":
                playback.paused = True
                frame = playback.step()
                self._plots.add(playback.time, dict(frame.channels))
            case "reset":
                playback.reset()
                self._plots.clear()
            case "push":
                self._stage.push()
            case "speed" if str(value) in SPEEDS:
                playback.speed = SPEEDS[str(value)]
            case "follow":
                nodes.follow = bool(value)
            case "contacts":
                nodes.show_arrows = bool(value)
            case "muscles":
                nodes.show_muscles = bool(value)
            case "choose" if str(value) in self._stage.checkpoints:
                self._stage.load_checkpoint(str(value))
                playback.reset()
                self._plots.clear()

    def _refuse(self, error: InputError) -> None:
        self._playback.paused = True
        self._show_note(str(error))

    def _show_note(self, message: str) -> None:
        for client in self._server.get_clients().values():
            client.add_notification("ahac", message, auto_close_seconds=8.0, color="red")

    def _draw(self) -> None:
        frame = self._playback.frame
        self._pictures += 1
        with self._server.atomic():
            if nonfinite_error(frame) is None:
                self._nodes.draw(frame)
            if self._playback.paused or self._pictures % PLOT_EVERY == 0:
                self._plots.draw()
                self._panel.show(self._playback.paused, self._playback.time, self._note)
                self._panel.offer(self._stage.checkpoints)
        self._server.flush()
