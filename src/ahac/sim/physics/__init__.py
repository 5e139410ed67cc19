"""The physics, in plain Python on scalars: no device, no batch, no derivative in sight."""
