# pyright: reportAttributeAccessIssue=false
"""The process that renders with MuJoCo: `python -m ahac.view.video_worker JOB OUT`.

It is a separate process because MUJOCO_GL is read when MuJoCo is imported, and a graphics library may crash. It renders
the file JOB that `ahac.view.video` prepared, and imports no other part of this project. Without arguments it renders
the jobs that `ahac.view.frames` writes to its standard input, and answers with the pixels, until the input closes.
"""

from __future__ import annotations

import base64
import io
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import IO, Any

import numpy as np

__all__ = ["LENGTH_BYTES", "NO_GRAPHICS", "main", "serve"]

NO_GRAPHICS = 3
"""Exit code if the selected graphics library cannot render."""
LENGTH_BYTES = 8
"""Size of the number before each job on standard input: the job's length in bytes, little-endian."""

AZIMUTH = 122.0
"""Azimuth of the camera [degrees]: to the side of a robot that moves along x, and slightly ahead of it."""
ELEVATION = -17.0
"""Elevation of the camera [degrees]."""
DISTANCE = 2.5
"""Distance of the camera, in units of the radius that it shows, which then fits into a 45 degree field of view."""
GROUND = (0.86, 0.88, 0.90)
GROUND_DARK = (0.76, 0.79, 0.82)
GROUND_EDGE = (0.80, 0.83, 0.86)
SKY_TOP = (0.62, 0.74, 0.86)
SKY_LOW = (0.94, 0.96, 0.98)


def main(job: str, out: str) -> int:
    """Render a job file into a video or image file, and return the exit code."""
    arrays = _load(job)
    header = json.loads(arrays.pop("header").tobytes())
    frames = _started(render(header, [arrays], int(arrays["count"].max(initial=0))))
    if frames is None:
        return NO_GRAPHICS
    write(out, frames, header["fps"])
    return 0


def serve() -> int:
    """Render jobs from standard input, of which the first has a header, and write the pixels to standard output."""
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints is not mistaken for pixels
    jobs = _received(sys.stdin.buffer)
    first = next(jobs)
    header = json.loads(first.pop("header").tobytes())
    frames = _started(render(header, chain([first], jobs), int(first["count"].max(initial=0))))
    if frames is None:
        return NO_GRAPHICS
    for frame in frames:
        out.write(frame.tobytes())
        out.flush()
    return 0


def _load(file: str | IO[bytes]) -> dict[str, np.ndarray]:
    with np.load(file, allow_pickle=False) as content:
        return {name: content[name] for name in content.files}


def _received(stream: IO[bytes]) -> Iterator[dict[str, np.ndarray]]:
    """Yield each job of a stream."""
    while length := stream.read(LENGTH_BYTES):
        yield _load(io.BytesIO(stream.read(int.from_bytes(length, "little"))))


def _started(frames: Iterator[np.ndarray]) -> Iterator[np.ndarray] | None:
    """Render the first frame, and return all frames; None, with the error on stderr, without graphics."""
    try:
        first = next(frames)
    except (ImportError, RuntimeError, AttributeError, OSError) as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return None
    return chain([first], frames)


def render(header: Mapping[str, Any], jobs: Iterable[Mapping[str, np.ndarray]], lines: int) -> Iterator[np.ndarray]:
    """Yield each frame of all jobs as a uint8 image [H, W, 3]; a frame has at most `lines` lines."""
    import mujoco

    width, height = header["size"]
    model = build_model(header["scene"], width, height, header["reach"])
    data = mujoco.MjData(model)
    camera = mujoco.MjvCamera()
    camera.azimuth = AZIMUTH
    camera.elevation = ELEVATION
    camera.distance = DISTANCE * header["span"]
    try:
        context = mujoco.Renderer(model, height, width, max_geom=model.ngeom + lines + 8)
    except mujoco.FatalError as error:  # raised by MUJOCO_GL=glfw without a display
        raise RuntimeError(str(error)) from error
    with context as renderer:
        for job in jobs:
            ends = np.cumsum(job["count"])
            for t, (begin, end) in enumerate(zip(ends - job["count"], ends, strict=True)):
                data.mocap_pos[:-1], data.mocap_quat[:-1] = job["position"][t, 1:], job["quaternion"][t, 1:]
                data.mocap_pos[-1] = camera.lookat[:] = job["target"][t]
                mujoco.mj_forward(model, data)
                renderer.update_scene(data, camera)
                for s in range(begin, end):
                    add_line(renderer.scene, *(job[name][s] for name in ("ends", "color", "width", "is_arrow")))
                yield renderer.render()


def add_line(scene: Any, ends: np.ndarray, color: np.ndarray, width: float, is_arrow: bool) -> None:  # noqa: ANN401
    """Add an arrow or a capsule between two points to the rendered scene."""
    import mujoco

    geom = scene.geoms[scene.ngeom]
    kind = mujoco.mjtGeom.mjGEOM_ARROW if is_arrow else mujoco.mjtGeom.mjGEOM_CAPSULE
    rgba = np.array([*color, 1.0], dtype=np.float32)
    mujoco.mjv_initGeom(geom, kind, np.zeros(3), np.zeros(3), np.eye(3).ravel(), rgba)
    mujoco.mjv_connector(geom, kind, float(width), *ends.astype(np.float64))
    scene.ngeom += 1


def build_model(scene: Mapping[str, Any], width: int, height: int, reach: float) -> Any:  # noqa: ANN401
    """Return a MuJoCo model of a scene in which every body is a mocap body, plus one body that carries the light."""
    import mujoco

    spec = mujoco.MjSpec()
    _set_up_rendering(spec, width, height, reach)
    for number, mesh in enumerate(scene["meshes"]):
        vertices, faces = (
            np.frombuffer(base64.b64decode(mesh[k]), t) for k, t in (("vertices", "<f4"), ("faces", "<i4"))
        )
        surface = spec.add_mesh(name=f"mesh{number}", uservert=vertices, userface=faces)
        surface.inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL
    bodies = {scene["bodies"][0]: spec.worldbody}
    bodies |= {name: spec.worldbody.add_body(mocap=True) for name in scene["bodies"][1:]}
    for number, visual in enumerate(scene["looks"]):
        *color, opacity = visual["color"]
        if scene["muscles"] and opacity < 1.0:
            opacity *= 0.5  # translucent geoms are meant to show the muscles inside
        # Spheres of adjacent capsules often coincide; slightly different sizes avoid z-fighting.
        size = np.array(visual["size"]) * (1.0 - 0.004 * (number % 5))
        geom = bodies[visual["body"]].add_geom(
            type=getattr(mujoco.mjtGeom, f"mjGEOM_{visual['kind'].upper()}"),
            size=size,
            pos=visual["position"],
            quat=visual["quaternion"],
            rgba=[*color, opacity],
            contype=0,
            conaffinity=0,
            mass=1.0,
        )
        if visual["mesh"] is not None:
            geom.meshname = f"mesh{visual['mesh']}"
            geom.size = [0.0, 0.0, 0.0]
    for plane in scene["planes"]:
        normal = np.array(plane["normal"])
        quaternion = np.zeros(4)
        mujoco.mju_quatZ2Vec(quaternion, normal)
        spec.worldbody.add_geom(
            type=mujoco.mjtGeom.mjGEOM_PLANE,
            size=[0.0, 0.0, 1.0],
            pos=normal * plane["offset"],
            quat=quaternion,
            material="ground",
            contype=0,
            conaffinity=0,
        )
    light_body = spec.worldbody.add_body(mocap=True)
    light_body.add_light(
        type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL,
        pos=[-1.5 * reach, -2.0 * reach, 5.0 * reach],
        dir=[0.3, 0.4, -1.0],
        castshadow=True,
        diffuse=[0.45, 0.45, 0.45],
        specular=[0.15, 0.15, 0.15],
        ambient=[0.0, 0.0, 0.0],
    )
    return spec.compile()


def _set_up_rendering(spec: Any, width: int, height: int, reach: float) -> None:  # noqa: ANN401
    """Set image size, lights, clipping planes, sky and ground."""
    import mujoco

    visual = spec.visual
    visual.global_.offwidth = width
    visual.global_.offheight = height
    visual.headlight.ambient = [0.48] * 3
    visual.headlight.diffuse = [0.27] * 3
    visual.headlight.specular = [0.05] * 3
    visual.map.znear = 0.05
    visual.map.zfar = 60.0
    visual.map.shadowclip = 3.0
    visual.quality.shadowsize = 2048
    visual.quality.offsamples = 4
    spec.stat.extent = reach
    spec.stat.center = [0.0, 0.0, 0.0]
    spec.add_texture(
        name="sky",
        type=mujoco.mjtTexture.mjTEXTURE_SKYBOX,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
        rgb1=SKY_TOP,
        rgb2=SKY_LOW,
        width=256,
        height=1536,
    )
    spec.add_texture(
        name="tiles",
        type=mujoco.mjtTexture.mjTEXTURE_2D,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_CHECKER,
        rgb1=GROUND,
        rgb2=GROUND_DARK,
        mark=mujoco.mjtMark.mjMARK_EDGE,
        markrgb=GROUND_EDGE,
        width=512,
        height=512,
    )
    # The texture has two by two tiles; a tile is 1 m for a robot with a reach of about 1 m, else 0.5 m, 2 m, ...
    repeat = 0.5 / 2.0 ** round(np.log2(reach))
    ground = spec.add_material(
        name="ground", texuniform=True, texrepeat=[repeat, repeat], reflectance=0.0, specular=0.0
    )
    ground.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = "tiles"


def write(out: str, frames: Iterable[np.ndarray], fps: float) -> None:
    """Encode frames in the format given by the suffix of `out`."""
    if out.endswith(".mp4"):
        _write_mp4(out, frames, fps)
        return
    from PIL import Image

    images = (Image.fromarray(frame) for frame in frames)
    if out.endswith(".png"):
        next(images).save(out, optimize=True)
        return
    # One palette for all frames and no dithering: static pixels do not flicker, and the file stays small.
    head = list(islice(images, 1))
    palette = head[0].quantize(255)
    quantized = (image.quantize(palette=palette, dither=Image.Dither.NONE) for image in chain(head, images))
    first = next(quantized)
    first.save(out, save_all=True, append_images=quantized, duration=round(1000.0 / fps), loop=0, optimize=False)


def _write_mp4(out: str, frames: Iterable[np.ndarray], fps: float) -> None:
    import imageio_ffmpeg

    remaining = iter(frames)
    first = next(remaining)
    rate: Any = fps  # annotated as int, but any float works
    writer = imageio_ffmpeg.write_frames(
        out,
        first.shape[1::-1],
        fps=rate,
        codec="libx264",
        quality=7,
        macro_block_size=2,
        ffmpeg_log_level="error",
        output_params=["-movflags", "+faststart"],
    )
    writer.send(None)
    for frame in chain([first], remaining):
        writer.send(np.ascontiguousarray(frame))
    writer.close()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) if len(sys.argv) > 1 else serve())
