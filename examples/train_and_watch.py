"""Train a policy, watch it, look at its learning curve: python examples/train_and_watch.py [iterations].

Hopper, a leg with three motors, learns to hop. `ahac train hopper`, `ahac eval` and `ahac play` do the same.
"""

import sys

import numpy as np

import ahac

if __name__ == "__main__":
    iterations = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    # AHAC with the settings for Hopper; the run folder has the settings, metrics and checkpoints.
    run = ahac.train("hopper", "ahac", num_envs=128, iterations=iterations, device="cpu", eval_episodes=32)

    # Columns of metrics.csv. A return is known from the first episode that ended.
    metrics = run.metrics()
    returns = metrics.get("episode_return", np.array([]))
    for k in np.flatnonzero(np.isfinite(returns))[:: max(1, iterations // 10)]:
        sys.stdout.write(f"{metrics['env_steps'][k]:>10.0f} steps: return {returns[k]:.0f}\n")

    # A page that plays the policy in any browser; .mp4 and .gif work too. `run.play()` opens a live viewer.
    run.record("hopper.html", seconds=10.0)
    # New episodes, without action noise.
    sys.stdout.write(f"return {run.evaluate().mean:.0f} in {run.folder}\n")
