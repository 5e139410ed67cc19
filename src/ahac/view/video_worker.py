# pyright: reportAttributeAccessIssue=false
"""The process that draws films with MuJoCo's renderer: `python -m ahac.view.video_worker JOB OUT`.

A process of its own, because MUJOCO_GL counts when MuJoCo is imported and a graphics library may take its process down.
It draws what `film` has prepared in the file JOB and imports no other part of this project.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any

import numpy as np

__all__ = ["NO_GRAPHICS", "main"]

NO_GRAPHICS = 3
"""Exit code where there is no picture to be had from the graphics library chosen."""

AZIMUTH, ELEVATION = 122.0, -17.0
"""Of the camera [degrees]: beside a robot that goes along x, and a little ahead of it."""
AWAY = 2.5
"""Distance of the camera, in radii of what it shows; the whole of it fits into 45 degrees."""
GROUND = (0.86, 0.88, 0.90)
SKY_TOP = (0.62, 0.74, 0.86)
SKY_LOW = (0.94, 0.96, 0.98)
GROUND_DARK, GROUND_EDGE = (0.76, 0.79, 0.82), (0.80, 0.83, 0.86)


def main(job: str, out: str) -> int:
    """Draw a prepared film into a file, and return the exit code."""
    with np.load(job, allow_pickle=False) as file:
        shot = {name: file[name] for name in file.files}
    header = json.loads(shot.pop("header").tobytes())
    frames = pictures(header, shot)
    try:
        first = next(frames)
    except (ImportError, RuntimeError, AttributeError, OSError) as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return NO_GRAPHICS
    write(out, chain([first], frames), header["fps"])
    return 0


def pictures(header: Mapping[str, Any], shot: Mapping[str, np.ndarray]) -> Iterator[np.ndarray]:
    """[H, W, 3] bytes of every frame."""
    import mujoco

    width, height = header["size"]
    model = build(header["scene"], width, height, header["reach"])
    data = mujoco.MjData(model)
    camera = mujoco.MjvCamera()
    camera.azimuth = AZIMUTH
    camera.elevation = ELEVATION
    camera.distance = AWAY * header["span"]
    ends = np.cumsum(shot["count"])
    try:
        drawn_with = mujoco.Renderer(model, height, width, max_geom=model.ngeom + int(shot["count"].max(initial=0)) + 8)
    except mujoco.FatalError as error:  # as MUJOCO_GL=glfw does where there is no display
        raise RuntimeError(str(error)) from error
    with drawn_with as renderer:
        for t, (begin, end) in enumerate(zip(ends - shot["count"], ends, strict=True)):
            data.mocap_pos[:-1], data.mocap_quat[:-1] = shot["position"][t, 1:], shot["quaternion"][t, 1:]
            data.mocap_pos[-1] = camera.lookat[:] = shot["target"][t]
            mujoco.mj_forward(model, data)
            renderer.update_scene(data, camera)
            for s in range(begin, end):
                stroke(renderer.scene, *(shot[name][s] for name in ("ends", "color", "width", "is_arrow")))
            yield renderer.render()


def stroke(scene: Any, ends: np.ndarray, color: np.ndarray, width: float, is_arrow: bool) -> None:  # noqa: ANN401
    """Add one straight stroke to what is drawn."""
    import mujoco

    geom = scene.geoms[scene.ngeom]
    kind = mujoco.mjtGeom.mjGEOM_ARROW if is_arrow else mujoco.mjtGeom.mjGEOM_CAPSULE
    rgba = np.array([*color, 1.0], dtype=np.float32)
    mujoco.mjv_initGeom(geom, kind, np.zeros(3), np.zeros(3), np.eye(3).ravel(), rgba)
    mujoco.mjv_connector(geom, kind, float(width), *ends.astype(np.float64))
    scene.ngeom += 1


def build(scene: Mapping[str, Any], width: int, height: int, reach: float) -> Any:  # noqa: ANN401
    """A MuJoCo model of a scene: every body can be put anywhere, and one more carries the light."""
    import mujoco

    spec = mujoco.MjSpec()
    _prepare(spec, width, height, reach)
    for number, mesh in enumerate(scene["meshes"]):
        vertices, faces = (
            np.frombuffer(base64.b64decode(mesh[k]), t) for k, t in (("vertices", "<f4"), ("faces", "<i4"))
        )
        surface = spec.add_mesh(name=f"mesh{number}", uservert=vertices, userface=faces)
        surface.inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL
    bodies = {scene["bodies"][0]: spec.worldbody}
    bodies |= {name: spec.worldbody.add_body(mocap=True) for name in scene["bodies"][1:]}
    for number, look in enumerate(scene["looks"]):
        *color, opacity = look["color"]
        if scene["muscles"] and opacity < 1.0:
            opacity *= 0.5  # a glass body is there to show its muscles
        # Balls of neighbours often share joint and radius: of two surfaces in one place pixels would pick at random.
        size = np.array(look["size"]) * (1.0 - 0.004 * (number % 5))
        geom = bodies[look["body"]].add_geom(
            type=getattr(mujoco.mjtGeom, f"mjGEOM_{look['kind'].upper()}"),
            size=size,
            pos=look["position"],
            quat=look["quaternion"],
            rgba=[*color, opacity],
            contype=0,
            conaffinity=0,
            mass=1.0,
        )
        if look["mesh"] is not None:
            geom.meshname = f"mesh{look['mesh']}"
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
    carrier = spec.worldbody.add_body(mocap=True)
    carrier.add_light(
        type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL,
        pos=[-1.5 * reach, -2.0 * reach, 5.0 * reach],
        dir=[0.3, 0.4, -1.0],
        castshadow=True,
        diffuse=[0.45, 0.45, 0.45],
        specular=[0.15, 0.15, 0.15],
        ambient=[0.0, 0.0, 0.0],
    )
    return spec.compile()


def _prepare(spec: Any, width: int, height: int, reach: float) -> None:  # noqa: ANN401
    """Size of pictures, sky, ground and how far light and eye reach."""
    import mujoco

    look = spec.visual
    look.global_.offwidth = width
    look.global_.offheight = height
    look.headlight.ambient = [0.48] * 3
    look.headlight.diffuse = [0.27] * 3
    look.headlight.specular = [0.05] * 3
    look.map.znear = 0.05
    look.map.zfar = 60.0
    look.map.shadowclip = 3.0
    look.quality.shadowsize = 2048
    look.quality.offsamples = 4
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
    # The picture holds two tiles by two; a tile is 1 m for a robot with a reach of about 1 m, else 0.5 m, 2 m, ...
    repeat = 0.5 / 2.0 ** round(np.log2(reach))
    ground = spec.add_material(
        name="ground", texuniform=True, texrepeat=[repeat, repeat], reflectance=0.0, specular=0.0
    )
    ground.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = "tiles"


def write(out: str, frames: Iterable[np.ndarray], fps: float) -> None:
    """Encode frames as the file's suffix says."""
    if out.endswith(".mp4"):
        _write_mp4(out, frames, fps)
        return
    from PIL import Image

    images = (Image.fromarray(frame) for frame in frames)
    if out.endswith(".png"):
        next(images).save(out, optimize=True)
        return
    # One palette for all, and no dithering: still pixels stay still, and the file small.
    head = list(islice(images, 1))
    palette = head[0].quantize(255)
    plain = (image.quantize(palette=palette, dither=Image.Dither.NONE) for image in chain(head, images))
    first = next(plain)
    first.save(out, save_all=True, append_images=plain, duration=round(1000.0 / fps), loop=0, optimize=False)


def _write_mp4(out: str, frames: Iterable[np.ndarray], fps: float) -> None:
    import imageio_ffmpeg

    ordered = iter(frames)
    first = next(ordered)
    rate: Any = fps  # declared as whole, taken as any
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
    for frame in chain([first], ordered):
        writer.send(np.ascontiguousarray(frame))
    writer.close()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
