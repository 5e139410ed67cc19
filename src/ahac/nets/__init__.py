"""Networks: policies, critics, and the normaliser of what they see."""
