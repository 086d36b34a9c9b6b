"""Show the logs of the hosts and of the master when a test fails."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.reboot.machines import Site


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Function,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the logs to the report."""
    report = yield
    for fleet in item.funcargs.values():
        if report.failed and isinstance(fleet, Site):
            report.sections.append(("logs", fleet.logs()))
    return report
