"""How a tree wants its Jinja: settings of the configuration, and the `#jinja2:` line of a file."""

from __future__ import annotations

import json
from typing import Any, Dict, Mapping, Optional, Tuple

from catena.core.frozen import dataclass
from catena.core.logs import logger
from catena.core.patterns import lazy_pattern
from catena.core.suggest import unknown

_log = logger(__name__)

#: Options of jinja2.Environment that a tree may set (as in Salt: those with a documented default).
OPTIONS: Mapping[str, type] = {
    "block_start_string": str,
    "block_end_string": str,
    "variable_start_string": str,
    "variable_end_string": str,
    "comment_start_string": str,
    "comment_end_string": str,
    "line_statement_prefix": str,
    "line_comment_prefix": str,
    "trim_blocks": bool,
    "lstrip_blocks": bool,
    "newline_sequence": str,
    "keep_trailing_newline": bool,
}
#: Without one of these a text is no template.
_MARKS = lazy_pattern(r"\{[{%#]|\A\n?#jinja2:")
_LINE_END = lazy_pattern(r"\r\n?")
#: A renderer's #! line was emptied before, so the header may stand in the second line.
_HEADER = lazy_pattern(r"(\n?)#jinja2:([^\r\n]*\S[^\r\n]*)(?:\r\n?|\n|\Z)")
#: A tag that eats the blanks before it eats the header's line end, too.
_TRIMMING = lazy_pattern(r"\s*\{[%{#]-")

#: Sorted (name, value) of the options that differ from Jinja's own; hashable, for caches.
Options = Tuple[Tuple[str, Any], ...]


@dataclass(frozen=True)
class Headed:
    """A template without its header."""

    #: The header's line is empty, so that every other line keeps its number.
    text: str
    options: Options
    #: Whether what is rendered begins with the line end of the header.
    leading: bool = False


def untouched(opts: Mapping[str, Any], is_sls: bool, text: str) -> Optional[str]:
    """Return *text* as Jinja leaves it where there is nothing in it for Jinja, else None.

    Plain text, as most chunks of chains are, needs no template, and Jinja is not even imported.
    """
    if configured(opts, is_sls) or _MARKS.search(text):
        return None
    return _LINE_END.sub("\n", text) if "\r" in text else text


def configured(opts: Mapping[str, Any], is_sls: bool) -> Options:
    """Return the options that the configuration gives.

    Args:
        opts: configuration: `jinja_sls_env` and `jinja_env`, `jinja_trim_blocks`,
            `jinja_lstrip_blocks`.
        is_sls: whether an SLS file is rendered, or any other template.
    """
    name = "jinja_sls_env" if is_sls else "jinja_env"
    given: Dict[str, Any] = dict(opts.get(name) or {})
    for option in ("trim_blocks", "lstrip_blocks"):
        if opts.get(f"jinja_{option}"):
            given[option] = True
    return _known(given, name)


def headed(text: str, options: Options) -> Headed:
    """Return *text* with the options of its `#jinja2: {JSON}` line laid over *options*.

    A line that holds no JSON mapping is text like any other (as in Salt).
    """
    found = _HEADER.match(text)
    if found is None:
        return Headed(text, options)
    try:
        given = json.loads(found.group(2))
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        _log.warning("ignored: not a JSON object: %s", found.group().strip()[:200])
        return Headed(text, options)
    rest = text[found.end() :]
    merged = _known({**dict(options), **given}, "#jinja2:")
    return Headed(f"{found.group(1)}\n{rest}", merged, not _TRIMMING.match(rest))


def _known(given: Mapping[str, Any], where: str) -> Options:
    known = {}
    for name, value in given.items():
        option = str(name).lower()
        kind = OPTIONS.get(option)
        if kind is None:
            _log.warning("%s: %s", where, unknown("Jinja option", option, OPTIONS))
        elif not isinstance(value, kind):
            _log.warning("%s: %s has to be a %s", where, option, kind.__name__)
        else:
            known[option] = value
    return tuple(sorted(known.items()))
