"""http.*: wait until a web server answers as it should."""

from __future__ import annotations

import re
import time
from typing import Any, Dict, List, Mapping, Optional, Tuple

from catena.core.addresses import hide_credentials
from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import state
from catena.core.suggest import unknown
from catena.core.types import StateResult
from catena.states.answers import done, failed, would

_REFUSALS = (CommandExecutionError, UsageError)
_MATCH_TYPES = ("string", "pcre")
_STATUS_TYPES = ("string", "list", "pcre")
#: Seconds between two requests, unless `request_interval` is given.
_INTERVAL = 1.0
_NOTHING = "Either match text (match) or a status code (status) is required."


@state()
def query(
    context: Context,
    /,
    name: str,
    match: Any = None,
    match_type: str = "string",
    status: Any = None,
    status_type: str = "string",
    wait_for: Optional[float] = None,
    **options: Any,
) -> StateResult:
    """Send an HTTP request and check the reply; in test mode nothing is sent.

    Args:
        context: the call's context.
        name: address, http or https.
        match: text or pattern that the reply has to contain.
        match_type: string or pcre.
        status: status code; a list of codes, or a pattern, by *status_type*.
        status_type: string, list or pcre.
        wait_for: seconds during which a failed request is repeated.
        options: of http.query.
    """
    try:
        _check(match, match_type, status, status_type)
        if context.test:
            return would(_test_comment(name, options))
        data = _asked(context, name, wait_for, options)
        results = [
            *_text_result(match, match_type, data),
            *_status_result(status, status_type, data),
        ]
    except _REFUSALS as problem:
        return failed(hide_credentials(str(problem)))
    comment = " ".join(text for _, text in results)
    if all(met for met, _ in results):
        return done(comment)
    if "error" in data:
        comment += f" The request failed: {data['error']}"
    return failed(hide_credentials(comment))


def _check(match: Any, match_type: str, status: Any, status_type: str) -> None:
    if match is None and status is None:
        raise UsageError(_NOTHING)
    if match_type not in _MATCH_TYPES:
        raise UsageError(unknown("match_type", str(match_type), _MATCH_TYPES))
    if status_type not in _STATUS_TYPES:
        raise UsageError(unknown("status_type", str(status_type), _STATUS_TYPES))
    for kind, value in ((match_type, match), (status_type, status)):
        if kind == "pcre" and value is not None:
            _pattern(value)
    if status is not None and status_type == "list" and not isinstance(status, (list, tuple)):
        raise UsageError(f"status must be a list, not {type(status).__name__}")


def _pattern(value: Any) -> re.Pattern[str]:
    try:
        return re.compile(str(value))
    except re.error as problem:
        raise UsageError(f"{value!r} is no regular expression: {problem}") from problem


def _test_comment(name: str, options: Mapping[str, Any]) -> str:
    more = f", TEST URL WAS: {options['test_url']}" if "test_url" in options else ""
    return hide_credentials(f"A request to {name} would be sent. (TEST MODE{more})")


def _asked(
    context: Context, name: str, wait_for: Optional[float], options: Mapping[str, Any]
) -> Dict[str, Any]:
    given = {"decode": False, **options, "text": True, "status": True}
    given = {key: value for key, value in given.items() if not key.startswith("__")}
    if wait_for:
        found = context.call(
            "http.wait_for_successful_query", name, wait_for=float(wait_for), **given
        )
    else:
        given.pop("request_interval", None)
        found = context.call("http.query", name, **given)
    return dict(found)


def _text_result(match: Any, kind: str, data: Mapping[str, Any]) -> List[Tuple[bool, str]]:
    if match is None:
        return []
    text = str(data.get("text", data.get("body", "")))
    if kind == "string":
        found, what = str(match) in text, "text"
    else:
        found, what = _pattern(match).search(text) is not None, "pattern"
    return [(found, f'Match {what} "{match}" was {"" if found else "not "}found.')]


def _status_result(status: Any, kind: str, data: Mapping[str, Any]) -> List[Tuple[bool, str]]:
    if status is None:
        return []
    have = str(data.get("status", ""))
    if kind == "list":
        if have in [str(one) for one in status]:
            return [(True, f"Status {have} was found.")]
        return [(False, f"Statuses {list(status)} were not found.")]
    if kind == "pcre":
        found, what = _pattern(status).search(have) is not None, f'pattern "{status}"'
    else:
        found, what = have == str(status), str(status)
    return [(found, f"Status {what} was {'' if found else 'not '}found.")]


@state()
def wait_for_successful_query(
    context: Context, /, name: str, wait_for: float = 300, **options: Any
) -> StateResult:
    """Repeat an HTTP request until the reply is as it should be.

    Args:
        context: the call's context.
        name: address, http or https.
        wait_for: seconds after which to give up.
        options: match, match_type, status, status_type as of http.query; request_interval (seconds
            between two requests, 1 by default), and the options of the function http.query.
    """
    try:
        limit = seconds(wait_for, "wait_for")
        interval = seconds(options.pop("request_interval", None) or _INTERVAL, "request_interval")
    except UsageError as problem:
        return failed(str(problem))
    end = time.monotonic() + limit
    while True:
        found = query(context, name, **options)
        left = end - time.monotonic()
        if found.result is not False or left <= 0 or found.comment == _NOTHING:
            return found
        time.sleep(min(interval, left))


def seconds(value: Any, what: str) -> float:
    """Return a number of seconds.

    Raises:
        UsageError: it is none, or negative.
    """
    try:
        found = float(value)
    except (TypeError, ValueError):
        found = -1.0
    if not 0 <= found < float("inf"):
        raise UsageError(f"{what}: {value!r} is not a number of seconds")
    return found
