"""Arguments of functions on a command line: YAML 1.1 values, `key=value` keywords (as Salt)."""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List, Sequence, Tuple

from catena.core.errors import UsageError
from catena.core.patterns import lazy_pattern

#: Salt's rule for keywords (salt.utils.args): a letter or _, then letters, digits, _, . and -, and
#: one = (not `a==b`).
_KEYWORD = lazy_pattern(r"([^\W\d][\w.-]*)=(?!=)(.*)\Z", re.DOTALL)
#: Text that YAML 1.1 reads literally, so that a plain word needs no import of PyYAML.
_PLAIN = lazy_pattern(r"[A-Za-z/][A-Za-z0-9_./*-]*\Z")
_WORDS = frozenset("y n yes no on off true false null none inf nan".split())

#: Characters that begin a comment, tag, anchor or block in YAML, but plain text for users.
_SPECIAL = tuple("#!&*%@`|>")
_BRACKETS: Dict[type, str] = {dict: "{", list: "["}
#: Numbers with underscores in YAML 1.1; users mean a name or a date.
_UNDERSCORED = lazy_pattern(r"[0-9]+(_[0-9]*)+\Z")


def value(text: str) -> Any:
    """Return *text* as Salt's command line reads it.

    The text is parsed as YAML 1.1 if that yields one scalar, list or mapping. It stays text if it
    is not YAML, has several lines, is a date, or would lose characters (a lone `#`, an empty
    string).

    Raises:
        UsageError: it is not UTF-8.
    """
    if text == "None":
        # YAML has no None, but users type what Python prints (recorded case exec/test_functions).
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
        # YAML would drop the rest as a comment; Salt keeps the whole text, too.
        return text
    bracket = _BRACKETS.get(type(found), "")
    # A sentence with a colon or a dash is text; as in Salt, only text in brackets is data.
    if bracket and not text.startswith(bracket):
        return text
    if isinstance(found, (bool, int, float, str, list, dict, type(None))):
        return found
    return text


def _refuse_bytes(text: str) -> None:
    """Refuse bytes that Python could not decode: no message to a master can contain them."""
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
