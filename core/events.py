"""Event tags (Salt's, `semantics/salt-events.md`) and the record of an event.

Every tag is built by a function of this module, so that one place shows what reactors can match.
"""

from __future__ import annotations

import re
from fnmatch import translate
from typing import Any, Callable, Mapping, Sequence

from catena.core.frozen import dataclass

#: Maximum length of a tag in characters.
TAG_LIMIT = 1024
_TAG = re.compile(r"[^\x00-\x1f\x7f]+\Z")


@dataclass(frozen=True)
class Event:
    """An event as stored on the master."""

    #: Position in the master's event table, used as a cursor by consumers. 0: not stored yet.
    seq: int
    tag: str
    data: Mapping[str, Any]
    #: UTC, ISO 8601 with offset, as Salt's _stamp.
    stamp: str
    #: Minion id, or "" for the master's own events.
    source: str = ""


@dataclass(frozen=True)
class Stretch:
    """A range of the event table that a follower has read."""

    #: Position of the last event in the range.
    upto: int
    #: The events of the range that match the follower's patterns, in order.
    events: Sequence[Event]


#: Returns whether a tag is wanted.
TagTest = Callable[[str], bool]


def any_tag(patterns: Sequence[str]) -> TagTest:
    """Return a test for tags that match one of shell-style *patterns* (`*` crosses slashes)."""
    # One combined expression: most events of a busy master match no pattern.
    matches = re.compile("|".join(map(translate, patterns)) or r"(?!)").match
    return lambda tag: matches(tag) is not None


def is_tag(text: str) -> bool:
    """Return whether *text* is a valid tag: 1 to 1024 characters without control characters."""
    if len(text) > TAG_LIMIT:
        return False
    # Fast path for nearly all tags; the pattern takes five times as long.
    return (text.isascii() and text.isprintable() and text != "") or bool(_TAG.match(text))


def minion_start(minion: str) -> str:
    """Tag of the start of a minion's daemon."""
    return f"salt/minion/{minion}/start"


def minion_refused(minion: str) -> str:
    """Tag of a refused connection: a second one with the same identity."""
    return f"salt/minion/{minion}/conflict"


def job_new(jid: str) -> str:
    """Tag of a stored job."""
    return f"salt/job/{jid}/new"


def job_ret(jid: str, minion: str) -> str:
    """Tag of a stored return."""
    return f"salt/job/{jid}/ret/{minion}"


def returned_by(tag: str) -> tuple[str, str]:
    """Return jid and minion of a tag made by `job_ret`."""
    _, _, jid, _, minion = tag.split("/", 4)
    return jid, minion


def job_prog(jid: str, minion: str, step: int) -> str:
    """Tag of one state's result in a running job."""
    return f"salt/job/{jid}/prog/{minion}/{step}"


def run_new(jid: str) -> str:
    """Tag of a runner's start."""
    return f"salt/run/{jid}/new"


def run_ret(jid: str) -> str:
    """Tag of a runner's end."""
    return f"salt/run/{jid}/ret"


def wheel_new(jid: str) -> str:
    """Tag of a wheel call's start."""
    return f"salt/wheel/{jid}/new"


def wheel_ret(jid: str) -> str:
    """Tag of a wheel call's end."""
    return f"salt/wheel/{jid}/ret"


def chain(chain_id: int, what: str) -> str:
    """Tag of a chain's or execution's transition: catena/chain/<id>/<what>."""
    return f"catena/chain/{chain_id}/{what}"


AUTH = "salt/auth"
KEY = "salt/key"
PRESENCE_CHANGE = "salt/presence/change"
PRESENCE_PRESENT = "salt/presence/present"
STORE_DAMAGED = "catena/store/damaged"

#: Prefixes of tags that only the master may send; a minion's event with one is stored under the
#: minion's own name.
MASTER_ONLY_PREFIXES = ("salt/", "catena/", "minion/", "key", "minion_start", "resource/")


def own_tag(minion: str, tag: str) -> str:
    """Return the tag under which *minion*'s own event *tag* is stored.

    A tag that belongs to the master or to another minion becomes minion/<id>/event/<tag>. Beacon
    tags of its own and all others stay. The new tag is not below salt/: in globs `*` matches
    slashes, so salt/minion/*/start would match salt/minion/<id>/event/x/start.
    """
    own = (f"salt/beacon/{minion}/", f"minion/{minion}/event/")
    if tag.startswith(own) or not tag.startswith(MASTER_ONLY_PREFIXES):
        return tag
    return f"minion/{minion}/event/{tag}"
