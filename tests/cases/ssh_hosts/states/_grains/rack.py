"""A grain of the house."""

import os


def rack():
    """Say what only the host itself can know."""
    return {"rack": "rack-of-" + os.uname()[1]}
