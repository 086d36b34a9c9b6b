"""The command's output streams: set up before it begins, flushed at its end."""

from __future__ import annotations

import io
import os
import sys

from catena.core.errors import CatenaError


def print_anything() -> None:
    """Print characters that the output's encoding lacks as escapes, instead of failing.

    Output to a stream that the shell has closed (`>&-`) is discarded.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123
    stream = sys.stdout
    if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
        stream.reconfigure(errors="backslashreplace")


def flushed(code: int) -> int:
    """Flush the output; return *code*, or 1 if it could not be written."""
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
    """Report that the output cannot be written; return the exit code for it."""
    print(f"catena: the output cannot be written: {error.strerror}", file=sys.stderr)
    return CatenaError.exit_code
