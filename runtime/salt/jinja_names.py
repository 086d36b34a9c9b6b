"""Jinja filters and tests that custom `_modules` and `_utils` files declare.

A function becomes one by a decorator of `salt.utils.decorators.jinja`, which only notes the name
on the function. The files are loaded when a template uses a name that is not built in.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Dict, Protocol, Sequence, Tuple

if TYPE_CHECKING:
    from pathlib import Path

#: Takes a context, then the arguments of a function in the given custom file.
Bound = Callable[..., Any]
FILTER, TEST = "filter", "test"
_NOTE = "__catena_jinja__"
#: Folders of custom files that may declare filters, and the text that such a file contains.
_FOLDERS = ("modules", "utils")
_IMPORTED = "decorators.jinja"


class CustomFiles(Protocol):
    """The custom files of a host, as the loader has them."""

    def files(self, kind: str) -> Sequence[Path]:
        """Return the custom files and packages of a kind."""

    def load(self, kind: str, path: Path) -> Any:
        """Return a custom file, loaded at the first call; its `module` is the Python module."""


def note(function: Any, kind: str, name: str) -> Any:
    """Return *function* with a note that it is a filter or test called *name*."""
    setattr(function, _NOTE, (*getattr(function, _NOTE, ()), (kind, name)))
    return function


def of_files(loader: CustomFiles, call: Bound) -> Dict[Tuple[str, str], Bound]:
    """Return the filters and tests of custom files: (kind, name) -> f(context, ...).

    A file that refuses to serve as a module declares its filters nevertheless, as in Salt.

    Args:
        loader: of the files.
        call: calls f(module, function, context, ...) of a file by Salt's contract.
    """
    found: Dict[Tuple[str, str], Bound] = {}
    for folder in _FOLDERS:
        for path in loader.files(folder):
            if not _mentions(path / "__init__.py" if path.is_dir() else path):
                continue
            module = loader.load(folder, path).module
            for member in vars(module).values():
                found.update({note: partial(call, module, member) for note in _notes(member)})
    return found


def _notes(member: Any) -> Tuple[Tuple[str, str], ...]:
    found = getattr(member, _NOTE, ()) if callable(member) else ()
    return found if isinstance(found, tuple) else ()


def _mentions(path: Path) -> bool:
    return _IMPORTED in path.read_text(encoding="utf-8", errors="replace")
