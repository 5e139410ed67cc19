"""System identification: parameters of a robot from recorded motions."""
