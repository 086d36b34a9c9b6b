"""What every test may count on, whatever started them."""

from __future__ import annotations

import signal

from hypothesis import settings

#: What is tried is counted; how long it takes says more of the machine than of us.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")


def pytest_configure() -> None:
    """Let Ctrl-C reach the commands that tests start.

    A shell starts its background jobs with SIGINT ignored, and what is ignored is inherited.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
