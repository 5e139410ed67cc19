"""How pictures look; what they show stands in the rooms that measure it."""
