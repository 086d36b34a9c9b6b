"""host.*: names and addresses in /etc/hosts."""

from __future__ import annotations

from typing import Any, Dict, List

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass, field
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules import hosts
from catena.modules.shared.arguments import listed, truth
from catena.states.answers import done, failed, would


@state()
def present(
    context: Context, name: str, ip: Any, comment: str = "", clean: bool = False
) -> StateResult:
    """Make sure that *name* has the address, or the addresses, *ip*; *clean* removes others."""
    try:
        lines = hosts.load(context)
        wanted = [hosts.checked_ip(one) for one in listed(ip)]
        names = hosts.checked_names(name)
    except (UsageError, CommandExecutionError) as problem:
        return failed(str(problem))
    plan = _Plan(lines, clean=truth(clean))
    for address in wanted:
        plan.add(context, address, name, names)
    for address in [address for address in hosts.addresses_of(lines) if address not in wanted]:
        plan.look_at_other(address, name, names)
    noted = _to_note(plan.lines, wanted, comment)
    kinds = (("added", plan.added), ("removed", plan.removed), ("comment_added", noted))
    changes = {key: value for key, value in kinds if value}
    plan.comments += [f"Set comment for host {address} ({comment})" for address in noted]
    text = "\n".join(plan.comments)
    if changes and context.test:
        return StateResult(None, changes, text, tuple(plan.warnings))
    if plan.added or plan.removed:
        hosts.save(context, plan.lines)
    for address in noted:
        context.call("hosts.set_comment", address, comment)
    return StateResult(True, changes, text, tuple(plan.warnings))


@dataclass
class _Plan:
    """The result of host.present, collected address by address."""

    lines: List[hosts.HostsLine]
    #: Remove the name from other addresses.
    clean: bool
    comments: List[str] = field(default_factory=list)
    warnings: List[str] = field(default_factory=list)
    added: Dict[str, List[str]] = field(default_factory=dict)
    removed: Dict[str, List[str]] = field(default_factory=dict)

    def add(self, context: Context, address: str, name: str, names: List[str]) -> None:
        """Add the missing names to *address*."""
        have = hosts.addresses_of(self.lines).get(address, [])
        if all(one in have for one in names):
            self.comments.append(f"Host {name} ({address}) already present")
            return
        self.lines = hosts.with_host(self.lines, address, names)
        self.added[address] = [name]
        self.comments.append(
            f"Host {name} ({address}) would be added"
            if context.test
            else f"Added host {name} ({address})"
        )

    def look_at_other(self, address: str, name: str, names: List[str]) -> None:
        """Remove the names from another address if `clean` is set, otherwise report them."""
        if not set(names) & set(hosts.addresses_of(self.lines)[address]):
            return
        if self.clean:
            self.lines = hosts.without_host(self.lines, address, names)
            self.removed[address] = [name]
            self.comments.append(f"Removed host {name} ({address})")
        else:
            self.warnings.append(f"Host {name} present for IP address {address}")


def _to_note(
    lines: List[hosts.HostsLine], wanted: List[str], comment: str
) -> Dict[str, List[str]]:
    """Return the addresses whose lines lack the wanted comment."""
    if not comment:
        return {}
    have = {line.ip: line.comment.strip() for line in lines if line.ip}
    return {address: [comment] for address in wanted if have.get(address) != comment}


@state()
def absent(context: Context, name: str, ip: Any) -> StateResult:
    """Make sure that *name* does not have the address, or any of the addresses, *ip*."""
    try:
        lines, names = hosts.load(context), hosts.checked_names(name)
    except (UsageError, CommandExecutionError) as problem:
        return failed(str(problem))
    have = hosts.addresses_of(lines)
    comments, found = [], False
    for address in (str(one) for one in listed(ip)):
        if not set(names) & set(have.get(address, [])):
            comments.append(f"Host {name} ({address}) already absent")
            continue
        found = True
        lines = hosts.without_host(lines, address, names)
        comments.append(
            f"Host {name} ({address}) needs to be removed"
            if context.test
            else f"Removed host {name} ({address})"
        )
    if not found:
        return done("\n".join(comments))
    if context.test:
        return would("\n".join(comments))
    hosts.save(context, lines)
    return done("\n".join(comments), {"host": name})


@state()
def only(context: Context, name: str, hostnames: Any) -> StateResult:
    """Make *hostnames* the only names of the address *name*."""
    try:
        lines, names = hosts.load(context), hosts.checked_names(hostnames)
        address = hosts.checked_ip(name)
    except (UsageError, CommandExecutionError) as problem:
        return failed(str(problem))
    old = " ".join(hosts.addresses_of(lines).get(address, []))
    new = " ".join(names)
    if old == new:
        return done(f'IP address {address} already set to "{new}"')
    if context.test:
        return would(f'Would change {address} from "{old}" to "{new}"')
    hosts.save(context, hosts.with_only(lines, address, names))
    return done(
        f'successfully changed {address} from "{old}" to "{new}"',
        {address: {"old": old, "new": new}},
    )
