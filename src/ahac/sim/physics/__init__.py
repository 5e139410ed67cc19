"""The physics in plain Python on scalars: no devices, no batches, no derivatives."""
