"""The command's output streams: prepared before it begins, written out at its end."""

from __future__ import annotations

import io
import os
import sys

from catena.core.errors import CatenaError


def print_anything() -> None:
    """Print characters that the output's encoding lacks as escapes, instead of failing.

    What is printed to an output that the shell has closed (`>&-`) goes nowhere.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123
    stream = sys.stdout
    if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
        stream.reconfigure(errors="backslashreplace")


def flushed(code: int) -> int:
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
