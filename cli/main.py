"""Entry point and exit of the `catena` command."""

from __future__ import annotations

import os
import sys
from typing import Any, List

from catena import __version__
from catena.cli.streams import flushed, print_anything

#: Packages with threads, child processes or sockets that need an orderly shutdown.
_NEED_SHUTDOWN = frozenset({"catena.master", "catena.minion"})


def main() -> None:
    """Entry point of the `catena` command."""
    code = _run(sys.argv[1:])
    if _NEED_SHUTDOWN & set(sys.modules):
        sys.exit(code)
    # Only memory is left; tearing down the interpreter takes a tenth of a short command's time.
    os._exit(flushed(code))


def _run(words: List[str]) -> int:
    if words == ["--version"]:
        # Without importing click, which would take half of the time.
        print(f"catena, version {__version__}")
        return 0
    from catena.core.import_stubs import StandIn, standing_in
    from catena.runtime.garbage import collect_rarely

    collect_rarely()
    print_anything()
    # click imports both at once, but calls only `cleandoc` and refers to the name `UUID`.
    with standing_in(StandIn("inspect", cleandoc=_cleandoc), StandIn("uuid", UUID=_Uuid)):
        import click  # noqa: F401 - later imports find it loaded
    from catena.cli.commands import run

    return run(_with_long_option(words))


def _with_long_option(words: List[str]) -> List[str]:
    """Return *words* with a leading `-c` as `--config-dir`.

    click first looks up every short option among the long ones, and prepares an error with similar
    names: a tenth of a short command's time.
    """
    return ["--config-dir", *words[1:]] if words[:1] == ["-c"] and len(words) > 1 else words


class _Uuid:
    """Makes a `uuid.UUID`; imports `uuid` at first use."""

    def __new__(cls, text: str) -> Any:
        from uuid import UUID

        return UUID(text)


def _cleandoc(text: str) -> str:
    """Return the result of `inspect.cleandoc`."""
    if "\n" not in text:
        return text.expandtabs().lstrip()
    from inspect import cleandoc

    return cleandoc(text)
