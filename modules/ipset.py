"""ipset.*: sets of addresses and ports for rules of the packet filter."""

from __future__ import annotations

import shlex
from ipaddress import ip_address, ip_network, summarize_address_range
from typing import Any, Dict, List, Optional, Sequence, Union

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass
from catena.core.patterns import lazy_pattern
from catena.core.plugins import function
from catena.core.suggest import unknown
from catena.modules.shared import programs

_PACKAGE = "ipset"
_FAMILIES = {"ipv4": "inet", "ipv6": "inet6"}
_NAME = lazy_pattern(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,30}\Z")
_TYPE = lazy_pattern(r"[a-z]+(:[a-z,]+)?\Z")
_KEY = lazy_pattern(r"[a-z][a-z0-9-]*\Z")
#: Options of a new set that have no value.
_FLAGS = frozenset(("counters", "comment", "skbinfo", "forceadd"))
#: Maximum number of addresses of a range that are looked for one by one.
_MOST = 65536


@dataclass(frozen=True)
class SavedSet:
    """A set as `ipset save` prints it."""

    name: str
    type: str
    options: str
    #: Entries with their options: "10.0.0.1 timeout 60".
    members: Sequence[str]


def _family(name: Any) -> str:
    if name not in _FAMILIES:
        raise UsageError(unknown("family", str(name), list(_FAMILIES)))
    return _FAMILIES[name]


def _named(name: Any) -> str:
    if not name:
        raise UsageError("Set Name needs to be specified")
    if not _NAME.match(str(name)):
        raise UsageError(f"{str(name)[:80]!r} can't be the name of a set")
    return str(name)


def _words(entry: Any) -> List[str]:
    if not entry:
        raise UsageError("Entry needs to be specified")
    try:
        words = shlex.split(str(entry))
    except ValueError as problem:
        raise UsageError(f"{str(entry)[:80]!r}: {problem}") from problem
    if not words or words[0].startswith("-") or any(mark in str(entry) for mark in "\r\n\0"):
        raise UsageError(f"{str(entry)[:80]!r} can't be an entry of a set")
    return words


def parse(text: str) -> Dict[str, SavedSet]:
    """Return the sets of what `ipset save` prints, by name."""
    found: Dict[str, SavedSet] = {}
    members: Dict[str, List[str]] = {}
    for line in text.splitlines():
        verb, _, rest = line.strip().partition(" ")
        name, _, rest = rest.partition(" ")
        if verb == "create":
            kind, _, options = rest.partition(" ")
            members[name] = []
            found[name] = SavedSet(name, kind, options, members[name])
        elif verb == "add" and name in members:
            members[name].append(rest)
    return found


def parts(kind: str, entry: str) -> List[str]:
    """Return what an entry becomes in a set: one spelling, ranges of addresses taken apart.

    Args:
        kind: type of the set, as hash:ip.
        entry: first word of an entry.
    """
    if kind.startswith(("hash:net", "list:")) and "-" not in entry:
        return [_plain(entry)]
    first, comma, rest = entry.partition(",")
    nets: List[Any] = []  # the classes of both families have no common base with these methods
    try:
        if "-" in first:
            low, _, high = (one.strip() for one in first.partition("-"))
            nets += summarize_address_range(ip_address(low), ip_address(high))
        else:
            nets.append(ip_network(first, strict=False))
    except (ValueError, TypeError):
        return [_plain(entry)]
    if kind.startswith("hash:net"):
        return [_plain(f"{net}{comma}{rest}") for net in nets]
    if sum(net.num_addresses for net in nets) > _MOST:
        return [_plain(entry)]
    return [f"{address}{comma}{rest}" for net in nets for address in net]


def _plain(entry: str) -> str:
    """Return an entry with its addresses as ipset prints them."""
    found = []
    for one in entry.split(","):
        try:
            net = ip_network(one, strict=False)
        except ValueError:
            found.append(one)
            continue
        single = net.prefixlen == net.max_prefixlen
        found.append(str(net.network_address) if single else str(net))
    return ",".join(found)


def has(saved: SavedSet, entry: str) -> bool:
    """Return whether a set has an entry, whatever its options are."""
    there = {_plain(one.split()[0]) for one in saved.members}
    return all(_plain(one) in there for one in parts(saved.type, entry))


def _saved(context: Context, name: str) -> Optional[SavedSet]:
    """Return a set; None if it does not exist.

    Raises:
        CommandExecutionError: ipset does not work.
    """
    ran = programs.look(context, ["ipset", "save", _named(name)], _PACKAGE)
    if ran.retcode:
        if "does not exist" in ran.stderr:
            return None
        raise CommandExecutionError(f"ipset failed: {ran.stderr.strip()[-500:]}")
    return parse(ran.stdout).get(str(name))


def _change(context: Context, *words: str) -> bool:
    programs.need(context, ["ipset", *words], _PACKAGE)
    return True


@function(reads=True)
def version(context: Context) -> str:
    """Return the version of ipset, as "v7.17"."""
    return programs.need(context, ["ipset", "--version"], _PACKAGE).split()[1].rstrip(",")


@function(reads=True)
def list_sets(context: Context, family: str = "ipv4") -> List[Dict[str, Any]]:
    """Return Name, Type, Header and Members of each set of a family."""
    wanted = _family(family)
    found = parse(programs.need(context, ["ipset", "save"], _PACKAGE)).values()
    return [
        {"Name": one.name, "Type": one.type, "Header": one.options, "Members": list(one.members)}
        for one in found
        if f"family {wanted} " in f"{one.options} " or "family" not in one.options
    ]


@function(reads=True)
def check_set(context: Context, set: Optional[str] = None, family: str = "ipv4") -> bool:
    """Return whether there is a set."""
    _family(family)
    return _saved(context, _named(set)) is not None


@function(reads=True)
def check(
    context: Context,
    set: Optional[str] = None,
    entry: Optional[str] = None,
    family: str = "ipv4",
) -> bool:
    """Return whether a set has an entry; the options of the entry do not count.

    Raises:
        CommandExecutionError: there is no such set.
    """
    _family(family)
    found = _saved(context, _named(set))
    if found is None:
        raise CommandExecutionError(f"Set {set} does not exist")
    return has(found, _words(entry)[0])


@function(reads=True)
def test(
    context: Context,
    set: Optional[str] = None,
    entry: Optional[str] = None,
    family: str = "ipv4",
) -> bool:
    """Return whether the kernel finds an entry in a set, also as part of a network."""
    _family(family)
    words = ["ipset", "test", _named(set), _words(entry)[0]]
    return programs.look(context, words, _PACKAGE).retcode == 0


@function()
def new_set(
    context: Context,
    /,
    name: str,
    set_type: str,
    family: str = "ipv4",
    comment: Any = False,
    **options: Any,
) -> bool:
    """Create a set; return True.

    Args:
        context: the host.
        name: of the set.
        set_type: as hash:ip, hash:net or list:set.
        family: ipv4 or ipv6.
        comment: entries can have comments.
        options: timeout, hashsize, maxelem, range, counters …

    Raises:
        CommandExecutionError: ipset refuses.
        UsageError: an argument makes no sense.
    """
    if not _TYPE.match(str(set_type)):
        raise UsageError(f"{str(set_type)[:80]!r} can't be the type of a set")
    words = ["create", _named(name), str(set_type)]
    if str(set_type).startswith("hash:") and set_type != "hash:mac":
        words += ["family", _family(family)]
    words += ["comment"] if comment else []
    for key, value in options.items():
        if key.startswith("__"):
            continue
        if not _KEY.match(key):
            raise UsageError(f"{key[:80]!r} can't be an option of a set")
        words += [key] if key in _FLAGS else [key, str(value)]
    return _change(context, *words)


@function()
def delete_set(context: Context, set: Optional[str] = None, family: str = "ipv4") -> bool:
    """Delete a set that no rule uses; return True."""
    _family(family)
    return _change(context, "destroy", _named(set))


@function()
def rename_set(
    context: Context,
    set: Optional[str] = None,
    new_set: Optional[str] = None,
    family: str = "ipv4",
) -> bool:
    """Give a set another name; return True."""
    _family(family)
    return _change(context, "rename", _named(set), _named(new_set))


@function()
def add(
    context: Context,
    /,
    setname: Optional[str] = None,
    entry: Optional[str] = None,
    family: str = "ipv4",
    **options: Any,
) -> str:
    """Add an entry, "10.0.0.1 timeout 60", to a set; return "Success"."""
    _family(family)
    _change(context, "-exist", "add", _named(setname), *_words(entry))
    return "Success"


@function()
def delete(
    context: Context,
    /,
    set: Optional[str] = None,
    entry: Optional[str] = None,
    family: str = "ipv4",
    **options: Any,
) -> str:
    """Remove an entry from a set; return "Success"."""
    _family(family)
    _change(context, "-exist", "del", _named(set), _words(entry)[0])
    return "Success"


@function()
def flush(context: Context, set: Optional[str] = None, family: str = "ipv4") -> Union[bool, str]:
    """Remove all entries of a set, or of all sets; return True."""
    _family(family)
    return _change(context, "flush", *([_named(set)] if set else []))
