"""Your own robot: write it in MJCF, say what it should do, train it. python examples/own_robot.py [iterations].

The robot is a small quadruped of boxes and capsules with eight joints. It should walk at 0.8 m/s with a level trunk.
For a robot file, pass its path to `load_model` instead; `ahac new robot.xml` writes a file like this one for you.
"""

import sys

import ahac
from ahac.envs import Action, NoisyReset, RobotTask, rewards
from ahac.sim import Model, Real, Servo, World, exp, load_model

LEG = """
<body name="{name}_thigh" pos="{x} {y} 0">
  <joint name="{name}_hip" axis="0 1 0" range="-1.2 1.2"/>
  <geom type="capsule" fromto="0 0 0 0 0 -.14" size=".022" mass=".25"/>
  <body name="{name}_shank" pos="0 0 -.14">
    <joint name="{name}_knee" axis="0 1 0" range="-2.2 2.2"/>
    <geom type="capsule" fromto="0 0 0 0 0 -.14" size=".015" mass=".1" rgba=".2 .25 .3 1"/>
    <geom name="{name}_foot" type="sphere" pos="0 0 -.14" size=".025" mass=".05" friction="1" rgba=".9 .4 .1 1"/>
  </body>
</body>
"""
CORNERS = {"FL": (0.17, 0.1), "FR": (0.17, -0.1), "RL": (-0.17, 0.1), "RR": (-0.17, -0.1)}  # of the trunk [m]
LEGS = "".join(LEG.format(name=name, x=x, y=y) for name, (x, y) in CORNERS.items())
ROBOT = f"""
<mujoco model="puppy">
  <compiler angle="radian"/>
  <worldbody>
    <geom type="plane" size="5 5 1"/>
    <body name="trunk" pos="0 0 .3"> <freejoint/>
      <geom type="box" size=".2 .09 .045" mass="3" rgba=".2 .45 .7 1"/>
      <geom type="box" size=".05 .06 .05" pos=".22 0 .05" mass=".3" rgba=".2 .45 .7 1"/>
      {LEGS}
    </body>
  </worldbody>
</mujoco>
"""
STANCE = {"*_hip": 0.6, "*_knee": -1.2}  # [rad]
SPEED = 0.8  # [m/s]


def robot() -> Model:
    """Load the robot, with a position servo in every joint: actions of ±1 move its target by ±0.5 rad."""
    servo = {"stiffness": 20.0, "damping": 0.6, "strength": 8.0, "armature": 0.004, "reach": 0.5}
    return load_model(ROBOT, motors={name: Servo(stance=stance, **servo) for name, stance in STANCE.items()})


def track_speed(world: World, action: Action) -> Real:
    """Reward 1 at the wanted speed along x, less the further away."""
    error = world.velocity("trunk").x - SPEED
    return exp(-4.0 * error * error)


def puppy() -> RobotTask:
    """Return the task: observations and resets are those of any legged robot, the reward is our own."""
    reward = {
        "speed": rewards.weighted(2.0, track_speed),  # a function of our own
        "heading": rewards.weighted(0.5, rewards.heading("trunk")),  # functions of the library
        "level": rewards.weighted(-1.0, rewards.flat_orientation_l2("trunk")),
        "bounce": rewards.weighted(-0.5, rewards.lin_vel_z_l2("trunk")),
        "effort": rewards.weighted(-0.02, rewards.action_l2()),
    }
    reset = NoisyReset(keyframe=None, pose=STANCE, height=0.26, joint_position=0.1, velocity=0.1)
    model = robot()
    return RobotTask(
        model=model, torso="trunk", terminate_below=0.14, reward=reward, reset=reset, dt=0.02, episode_steps=300
    )


if __name__ == "__main__":
    ahac.register_task("puppy", puppy)
    iterations = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    run = ahac.train("puppy", "ahac", num_envs=64, iterations=iterations, device="cpu", eval_episodes=32)
    run.record("puppy.html", seconds=6.0)  # open it in a browser
    sys.stdout.write(f"return {run.evaluate().mean:.0f} in {run.folder}\n")
