"""Networks: policies, critics, the observation normalizer, and their optimizers."""
