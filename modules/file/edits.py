"""Edits of a text, with no file in sight: what file.replace, blockreplace and comment do."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, List, Optional, Pattern, Tuple, Union

from catena.core.errors import CommandExecutionError, UsageError
from catena.modules.arguments import listed

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
        CommandExecutionError: it is no regular expression, or longer than 10000 characters.
    """
    if len(str(pattern)) > _LONGEST_PATTERN:
        raise CommandExecutionError("the regular expression is too long")
    try:
        return re.compile(str(pattern), flags)
    except re.error as problem:
        raise CommandExecutionError(f"{pattern!r}: {problem}") from problem


@dataclass(frozen=True)
class Replacement:
    """Arguments of file.replace that decide what the text becomes."""

    pattern: str
    repl: str
    count: int = 0
    flags: int = DEFAULT_FLAGS
    append_if_not_found: bool = False
    prepend_if_not_found: bool = False
    not_found_content: Optional[str] = None
    backslash_literal: bool = False


def replaced(text: str, wanted: Replacement) -> str:
    """Return *text* with the pattern replaced, or the new text added where it was not found."""
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


@dataclass(frozen=True)
class Block:
    """Arguments of file.blockreplace that decide what the text becomes."""

    marker_start: str = "#-- start managed zone --"
    marker_end: str = "#-- end managed zone --"
    content: str = ""
    append_if_not_found: bool = False
    prepend_if_not_found: bool = False
    #: None: a newline after the content only where it lacks one.
    append_newline: Optional[bool] = None
    insert_before_match: Optional[str] = None
    insert_after_match: Optional[str] = None


def _block_lines(block: Block, indent: str = "") -> List[str]:
    content = block.content
    if block.append_newline or (block.append_newline is None and not content.endswith("\n")):
        if content or block.append_newline:
            content += "\n"
    return [f"{indent}{line}" if line.strip() else line for line in content.splitlines(True)]


def _whole(block: Block) -> List[str]:
    lines = _block_lines(block)
    if lines and not lines[-1].endswith("\n"):
        return [f"{block.marker_start}\n", *lines[:-1], f"{lines[-1]}{block.marker_end}\n"]
    return [f"{block.marker_start}\n", *lines, f"{block.marker_end}\n"]


def _find_block(lines: List[str], block: Block) -> Optional[Tuple[int, int]]:
    """Return the positions of the two marker lines, or None where there is no block.

    Raises:
        CommandExecutionError: the block is not ended.
    """
    for first, line in enumerate(lines):
        if block.marker_start in line:
            for last in range(first + 1, len(lines)):
                if block.marker_end in lines[last]:
                    return first, last
            raise CommandExecutionError(
                "Unterminated marked block. End of file reached before marker_end."
            )
    return None


def _new_block(lines: List[str], block: Block) -> List[str]:
    ended = list(lines)
    if ended and not ended[-1].endswith("\n"):
        ended[-1] += "\n"
    before, after = block.insert_before_match, block.insert_after_match
    if before or after:
        expression = compiled(str(before or after))
        for position, line in enumerate(ended):
            if expression.search(line):
                place = position if before else position + 1
                return [*ended[:place], *_whole(block), *ended[place:]]
    elif block.prepend_if_not_found:
        return [*_whole(block), *ended]
    elif block.append_if_not_found:
        return [*ended, *_whole(block)]
    raise CommandExecutionError("Cannot edit marked block. Markers were not found in file.")


def with_block(text: str, block: Block) -> str:
    """Return *text* with what stands between the markers replaced, or the block added.

    Raises:
        CommandExecutionError: no markers and no place to add them, or no end marker.
        UsageError: more than one place was asked for.
    """
    places = (
        block.append_if_not_found,
        block.prepend_if_not_found,
        block.insert_before_match,
        block.insert_after_match,
    )
    if sum(1 for place in places if place) > 1:
        raise UsageError(
            "Only one of append_if_not_found, prepend_if_not_found, insert_before_match and "
            "insert_after_match is permitted"
        )
    lines = text.splitlines(True)
    found = _find_block(lines, block)
    if found is None:
        return "".join(_new_block(lines, block))
    first, last = found
    indent = lines[first][: len(lines[first]) - len(lines[first].lstrip())]
    body = _block_lines(block, indent)
    if body and not body[-1].endswith("\n"):
        return "".join([*lines[: first + 1], *body[:-1], body[-1] + lines[last].lstrip()]) + (
            "".join(lines[last + 1 :])
        )
    return "".join([*lines[: first + 1], *body, *lines[last:]])


def _anchored(regex: str) -> Tuple[str, str, str]:
    start = "^" if regex.startswith("^") else ""
    end = "$" if regex.endswith("$") else ""
    return start, regex.lstrip("^").rstrip("$"), end


def commented(text: str, regex: str, char: str) -> str:
    """Return *text* with *char* before each line that *regex* matches at its beginning."""
    start, body, end = _anchored(regex)
    expression = compiled(f"{start}({body}){end}")
    lines = text.splitlines(True)
    return "".join(char + line if expression.match(line) else line for line in lines)


def uncommented(text: str, regex: str, char: str) -> str:
    """Return *text* without *char* before each line that *regex* matches after it."""
    _, body, end = _anchored(regex)
    expression = compiled(rf"^([ \t]*){re.escape(char)}[ \t]*({body}){end}")
    lines = text.splitlines(True)
    return "".join(expression.sub(r"\1\2", line, count=1) for line in lines)


def spaced(chunk: str) -> str:
    """Return a pattern that finds *chunk* whatever the amount of white space in its lines."""
    parts = []
    for line in chunk.splitlines():
        words = [re.escape(word) for word in line.split()]
        parts.append(r"^[ \t]*" + r"[ \t]+".join(words) + r"[ \t]*$")
    return r"\n".join(parts) if parts else r"^\s*$"


def holds(text: str, chunk: str, ignore_whitespace: bool = True) -> bool:
    """Return whether *text* has the lines of *chunk*, one after the other."""
    pattern = spaced(chunk) if ignore_whitespace else re.escape(chunk)
    return re.search(pattern, text, re.MULTILINE) is not None


@dataclass(frozen=True)
class KeyValues:
    """Arguments of file.keyvalue that decide what the text becomes."""

    pairs: Tuple[Tuple[str, Any], ...]
    separator: str = "="
    search_only: bool = False
    uncomment: Optional[str] = None
    append_if_not_found: bool = False
    key_ignore_case: bool = False
    value_ignore_case: bool = False


def _same(left: str, right: str, ignore_case: bool) -> bool:
    return left.lower() == right.lower() if ignore_case else left == right


def _with_value(line: str, wanted: KeyValues, key: str, value: str) -> Tuple[bool, str]:
    """Return whether *line* sets *key*, and the line as it should be."""
    bare = line.rstrip("\n")
    core = bare.lstrip()
    lead = bare[: len(bare) - len(core)]
    was_comment = bool(wanted.uncomment) and core.startswith(str(wanted.uncomment))
    if was_comment:
        core = core[len(str(wanted.uncomment)) :].lstrip()
    found_key, separator, found_value = core.partition(wanted.separator)
    if not separator or not _same(found_key.strip(), key.strip(), wanted.key_ignore_case):
        return False, line
    if _same(found_value.strip(), value.strip(), wanted.value_ignore_case) and not was_comment:
        return True, line
    space = found_value[: len(found_value) - len(found_value.lstrip())]
    same = _same(found_value.strip(), value.strip(), wanted.value_ignore_case)
    text = found_value.strip() if same else value
    return True, f"{lead}{found_key}{separator}{space}{text}" + line[len(bare) :]


def with_values(text: str, wanted: KeyValues) -> Tuple[str, Tuple[str, ...]]:
    """Return *text* with every key set, and the keys that were not found.

    A key that stands in a comment (only with `uncomment`) and outside one is set in both places
    no more than once: an active line wins.
    """
    lines = text.splitlines(True)
    missing: List[str] = []
    for key, value in wanted.pairs:
        hits = [_with_value(line, wanted, str(key), str(value)) for line in lines]
        active = [
            n for n, (hit, _) in enumerate(hits) if hit and not _is_comment(lines[n], wanted)
        ]
        chosen = active or [n for n, (hit, _) in enumerate(hits) if hit][:1]
        for position in chosen:
            lines[position] = hits[position][1]
        if not chosen and not wanted.search_only:
            missing.append(str(key))
            if wanted.append_if_not_found:
                if lines and not lines[-1].endswith("\n"):
                    lines[-1] += "\n"
                lines.append(f"{key}{wanted.separator}{value}\n")
    return "".join(lines), tuple(missing)


def _is_comment(line: str, wanted: KeyValues) -> bool:
    return bool(wanted.uncomment) and line.lstrip().startswith(str(wanted.uncomment))


Text = Union[str, List[str], None]
