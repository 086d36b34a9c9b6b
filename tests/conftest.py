"""What every test may count on, whatever started them."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Generator
from contextlib import AbstractContextManager

import pytest
from hypothesis import settings

from tests.support import debian_roots, in_memory, postgres_server, schedule

#: What is tried is counted; how long it takes says more of the machine than of us.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")


def pytest_configure() -> None:
    """Let Ctrl-C reach the commands that tests start; put temporary files into memory.

    A shell starts its background jobs with SIGINT ignored, and what is ignored is inherited.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    in_memory.use()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take long, so that no worker is left alone with one."""
    items[:] = schedule.ordered(items, _roots)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Start to make the Debian roots of the tests that will run."""
    # One of the workers of xdist is enough.
    is_first = os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0"
    if is_first and not session.config.option.collectonly:
        names = sorted({name for item in session.items for name in _roots(item)})
        with _shown(session.config):
            debian_roots.begin(names)


def pytest_sessionfinish() -> None:
    """Stop the PostgreSQL server of this process; each worker of xdist may have one."""
    postgres_server.stop()


@pytest.fixture(autouse=True)
def kept_umask() -> Generator[None]:
    """Restore the umask: a daemon that a test starts in this process sets its own."""
    before = os.umask(0o022)
    os.umask(before)
    yield
    os.umask(before)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Wait for the Debian roots of a test before its time limit begins."""
    names = _roots(item)
    if names:
        with _shown(item.config):
            debian_roots.prepare(names, _say)
    return (yield)


def _shown(config: pytest.Config) -> AbstractContextManager[None]:
    """Return what stops the capture of output for a while."""
    capture = config.pluginmanager.getplugin("capturemanager")
    found: AbstractContextManager[None] = capture.global_and_fixture_disabled()
    return found


def _roots(item: pytest.Item) -> list[str]:
    return [name for mark in item.iter_markers("roots") for name in mark.args]


def _say(line: str) -> None:
    # Standard output of a worker of xdist is its line to the others.
    print(line, file=sys.stderr, flush=True)
