"""Colors shared by the live viewer and the HTML player."""

__all__ = ["ARROW_COLOR", "CURVE_COLORS"]

ARROW_COLOR = (0.09, 0.62, 0.24)
"""sRGB color of contact-force arrows."""

CURVE_COLORS = ("#3273dc", "#e8590c", "#2b8a3e", "#9c36b5", "#c2255c", "#0b7285", "#846358", "#495057")
"""Colors of the plotted curves, one per world; they repeat after the last."""
