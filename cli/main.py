"""Where the `catena` command begins and ends."""

from __future__ import annotations

import io
import os
import sys
from typing import List

from catena import __version__
from catena.core.errors import CatenaError

#: Packages with threads, children or sockets that want an end in order.
_AT_WORK = frozenset({"catena.master", "catena.minion"})


def main() -> None:
    """Entry point of the `catena` command."""
    code = _run(sys.argv[1:])
    if _AT_WORK & set(sys.modules):
        sys.exit(code)
    # Only memory is left, and taking the interpreter apart is a tenth of a short command's time.
    os._exit(_flushed(code))


def _run(words: List[str]) -> int:
    if words == ["--version"]:
        # Without the parser of command lines, which would be half of its time.
        print(f"catena, version {__version__}")
        return 0
    from catena.core.import_stubs import StandIn, standing_in
    from catena.runtime.garbage import look_seldom

    look_seldom()
    _print_anything()
    # What click needs of it when an option is declared is done here for texts of one line.
    with standing_in(StandIn("inspect", cleandoc=_cleandoc)):
        import click  # noqa: F401 - imported now, for those that import it as ever
    from catena.cli.commands import run

    return run(words)


def _print_anything() -> None:
    """Print characters that the output's encoding lacks as escapes, instead of failing.

    What is printed to an output that the shell has closed (`>&-`) goes nowhere.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123
    stream = sys.stdout
    if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
        stream.reconfigure(errors="backslashreplace")


def _cleandoc(text: str) -> str:
    """Return what `inspect.cleandoc` does."""
    if "\n" not in text:
        return text.expandtabs().lstrip()
    from inspect import cleandoc

    return cleandoc(text)


def _flushed(code: int) -> int:
    """Write out what was printed; return *code*, or 1 where it could not be written."""
    try:
        for stream in (sys.stdout, sys.stderr):
            if not stream.closed:
                stream.flush()
    except BrokenPipeError:
        return code
    except OSError as error:
        return code or unwritten(error)
    return code


def unwritten(error: OSError) -> int:
    """Say that the output can't be written; return the exit code of that."""
    print(f"catena: the output can't be written: {error.strerror}", file=sys.stderr)
    return CatenaError.exit_code
