"""Error messages for exceptions in a tree's custom files.

The author of a custom module needs one line with the error and its place in the file; the
traceback through catena's own code belongs in the log.
"""

from __future__ import annotations

from types import TracebackType
from typing import Iterator, Optional, Tuple

from catena.core.errors import CatenaError
from catena.core.types import SourceLine

#: A module made from a custom file is named PREFIX + kind + "." + file.
PREFIX = "catena_custom."
_LONGEST = 2000


def module_name(kind: str, stem: str) -> str:
    """Return the name of the module made from `_<kind>/<stem>.py`."""
    return f"{PREFIX}{kind}.{stem}"


def file_name(module: str) -> str:
    """Return the salt:// address of the file from which *module* was made."""
    kind, _, stem = module[len(PREFIX) :].partition(".")
    return f"salt://_{kind}/{stem}.py"


def error_line(error: BaseException, file: str = "") -> str:
    """Return *error* in one line, with its place in a custom file.

    Args:
        error: with its traceback.
        file: address of the custom file that was being loaded, for its syntax errors.
    """
    text = error_text(error)
    if isinstance(error, SyntaxError) and file:
        return f"{text}; {SourceLine(file, error.lineno or 0)}"
    # Catena's own errors are raised deliberately, and their text is complete.
    place = None if isinstance(error, CatenaError) else _place(error)
    place = place or (SourceLine(file) if file else None)
    return f"{text}; {place}" if place and str(place) not in text else text


def error_text(error: BaseException) -> str:
    """Return *error* in one line, with its class unless it is one of catena's."""
    if isinstance(error, SystemExit):
        return f"it ended the process with status {error.code}"
    kind = type(error).__name__
    text = str(error)
    if isinstance(error, KeyError) and error.args:
        text = str(error.args[0])
    elif isinstance(error, SyntaxError):
        text = error.msg
    if isinstance(error, CatenaError):
        return (text or kind)[:_LONGEST]
    return f"{kind}: {text}"[:_LONGEST] if text else kind


def in_custom_file(error: BaseException) -> bool:
    """Return whether *error* was raised in a custom file, or in code that one called."""
    return any(module.startswith(PREFIX) for module, _ in _frames(error.__traceback__))


def _place(error: BaseException) -> Optional[SourceLine]:
    """Return the innermost line of a custom file in the traceback of *error*.

    Without such a line the error is one of catena, and its own line is returned.
    """
    own: Optional[SourceLine] = None
    ours: Optional[SourceLine] = None
    for number, (module, line) in enumerate(_frames(error.__traceback__)):
        if module.startswith(PREFIX):
            own = SourceLine(file_name(module), line)
        elif number and module.startswith("catena."):  # frame 0 is the one that caught it
            ours = SourceLine(module, line)
    return own or ours


def _frames(traceback: Optional[TracebackType]) -> Iterator[Tuple[str, int]]:
    while traceback is not None:
        yield str(traceback.tb_frame.f_globals.get("__name__", "")), traceback.tb_lineno
        traceback = traceback.tb_next
