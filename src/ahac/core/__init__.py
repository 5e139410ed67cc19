"""Vocabulary shared by all rooms; imports nothing of ours."""
