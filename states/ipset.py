"""ipset.*: sets of addresses for the packet filter, and their entries."""

from __future__ import annotations

from typing import Any, List, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.states.answers import done, failed, would

_REFUSALS = (CommandExecutionError, UsageError)


@state()
def set_present(
    context: Context, /, name: str, set_type: str, family: str = "ipv4", **options: Any
) -> StateResult:
    """Make sure that there is a set.

    Args:
        context: the call's context.
        name: of the set.
        set_type: as hash:ip, hash:net or list:set.
        family: ipv4 or ipv6.
        options: of a new set: comment, timeout, hashsize, maxelem, range …
    """
    try:
        if context.call("ipset.check_set", name, family):
            return done(f"ipset set {name} already exists for {family}")
        if context.test:
            return would(f"ipset set {name} would be added for {family}")
        context.call("ipset.new_set", name, set_type, family, **options)
    except _REFUSALS as problem:
        return failed(f"Failed to create set {name} for {family}: {problem}")
    return done(f"ipset set {name} created successfully for {family}", {"locale": name})


@state()
def set_absent(context: Context, /, name: str, family: str = "ipv4") -> StateResult:
    """Make sure that there is no such set; its entries are removed."""
    try:
        if not context.call("ipset.check_set", name, family):
            return done(f"ipset set {name} for {family} is already absent")
        if context.test:
            return would(f"ipset set {name} for {family} would be removed")
        context.call("ipset.flush", name, family)
        context.call("ipset.delete_set", name, family)
    except _REFUSALS as problem:
        return failed(f"Failed to delete set {name} for {family}: {problem}")
    return done(f"ipset set {name} deleted successfully for family {family}", {"locale": name})


def _entries(entry: Any, options: Any) -> List[Tuple[str, str]]:
    """Return each entry without and with its options.

    Raises:
        UsageError: there is none, or set_name is missing.
    """
    if not entry:
        raise UsageError("ipset entry must be specified")
    if not options.get("set_name"):
        raise UsageError("the argument `set_name` is missing")
    found = []
    for one in entry if isinstance(entry, (list, tuple)) else [entry]:
        first, _, more = str(one).strip().partition(" ")
        if "timeout" in options and "timeout" not in more:
            more = f"timeout {options['timeout']} {more}".strip()
        if "comment" in options and "comment" not in more:
            comment = str(options["comment"]).replace('"', "")
            more = f'{more} comment "{comment}"'.strip()
        found.append((first, f"{first} {more}".strip()))
    return found


@state()
def present(
    context: Context, /, name: str, entry: Any = None, family: str = "ipv4", **options: Any
) -> StateResult:
    """Make sure that a set has entries.

    Args:
        context: the call's context.
        name: of the state.
        entry: "10.0.0.1", "10.0.0.1 timeout 60", or a list of those.
        family: ipv4 or ipv6.
        options: set_name; timeout in seconds and comment of all entries.
    """
    return _each(context, name, entry, family, options, True)


@state()
def absent(
    context: Context, /, name: str, entry: Any = None, family: str = "ipv4", **options: Any
) -> StateResult:
    """Make sure that a set does not have entries; arguments as of present."""
    return _each(context, name, entry, family, options, False)


def _each(
    context: Context, name: str, entry: Any, family: str, options: Any, wanted: bool
) -> StateResult:
    lines: List[str] = []
    acted = False
    try:
        target = options.get("set_name")
        for short, full in _entries(entry, options):
            if context.call("ipset.check", target, short, family) == wanted:
                lines.append(
                    f"entry for {short} already in set {target} for {family}"
                    if wanted
                    else f"ipset entry for {full} not present in set {target} for {family}"
                )
                continue
            acted = True
            lines.append(_line(short, full, str(target), family, wanted, context.test))
            if not context.test:
                fun = "ipset.add" if wanted else "ipset.delete"
                context.call(fun, target, full if wanted else short, family)
    except _REFUSALS as problem:
        verb = "add to entry" if wanted else "delete ipset entry"
        return failed("\n".join([*lines, f"Failed to {verb} of {name}: {problem}"]),
                      {"locale": name} if acted and len(lines) > 1 else {})  # fmt: skip
    comment = "".join(f"{line}\n" for line in lines)
    if not acted:
        return done(comment)
    return would(comment) if context.test else done(comment, {"locale": name})


def _line(short: str, full: str, target: str, family: str, wanted: bool, test: bool) -> str:
    if wanted:
        if test:
            return f"entry {short} would be added to set {target} for family {family}"
        return f"entry {full} added to set {target} for family {family}"
    if test:
        return f"ipset entry {short} would be removed from set {target} for {family}"
    return f"ipset entry {full} removed from set {target} for {family}"


@state()
def flush(context: Context, /, name: str, family: str = "ipv4") -> StateResult:
    """Remove all entries of a set."""
    try:
        if not context.call("ipset.check_set", name, family):
            return failed(f"ipset set {name} does not exist for {family}")
        sets = context.call("ipset.list_sets", family)
        if not any(one["Members"] for one in sets if one["Name"] == name):
            return done(f"ipset set {name} for {family} has no entries")
        if context.test:
            return would(f"ipset entries in set {name} for {family} would be flushed")
        context.call("ipset.flush", name, family)
    except _REFUSALS as problem:
        return failed(f"Failed to flush ipset entries from set {name} for {family}: {problem}")
    return done(f"Flushed ipset entries from set {name} for {family}", {"locale": name})
