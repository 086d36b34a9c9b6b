"""Error messages for exceptions in custom files of a tree.

A person who wrote a module wants to know in one line what went wrong and where in it; the way
through catena's own code is for the log.
"""

from __future__ import annotations

from types import TracebackType
from typing import Iterator, Optional, Tuple

from catena.core.errors import CatenaError
from catena.core.types import SourceLine

#: Modules made of custom files are called PREFIX + kind + "." + file, whatever imports them.
PREFIX = "catena_custom."
_LONGEST = 2000


def module_name(kind: str, stem: str) -> str:
    """Return what the module made of `_<kind>/<stem>.py` is called."""
    return f"{PREFIX}{kind}.{stem}"


def file_name(module: str) -> str:
    """Return the salt:// address of the file that *module* was made of."""
    kind, _, stem = module[len(PREFIX) :].partition(".")
    return f"salt://_{kind}/{stem}.py"


def told(error: BaseException, file: str = "") -> str:
    """Return in one line what *error* says, and where in a custom file it came up.

    Args:
        error: with its traceback.
        file: address of the custom file that was being loaded, for errors of its grammar.
    """
    text = said(error)
    if isinstance(error, SyntaxError) and file:
        return f"{text}; {SourceLine(file, error.lineno or 0)}"
    # An error of catena's own classes was raised on purpose: its text says it all.
    place = None if isinstance(error, CatenaError) else _place(error)
    place = place or (SourceLine(file) if file else None)
    return f"{text}; {place}" if place and str(place) not in text else text


def said(error: BaseException) -> str:
    """Return in one line what *error* says; its class too, where it is not one of catena's."""
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
    """Return whether *error* came up in a custom file, or in what one called."""
    return any(module.startswith(PREFIX) for module, _ in _frames(error.__traceback__))


def _place(error: BaseException) -> Optional[SourceLine]:
    """Return the innermost line of a custom file in the traceback of *error*.

    Where there is none, the fault is one of catena: its own line.
    """
    own: Optional[SourceLine] = None
    ours: Optional[SourceLine] = None
    for number, (module, line) in enumerate(_frames(error.__traceback__)):
        if module.startswith(PREFIX):
            own = SourceLine(file_name(module), line)
        elif number and module.startswith("catena."):  # the first one caught it
            ours = SourceLine(module, line)
    return own or ours


def _frames(traceback: Optional[TracebackType]) -> Iterator[Tuple[str, int]]:
    while traceback is not None:
        yield str(traceback.tb_frame.f_globals.get("__name__", "")), traceback.tb_lineno
        traceback = traceback.tb_next
