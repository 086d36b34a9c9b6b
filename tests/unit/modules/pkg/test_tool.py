"""Commands of package managers."""

from __future__ import annotations

from typing import Any

import pytest

from catena.core.errors import CommandExecutionError
from catena.modules.pkg.provider import PACKAGES, Tool


class Without:
    """A context on whose host a program is missing."""

    def call(self, name: str, argv: list[str], **options: Any) -> Any:
        raise CommandExecutionError(f"Unable to run {argv[0]!r}: No such file or directory")


@pytest.mark.parametrize("program", ["rpm", "zypper", "dnf", "apt-get"])
def test_missing_program_is_named_with_its_package(program: str) -> None:
    with pytest.raises(CommandExecutionError) as caught:
        Tool(Without(), {})(program, "--version")  # type: ignore[arg-type]  # as much as it needs
    assert str(caught.value) == (
        f"{program} is not available on this host: install the package {PACKAGES[program]}"
    )


def test_other_failures_of_the_start_are_passed_on() -> None:
    with pytest.raises(CommandExecutionError, match="Unable to run 'other'"):
        Tool(Without(), {})("other")  # type: ignore[arg-type]  # as much as it needs
