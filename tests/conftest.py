"""What every test may count on, whatever started them."""

from __future__ import annotations

import signal
import sys

import pytest
from hypothesis import settings

from tests.support import debian_roots

#: What is tried is counted; how long it takes says more of the machine than of us.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")


def pytest_configure() -> None:
    """Let Ctrl-C reach the commands that tests start.

    A shell starts its background jobs with SIGINT ignored, and what is ignored is inherited.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Make the Debian roots of the tests that will run: no test's time limit counts that."""
    if session.config.option.collectonly:
        return
    marks = [mark for item in session.items for mark in item.iter_markers("roots")]
    names = sorted({name for mark in marks for name in mark.args})
    capture = session.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        debian_roots.prepare(names, _say)


def _say(line: str) -> None:
    # Standard output of a worker of xdist is its line to the others.
    print(line, file=sys.stderr, flush=True)
