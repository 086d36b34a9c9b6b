"""Pure functions for edits of a text: file.replace, comment and uncomment."""

from __future__ import annotations

import re
from typing import Any, Optional, Pattern, Tuple

from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass
from catena.modules.shared.arguments import listed

#: Salt's default: re.MULTILINE.
DEFAULT_FLAGS = 8
_LONGEST_PATTERN = 10_000


def flags_of(flags: Any) -> int:
    """Return regular expression flags given as a number, a name or a list of names.

    Raises:
        UsageError: no flag has that name.
    """
    if isinstance(flags, int):
        return flags
    number = 0
    for flag in listed(flags):
        value = getattr(re, str(flag).upper(), None)
        if not isinstance(value, re.RegexFlag):
            raise UsageError(f"no regular expression flag is called {flag!r}")
        number |= int(value)
    return number


def compiled(pattern: str, flags: int = 0) -> Pattern[str]:
    """Return *pattern* compiled.

    Raises:
        CommandExecutionError: the pattern is invalid, or longer than 10000 characters.
    """
    if len(str(pattern)) > _LONGEST_PATTERN:
        raise CommandExecutionError("the regular expression is too long")
    try:
        return re.compile(str(pattern), flags)
    except re.error as problem:
        raise CommandExecutionError(f"{pattern!r}: {problem}") from problem


@dataclass(frozen=True)
class Replacement:
    """Arguments of file.replace that determine the new text."""

    pattern: str
    repl: str
    count: int = 0
    flags: int = DEFAULT_FLAGS
    append_if_not_found: bool = False
    prepend_if_not_found: bool = False
    not_found_content: Optional[str] = None
    backslash_literal: bool = False


def replaced(text: str, wanted: Replacement) -> str:
    """Return *text* with the pattern replaced, or with the new text added if nothing matched.

    Raises:
        CommandExecutionError: the pattern or a reference to a group is malformed.
        UsageError: the new text should be added at both ends.
    """
    if wanted.append_if_not_found and wanted.prepend_if_not_found:
        raise UsageError("Only one of append and prepend_if_not_found is permitted")
    expression = compiled(wanted.pattern, wanted.flags)
    repl: Any = wanted.repl
    if wanted.backslash_literal:
        literal = str(wanted.repl)
        repl = lambda _: literal  # noqa: E731  # the shortest form of a literal replacement
    try:
        new, found = expression.subn(repl, text, count=wanted.count)
    except (re.error, IndexError) as problem:
        raise CommandExecutionError(f"{wanted.repl!r}: {problem}") from problem
    if found or not (wanted.append_if_not_found or wanted.prepend_if_not_found):
        return new
    content = wanted.repl if wanted.not_found_content is None else wanted.not_found_content
    there = rf"^{re.escape(str(content))}(?=$|[\r\n])"
    if re.search(there, text, re.MULTILINE | wanted.flags):
        return text
    if wanted.prepend_if_not_found:
        return f"{content}\n{text}"
    if text and not text.endswith("\n"):
        text += "\n"
    return f"{text}{content}\n"


def _anchored(regex: str) -> Tuple[str, str, str]:
    start = "^" if regex.startswith("^") else ""
    end = "$" if regex.endswith("$") else ""
    return start, regex.lstrip("^").rstrip("$"), end


def commented(text: str, regex: str, char: str) -> str:
    """Return *text* with *char* added to each line that *regex* matches at its start."""
    start, body, end = _anchored(regex)
    expression = compiled(f"{start}({body}){end}")
    lines = text.splitlines(True)
    return "".join(char + line if expression.match(line) else line for line in lines)


def uncommented(text: str, regex: str, char: str) -> str:
    """Return *text* with *char* removed from each commented line that *regex* matches.

    Space after *char* stays, except in an indented comment, where it served for alignment.
    """
    _, body, end = _anchored(regex)
    expression = compiled(rf"^([ \t]*){re.escape(char)}([ \t]*)({body}){end}")

    def bare(line: str) -> str:
        found = expression.match(line)
        if found is None:
            return line
        return line.lstrip(char) if not found.group(1) else found.group(1) + line[found.start(3) :]

    return "".join(bare(line) for line in text.splitlines(True))


def has_active(text: str, regex: str, char: str) -> bool:
    """Return whether a line of *text* without a comment sign starts with a match of *regex*."""
    _, body, _ = _anchored(regex)
    return bool(compiled(rf"^(?!\s*{re.escape(char)})\s*{body}", re.MULTILINE).search(text))


def has_line(text: str, regex: str) -> bool:
    """Return whether a line of *text* starts with a match of *regex*, after whitespace."""
    return bool(compiled(rf"^[ \t]*{regex.lstrip('^')}", re.MULTILINE).search(text))


def has_commented(text: str, regex: str, char: str, spaced: bool = False) -> bool:
    """Return whether *char* precedes a match of *regex* in *text* (*spaced*: with whitespace)."""
    _, body, _ = _anchored(regex)
    between = r"[ \t]*" if spaced else ""
    return bool(compiled(f"{re.escape(char)}{between}{body}", re.MULTILINE).search(text))


def spaced(chunk: str) -> str:
    """Return a pattern for *chunk* with any amount of whitespace in its lines."""
    parts = []
    for line in chunk.splitlines():
        words = [re.escape(word) for word in line.split()]
        parts.append(r"^[ \t]*" + r"[ \t]+".join(words) + r"[ \t]*$")
    return r"\n".join(parts) if parts else r"^\s*$"


def holds(text: str, chunk: str, ignore_whitespace: bool = True) -> bool:
    """Return whether *text* contains the consecutive lines of *chunk*."""
    pattern = spaced(chunk) if ignore_whitespace else re.escape(chunk)
    return re.search(pattern, text, re.MULTILINE) is not None
