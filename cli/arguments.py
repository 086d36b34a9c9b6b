"""Arguments of functions on a command line: YAML 1.1 values, `key=value` keywords (as Salt)."""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List, Sequence, Tuple

from catena.core.errors import UsageError
from catena.core.patterns import lazy_pattern

#: Salt's rule (salt.utils.args): a letter or _, then letters, digits, _, . and -; not `a==b`.
_KEYWORD = lazy_pattern(r"([^\W\d][\w.-]*)=(?!=)(.*)\Z", re.DOTALL)
#: Text that YAML 1.1 reads as itself, so that a plain word costs no import of PyYAML.
_PLAIN = lazy_pattern(r"[A-Za-z/][A-Za-z0-9_./*-]*\Z")
_WORDS = frozenset("y n yes no on off true false null none inf nan".split())

#: What begins like this is a comment, a tag, an anchor or a block to YAML, and a text to people.
_SPECIAL = tuple("#!&*%@`|>")
_BRACKETS: Dict[type, str] = {dict: "{", list: "["}
#: YAML 1.1 reads 1_000 as a number; a person types a name or a date of some release.
_UNDERSCORED = lazy_pattern(r"[0-9]+(_[0-9]*)+\Z")


def value(text: str) -> Any:
    """Return *text* as Salt's command line reads it.

    YAML 1.1 where it makes one scalar, list or mapping; the text itself where it is no YAML, has
    several lines, is a date, or would lose what was typed (a lone `#`, an empty string).

    Raises:
        UsageError: it is not UTF-8.
    """
    if text == "None":
        # YAML has no such word, and people type what Python prints (recorded exec/test_functions).
        return None
    if _PLAIN.match(text) and text.lower() not in _WORDS:
        return text
    if _UNDERSCORED.match(text):
        return text
    _refuse_bytes(text)
    if not text or text.isspace() or "\n" in text or text.lstrip().startswith(_SPECIAL):
        return text
    from catena.core.errors import CatenaError
    from catena.renderers.yaml import load

    try:
        found = load(text)
    except CatenaError:
        return text
    if found is None and text.strip().lower() not in {"null", "none", "~"}:
        return text
    if isinstance(found, str) and "#" in text:
        # To YAML the rest is a comment; Salt keeps what was typed, too.
        return text
    bracket = _BRACKETS.get(type(found), "")
    # A sentence with a colon or a dash is no data; as in Salt, data are wrapped in brackets.
    if bracket and not text.startswith(bracket):
        return text
    if isinstance(found, (bool, int, float, str, list, dict, type(None))):
        return found
    return text


def _refuse_bytes(text: str) -> None:
    """Refuse bytes that Python could not read as text; no message to a master can hold them."""
    try:
        text.encode()
    except UnicodeEncodeError:
        shown = os.fsencode(text).decode("utf-8", "backslashreplace")
        raise UsageError(
            f"argument '{shown[:100]}' is not UTF-8 text; convert it, or send it as base64"
        ) from None


def split(words: Sequence[str]) -> Tuple[List[Any], Dict[str, Any]]:
    """Return positional and keyword arguments of *words*.

    Raises:
        UsageError: a keyword is given twice.
    """
    args: List[Any] = []
    kwargs: Dict[str, Any] = {}
    for word in words:
        keyword = _KEYWORD.match(word)
        if keyword is None:
            args.append(value(word))
        elif keyword[1] in kwargs:
            raise UsageError(f"{keyword[1]}= is given twice")
        else:
            kwargs[keyword[1]] = value(keyword[2])
    return args, kwargs
