"""firewalld.*: zones and services of firewalld, on disk and in the running one."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.firewalld.functions import forwarding
from catena.modules.shared.arguments import take, truth
from catena.states.answers import done, failed, would

_REFUSALS = (CommandExecutionError, UsageError)
#: A value of a rich rule without quotation marks: address=10.0.0.1, address='10.0.0.1'.
_BARE = re.compile(r"(?<=\w)=(?:'([^']*)'|([^\s\"']+))")

Zone = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class _ZoneOptions:
    """Keyword arguments of firewalld.present, with Salt's names and defaults."""

    block_icmp: Any = None
    prune_block_icmp: Any = False
    default: Any = None
    masquerade: Any = None
    ports: Any = None
    prune_ports: Any = False
    port_fwd: Any = None
    prune_port_fwd: Any = False
    services: Any = None
    prune_services: Any = False
    interfaces: Any = None
    prune_interfaces: Any = False
    sources: Any = None
    prune_sources: Any = False
    rich_rules: Any = None
    prune_rich_rules: Any = False


@dataclass(frozen=True)
class _Kind:
    """A kind of entries of a zone."""

    #: Argument of the state.
    argument: str
    #: Key in firewalld's listing.
    listed: str
    #: Key in the state's changes.
    shown: str
    add: str
    remove: str


_KINDS = (
    _Kind("block_icmp", "icmp-blocks", "icmp_types", "block_icmp", "allow_icmp"),
    _Kind("ports", "ports", "ports", "add_port", "remove_port"),
    _Kind("port_fwd", "forward-ports", "port_fwd", "add_port_fwd", "remove_port_fwd"),
    _Kind("services", "services", "services", "add_service", "remove_service"),
    _Kind("interfaces", "interfaces", "interfaces", "add_interface", "remove_interface"),
    _Kind("sources", "sources", "sources", "add_source", "remove_source"),
    _Kind("rich_rules", "rich rules", "rich_rules", "add_rich_rule", "remove_rich_rule"),
)

#: A function of firewalld with its arguments, called to carry out a change.
Step = Tuple[str, Tuple[Any, ...]]


@dataclass
class _Plan:
    """What has to be done to a zone."""

    steps: List[Step]
    changes: Dict[str, Any]
    #: Lines for the comment of test mode.
    told: List[str]


@state()
def present(context: Context, /, name: str, **arguments: Any) -> StateResult:
    """Make sure that a zone exists and has these entries.

    Args:
        context: the call's context.
        name: of the zone.
        arguments: services, ports ("80/tcp"), port_fwd ("80:8080:tcp" or with ":ADDRESS"),
            interfaces, sources, rich_rules and block_icmp are lists; each has a prune_* argument
            (False) that removes all other entries. default: make it the default zone.
            masquerade: True or False.
    """
    try:
        options = take(_ZoneOptions, arguments, "firewalld.present")
        plan = _planned(context, name, options)
    except _REFUSALS as problem:
        return failed(f"Error: {problem}")
    if not plan.steps:
        return done(f"'{name}' is already in the desired state.")
    if context.test:
        lines = "".join(f"\n    {line}" for line in plan.told)
        return would(f"Configuration for '{name}' will change:{lines}")
    try:
        _carry_out(context, plan.steps)
    except _REFUSALS as problem:
        return failed(f"Error: {problem}")
    return done(f"'{name}' was configured.", plan.changes)


def _carry_out(context: Context, steps: Sequence[Step]) -> None:
    """Call each step, then let a running firewalld load the result.

    Raises:
        CommandExecutionError: a step failed; what was done before it is loaded.
    """
    try:
        for fun, arguments in steps:
            if context.call(f"firewalld.{fun}", *arguments) is False:
                raise CommandExecutionError(f"firewalld.{fun} {arguments} failed")
    finally:
        context.call("firewalld.reload_rules")


def _planned(context: Context, name: str, options: _ZoneOptions) -> _Plan:
    zones = context.call("firewalld.list_zones")
    zone = zones.get(name)
    plan = _Plan([], {}, [])
    if zone is None:
        plan.steps.append(("new_zone", (name, False)))
        plan.changes[name] = {"old": list(zones), "new": name}
        plan.told.append(f"new zone {name}")
    for kind in _KINDS:
        _plan_entries(context, plan, name, zone or {}, kind, options)
    if options.default:
        default = context.call("firewalld.default_zone")
        if default != name:
            plan.steps.append(("set_default_zone", (name,)))
            plan.changes["default"] = {"old": default, "new": name}
            plan.told.append(f"default zone instead of {default}")
    _plan_masquerade(plan, name, zone or {}, options.masquerade)
    return plan


def _plan_masquerade(plan: _Plan, name: str, zone: Zone, wanted: Any) -> None:
    present = list(zone.get("masquerade", ())) == ["yes"]
    if wanted is None or truth(wanted) == present:
        return
    verb, past = ("add", "set") if truth(wanted) else ("remove", "disabled")
    plan.steps.append((f"{verb}_masquerade", (name,)))
    plan.changes["masquerade"] = {"old": present, "new": f"Masquerading successfully {past}."}
    plan.told.append(f"masquerade: {verb}")


def _plan_entries(
    context: Context, plan: _Plan, name: str, zone: Zone, kind: _Kind, options: _ZoneOptions
) -> None:
    """Add the steps for one kind of entries to *plan*."""
    given = getattr(options, kind.argument)
    prune = truth(getattr(options, f"prune_{kind.argument}"))
    if not given and not prune:
        return
    wanted = _wanted(context, kind, given)
    present = _present(kind, zone)
    new = [one for one in wanted if one not in present]
    old = [one for one in present if one not in wanted] if prune else []
    if not new and not old:
        return
    for fun, entries in ((kind.add, new), (kind.remove, old)):
        plan.steps += [(fun, _arguments(kind, name, one)) for one in entries]
    after = wanted if prune else [*present, *new]
    plan.changes[kind.shown] = {
        "old": [_shown(kind, one) for one in present],
        "new": [_shown(kind, one) for one in after],
    }
    plan.told += [f"{kind.shown}: add {one}" for one in new]
    plan.told += [f"{kind.shown}: remove {one}" for one in old]


def _wanted(context: Context, kind: _Kind, given: Any) -> List[str]:
    """Return the entries that the state asks for, in firewalld's spelling."""
    if given is not None and not isinstance(given, (list, tuple)):
        raise UsageError(f"{kind.argument} must be a list, not {type(given).__name__}")
    texts = list(dict.fromkeys(str(one).strip() for one in given or ()))
    if kind.argument == "rich_rules":
        return [normal_rule(one) for one in texts]
    if kind.argument == "port_fwd":
        return [_forwarded(one) for one in texts]
    if kind.argument == "block_icmp" and texts:
        known = context.call("firewalld.get_icmp_types")
        wrong = [one for one in texts if one not in known]
        if wrong:
            raise UsageError(f"{', '.join(wrong)}: no ICMP type of firewalld")
    return texts


def _forwarded(text: str) -> str:
    """Return SOURCE:DESTINATION:PROTOCOL[:ADDRESS] in firewalld's spelling."""
    parts = text.split(":", 3)
    if len(parts) < 3 or not all(parts[:3]):
        raise UsageError(f"port_fwd: {text!r} is not SOURCE:DESTINATION:PROTOCOL[:ADDRESS]")
    source, destination, protocol, *address = parts
    to = address[0] if address else ""
    return f"port={source}:proto={protocol}:toport={destination}:toaddr={to}"


def normal_rule(rule: str) -> str:
    """Return a rich rule with quotation marks around each value."""
    spaced = " ".join(rule.split()) if '"' not in rule else rule.strip()
    return _BARE.sub(lambda found: f'="{found.group(1) or found.group(2) or ""}"', spaced)


def _present(kind: _Kind, zone: Zone) -> List[str]:
    values = zone.get(kind.listed, ())
    if kind.argument in ("rich_rules", "port_fwd"):
        return [one.strip() for one in values if one.strip()]
    return " ".join(values).split()


def _shown(kind: _Kind, entry: str) -> Any:
    return forwarding(entry) if kind.argument == "port_fwd" else entry


def _arguments(kind: _Kind, zone: str, entry: str) -> Tuple[Any, ...]:
    if kind.argument == "services":
        return entry, zone
    if kind.argument == "port_fwd":
        return (zone, *(forwarding(entry)[key] for key in _FORWARD_ORDER))
    return zone, entry


_FORWARD_ORDER = ("Source port", "Destination port", "Protocol", "Destination address")


@state()
def service(
    context: Context,
    name: str,
    ports: Optional[Sequence[str]] = None,
    protocols: Optional[Sequence[str]] = None,
) -> StateResult:
    """Make sure that a service exists and has exactly these ports and protocols.

    Args:
        context: the call's context.
        name: of the service.
        ports: as "80/tcp".
        protocols: as "gre".
    """
    steps: List[Step] = []
    changes: Dict[str, Any] = {}
    try:
        known = name in context.call("firewalld.get_services")
        if not known:
            steps.append(("new_service", (name, False)))
        for shown, wanted, noun in (
            ("ports", ports, "port"),
            ("protocols", protocols, "protocol"),
        ):
            present = context.call(f"firewalld.get_service_{shown}", name) if known else []
            texts = [str(one) for one in wanted or ()]
            new = [one for one in texts if one not in present]
            old = [one for one in present if one not in texts]
            steps += [(f"add_service_{noun}", (name, one)) for one in new]
            steps += [(f"remove_service_{noun}", (name, one)) for one in old]
            if new or old:
                changes[shown] = {"old": present, "new": texts}
        if not steps:
            return done(f"'{name}' is already in the desired state.")
        if context.test:
            return would(f"Configuration for '{name}' will change.", changes)
        _carry_out(context, steps)
    except _REFUSALS as problem:
        return failed(f"Error: {problem}")
    return done(f"'{name}' was configured.", changes or {name: "created"})
