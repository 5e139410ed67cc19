"""The live viewer: shows a view source in the browser, with viser as the server."""

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
"""Maximum number of frames drawn per second."""
PLOT_EVERY = 5
"""Drawn frames between two updates of the plots."""
FIELD_OF_VIEW = 0.75
"""Vertical field of view of the camera [rad]."""
IDLE = 0.2
"""Polling interval while paused or without a browser [s]."""


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
    """Show a view source in the browser until Ctrl-C, or until `stop` is set; no thread is left running.

    While no browser is connected, the worlds do not advance.

    Args:
        stage: What to show, such as an `EnvSource`.
        port: Port of the server; by default the first free one from 8080.
        worlds: Largest number of worlds to show.
        host: Address to listen on; by default only this machine can connect.
        open_browser: Whether to open the page in the browser.
        announce: Called with the address once the server accepts connections.
        stop: Ends the viewer when set.
    """
    if worlds < 1:
        raise InputError(f"worlds must be at least 1, got {worlds}")
    stopped = threading.Event() if stop is None else stop
    try:
        with serving(host, port) as server:
            viewer = _Viewer(server, stage, worlds)
            address = f"http://{host}:{server.get_port()}"
            announce(address)
            if open_browser:
                show(address)
            while not stopped.is_set():
                viewer.tick()
    except KeyboardInterrupt:
        return


class _Viewer:
    """One view source with its scene nodes and its panel."""

    def __init__(self, server: viser.ViserServer, source: ViewSource, worlds: int) -> None:
        self._server = server
        self._source = source
        self._commands: SimpleQueue[Command] = SimpleQueue()
        self._playback = Playback(source)
        frame = self._playback.frame
        layout = TrackLayout(min(worlds, len(frame.position)), bounding_radius(source.scene, frame))
        server.scene.set_up_direction("+z")
        server.gui.configure_theme(show_logo=False, show_share_button=False)
        server.gui.set_panel_label(f"ahac: {source.scene.name}")
        self._nodes = SceneNodes(server.scene, source.scene, layout)
        self._panel = Panel(server.gui, self._commands, self._switches(), source)
        self._plots = Plots(server.gui, tuple(frame.channels), layout.count)
        self._note = ""
        self._draws = 0
        self._place_camera(layout, float(frame.position[0, source.scene.root, 2]))
        self._draw()

    def _switches(self) -> tuple[str, ...]:
        scene = self._source.scene
        useful = {"follow": True, "contacts": bool(scene.contact_points), "muscles": bool(scene.muscles)}
        return tuple(name for name, shown in useful.items() if shown)

    def _place_camera(self, layout: TrackLayout, height: float) -> None:
        """Place the camera next to track 0, so that robots moving along x run from left to right."""
        camera = self._server.initial_camera
        across = (layout.count - 1) * layout.spacing
        distance = 2.8 * layout.reach + 0.75 * across
        camera.fov = FIELD_OF_VIEW
        camera.look_at = (0.12 * across, -0.05 * across, 0.6 * height)
        camera.position = (0.45 * distance, -0.3 * across - distance, 0.5 * height + 0.4 * distance)

    def tick(self) -> None:
        """Run the steps that are due, draw, and handle commands until the next frame."""
        begin = time.perf_counter()
        if not self._server.get_clients():
            time.sleep(IDLE)
            return
        advanced = False
        for frame in self._playback.advance():
            self._plots.add(self._playback.time, dict(frame.channels))
            advanced = True
            if (error := nonfinite_error(frame)) is not None:
                self._stop_on(error)
                break
        if advanced:
            self._draw()
        remaining = max(0.0, 1.0 / FRAMES_PER_SECOND - (time.perf_counter() - begin))
        self._handle_commands(IDLE if self._playback.paused else remaining)

    def _handle_commands(self, wait: float) -> None:
        """Execute commands as they arrive, for `wait` seconds."""
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
        """Execute a command; values that the panel does not offer are ignored."""
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
                self._source.push()
            case "speed" if str(value) in SPEEDS:
                playback.speed = SPEEDS[str(value)]
            case "follow":
                nodes.follow = bool(value)
            case "contacts":
                nodes.show_arrows = bool(value)
            case "muscles":
                nodes.show_muscles = bool(value)
            case "velocity" if value is None or isinstance(value, tuple):
                self._source.set_command(value)
            case "choose" if str(value) in self._source.checkpoints:
                self._source.load_checkpoint(str(value))
                playback.reset()
                self._plots.clear()

    def _stop_on(self, error: InputError) -> None:
        self._playback.paused = True
        self._show_note(str(error))

    def _show_note(self, message: str) -> None:
        for client in self._server.get_clients().values():
            client.add_notification("ahac", message, auto_close_seconds=8.0, color="red")

    def _draw(self) -> None:
        frame = self._playback.frame
        self._draws += 1
        with self._server.atomic():
            if nonfinite_error(frame) is None:
                self._nodes.draw(frame)
            if self._playback.paused or self._draws % PLOT_EVERY == 0:
                self._plots.draw()
                self._panel.show(self._playback.paused, self._playback.time, self._note)
                self._panel.offer(self._source.checkpoints)
        self._server.flush()
