"""Event tags (Salt's, `semantics/salt-events.md`) and the record of an event.

A tag is built by a function of this module, never by hand, so that what people's reactors match
can be seen in one place.
"""

from __future__ import annotations

import re
from fnmatch import translate
from typing import Any, Callable, Mapping, Sequence

from catena.core.frozen import dataclass

#: Longest tag, in characters.
TAG_LIMIT = 1024
_TAG = re.compile(r"[^\x00-\x1f\x7f]+\Z")


@dataclass(frozen=True)
class Event:
    """Something that happened, as stored on the master."""

    #: Position in the master's event table; consumers keep a cursor on it. 0: not stored yet.
    seq: int
    tag: str
    data: Mapping[str, Any]
    #: UTC, ISO 8601 with offset, as Salt's _stamp.
    stamp: str
    #: Minion id, or "" for the master's own.
    source: str = ""


@dataclass(frozen=True)
class Stretch:
    """A piece of the event table that a follower is past."""

    #: Position of the last event in it.
    upto: int
    #: Those of its events that were asked for, in order.
    events: Sequence[Event]


#: Tells whether a tag is asked for.
TagTest = Callable[[str], bool]


def any_tag(patterns: Sequence[str]) -> TagTest:
    """Return a test for tags that match one of shell-style *patterns* (`*` crosses slashes)."""
    # One expression for all: most events of a busy master are asked for by nobody.
    matches = re.compile("|".join(map(translate, patterns)) or r"(?!)").match
    return lambda tag: matches(tag) is not None


def is_tag(text: str) -> bool:
    """Return whether *text* can be a tag: 1 to 1024 characters, none of them a control."""
    if len(text) > TAG_LIMIT:
        return False
    # Nearly all are such; the pattern takes five times as long.
    return (text.isascii() and text.isprintable() and text != "") or bool(_TAG.match(text))


def minion_start(minion: str) -> str:
    """Tag of a minion daemon that came up."""
    return f"salt/minion/{minion}/start"


def minion_refused(minion: str) -> str:
    """Tag of a connection that was refused as a second one of the same identity."""
    return f"salt/minion/{minion}/conflict"


def job_new(jid: str) -> str:
    """Tag of a stored job."""
    return f"salt/job/{jid}/new"


def job_ret(jid: str, minion: str) -> str:
    """Tag of a stored return."""
    return f"salt/job/{jid}/ret/{minion}"


def returned_by(tag: str) -> tuple[str, str]:
    """Return jid and minion of a tag that `job_ret` made."""
    _, _, jid, _, minion = tag.split("/", 4)
    return jid, minion


def job_prog(jid: str, minion: str, step: int) -> str:
    """Tag of one state's result in a running job."""
    return f"salt/job/{jid}/prog/{minion}/{step}"


def run_new(jid: str) -> str:
    """Tag of a runner that starts."""
    return f"salt/run/{jid}/new"


def run_ret(jid: str) -> str:
    """Tag of a runner that ended."""
    return f"salt/run/{jid}/ret"


def wheel_new(jid: str) -> str:
    """Tag of a wheel call that starts."""
    return f"salt/wheel/{jid}/new"


def wheel_ret(jid: str) -> str:
    """Tag of a wheel call that ended."""
    return f"salt/wheel/{jid}/ret"


def chain(chain_id: int, what: str) -> str:
    """Tag of a chain's or execution's transition: catena/chain/<id>/<what>."""
    return f"catena/chain/{chain_id}/{what}"


AUTH = "salt/auth"
KEY = "salt/key"
PRESENCE_CHANGE = "salt/presence/change"
PRESENCE_PRESENT = "salt/presence/present"
STORE_DAMAGED = "catena/store/damaged"

#: Tags that only the master itself may send; a minion's event under one of them is re-tagged
#: under the minion's own name.
MASTER_ONLY_PREFIXES = ("salt/", "catena/", "minion/", "key", "minion_start", "resource/")


def own_tag(minion: str, tag: str) -> str:
    """Return the tag under which *minion*'s own event *tag* is stored.

    A tag of the master's, or another minion's, becomes minion/<id>/event/<tag>; beacon tags of
    its own name and free tags stay. Not below salt/: the `*` of people's globs crosses slashes,
    and salt/minion/<id>/event/x/start would be one of salt/minion/*/start.
    """
    own = (f"salt/beacon/{minion}/", f"minion/{minion}/event/")
    if tag.startswith(own) or not tag.startswith(MASTER_ONLY_PREFIXES):
        return tag
    return f"minion/{minion}/event/{tag}"
