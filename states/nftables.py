"""nftables.*: tables, chains, rules and policies of the packet filter."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.shared.arguments import truth
from catena.states.answers import done, failed, would

_REFUSALS = (CommandExecutionError, UsageError)


def _ask(context: Context, name: str, *args: Any, **kwargs: Any) -> str:
    """Call a function that changes something; return "", or why it did not."""
    try:
        answer = context.call(name, *args, **kwargs)
    except _REFUSALS as problem:
        return str(problem)
    return "" if answer["result"] else str(answer["comment"]).strip()


@state()
def table_present(context: Context, /, name: str, family: str = "ipv4") -> StateResult:
    """Make sure that there is a table.

    Args:
        context: the call's context.
        name: of the table.
        family: ipv4, ipv6, inet, arp, bridge or netdev.
    """
    try:
        there = context.call("nftables.check_table", name, family=family)["result"]
    except _REFUSALS as problem:
        return failed(f"Failed to create table {name} for family {family}: {problem}")
    if there:
        return done(f"nftables table {name} already exists in family {family}")
    if context.test:
        return would(f"nftables table {name} would be created in family {family}")
    problem_text = _ask(context, "nftables.new_table", name, family=family)
    if problem_text:
        return failed(f"Failed to create table {name} for family {family}: {problem_text}")
    text = f"nftables table {name} successfully created in family {family}"
    return done(text, {"locale": name})


@state()
def table_absent(context: Context, /, name: str, family: str = "ipv4") -> StateResult:
    """Make sure that there is no such table; arguments as of table_present."""
    try:
        there = context.call("nftables.check_table", name, family=family)["result"]
    except _REFUSALS as problem:
        return failed(f"Failed to delete table {name} from family {family}: {problem}")
    if not there:
        return done(f"nftables table {name} is already absent from family {family}")
    if context.test:
        return would(f"nftables table {name} would be deleted from family {family}")
    problem_text = _ask(context, "nftables.delete_table", name, family=family)
    if problem_text:
        return failed(f"Failed to delete table {name} from family {family}: {problem_text}")
    text = f"nftables table {name} successfully deleted from family {family}"
    return done(text, {"locale": name})


@state()
def chain_present(
    context: Context,
    /,
    name: str,
    table: str = "filter",
    table_type: Optional[str] = None,
    hook: Optional[str] = None,
    priority: Any = None,
    family: str = "ipv4",
) -> StateResult:
    """Make sure that a table has a chain.

    Args:
        context: the call's context.
        name: of the chain.
        table: that has it.
        table_type: filter, nat or route; with hook and priority, for a chain of the kernel's.
        hook: prerouting, input, forward, output, postrouting or ingress.
        priority: number or name; lower ones come first.
        family: ipv4, ipv6, inet, arp, bridge or netdev.
    """
    trouble = f"Failed to create {name} chain in {table} table: {{}} for {family}"
    try:
        there = context.call("nftables.check_chain", table, name, family=family)["result"]
    except _REFUSALS as problem:
        return failed(trouble.format(problem))
    if there:
        return done(f"nftables {name} chain is already exist in {table} table for {family}")
    if context.test:
        return would(
            f"nftables chain {name} would be created in table {table} for family {family}"
        )
    base = {"table_type": table_type, "hook": hook, "priority": priority}
    problem_text = _ask(context, "nftables.new_chain", table, name, family=family, **base)
    if problem_text:
        return failed(trouble.format(problem_text))
    text = f"nftables {name} chain in {table} table create success for {family}"
    return done(text, {"locale": name})


@state()
def chain_absent(
    context: Context, /, name: str, table: str = "filter", family: str = "ipv4"
) -> StateResult:
    """Make sure that a table does not have a chain; arguments as of chain_present."""
    trouble = f"Failed to delete {name} chain in {table} table: {{}} for {family}"
    try:
        there = context.call("nftables.check_chain", table, name, family=family)["result"]
    except _REFUSALS as problem:
        return failed(trouble.format(problem))
    if not there:
        return done(f"nftables {name} chain is already absent in {table} table for {family}")
    if context.test:
        return would(f"nftables {name} chain in {table} table would be deleted for {family}")
    problem_text = _ask(context, "nftables.flush", table, name, family) or _ask(
        context, "nftables.delete_chain", table, name, family
    )
    if problem_text:
        return failed(trouble.format(problem_text))
    text = f"nftables {name} chain in {table} table delete success for {family}"
    return done(text, {"locale": name})


def _built(context: Context, family: str, given: Mapping[str, Any]) -> Tuple[str, str, str]:
    """Return table, chain and text of a state's rule.

    Raises:
        UsageError: an argument is missing or makes no sense.
    """
    for key in ("table", "chain"):
        if not given.get(key):
            raise UsageError(f"the argument `{key}` is missing")
    options = {key: value for key, value in given.items() if key not in ("save", "position")}
    rule = context.call("nftables.build_rule", family=family, **options)["rule"]
    return str(given["table"]), str(given["chain"]), rule


def _saved(
    context: Context, save: Any, result: StateResult, comment: str, family: str
) -> StateResult:
    """Save all rules if asked for; return *result*, or it with *comment* where they were saved."""
    path = save if isinstance(save, str) and save.startswith("/") else None
    if path is None and not truth(save):
        return result
    try:
        if not result.changes and context.call("nftables.is_saved", filename=path):
            return result
        if context.test:
            return would(f"{result.comment}\nThe nftables rules would be saved")
        context.call("nftables.save", filename=path, family=family)
    except _REFUSALS as problem:
        text = f"{result.comment}, but the rules could not be saved: {problem}"
        return failed(text, result.changes)
    return done(comment, result.changes)


def _added(
    context: Context, verb: str, name: str, family: str, given: Mapping[str, Any]
) -> StateResult:
    """Append or insert a rule."""
    try:
        table, chain, rule = _built(context, family, given)
        there = context.call("nftables.check", table, chain, rule, family)["result"]
    except _REFUSALS as problem:
        return failed(f"nftables.{verb} for {name}: {problem}")
    shown = f"({rule}) for {family}" if verb == "append" else f"for {family} ({rule})"
    if there:
        unchanged = done(f"nftables rule for {name} already set {shown}")
        comment = f"{unchanged.comment}\nSaved nftables rules"
        return _saved(context, given.get("save"), unchanged, comment, family)
    if context.test:
        return would(f"nftables rule for {name} needs to be set {shown}")
    where = {"position": given.get("position")} if verb == "insert" else {}
    problem_text = _ask(
        context, f"nftables.{verb}", table, chain, rule=rule, family=family, **where
    )
    if problem_text:
        return failed(
            f"Failed to set nftables rule for {name}.\n"
            f"Attempted rule was {rule} for {family}.\n{problem_text}"
        )
    told = f"nftables rule for {name} to: {rule} for {family}"
    result = done(f"Set {told}", {"locale": name})
    if not context.call("nftables.check", table, chain, rule, family)["result"]:
        warning = (
            f"nft lists the rule of {name} in other words than {rule!r}, so that the next run "
            f"would add it again; write it as in `nft list chain {table} {chain}`"
        )
        result = StateResult(True, {"locale": name}, result.comment, (warning,))
        return result
    return _saved(context, given.get("save"), result, f"Set and Saved {told}", family)


@state()
def append(context: Context, /, name: str, family: str = "ipv4", **rule: Any) -> StateResult:
    """Append a rule to a chain, unless the chain has it.

    Args:
        context: the call's context.
        name: of the state; it is no part of the rule.
        family: ipv4, ipv6, inet, arp, bridge or netdev.
        rule: `table`, `chain`, `save` (True or a path: save all rules afterwards), and parts of
            the rule: if, of, proto, connstate, source, destination, dport, sport, dports, sports,
            icmp-type, pkttype, counter, jump, reject-with, comment.
    """
    return _added(context, "append", name, family, rule)


@state()
def insert(context: Context, /, name: str, family: str = "ipv4", **rule: Any) -> StateResult:
    """Insert a rule at the beginning of a chain, or before a handle (`position`); as append."""
    return _added(context, "insert", name, family, rule)


@state()
def delete(context: Context, /, name: str, family: str = "ipv4", **rule: Any) -> StateResult:
    """Delete a rule, by its parts or by its handle (`position`); arguments as of append."""
    handle = rule.get("position")
    try:
        table, chain, text = _built(context, family, rule)
        there = handle or context.call("nftables.check", table, chain, text, family)["result"]
    except _REFUSALS as problem:
        return failed(f"nftables.delete for {name}: {problem}")
    if not there:
        return done(f"nftables rule for {name} already absent for {family} ({text})")
    if context.test:
        return would(f"nftables rule for {name} needs to be deleted for {family} ({text})")
    which = {"position": handle} if handle else {"rule": text}
    problem_text = _ask(context, "nftables.delete", table, chain, family=family, **which)
    if problem_text:
        told = f"Failed to delete nftables rule for {name}.\nAttempted rule was {text}"
        return failed(f"{told}\n{problem_text}")
    result = done(f"Delete nftables rule for {name} {text}", {"locale": name})
    comment = f"Deleted and Saved nftables rule for {name} for {text}{family}"
    return _saved(context, rule.get("save"), result, comment, family)


@state()
def flush(
    context: Context,
    /,
    name: str,
    family: str = "ipv4",
    ignore_absence: Any = False,
    table: str = "filter",
    chain: str = "",
) -> StateResult:
    """Remove all rules of a chain, or of all chains of a table.

    Args:
        context: the call's context.
        name: of the state.
        family: ipv4, ipv6, inet, arp, bridge or netdev.
        ignore_absence: a table or chain that is not there is no failure.
        table: name of the table.
        chain: "" for all.
    """
    told = f"nftables rules in {table} table {chain} chain {family} family"
    where = f"in family {family}, table does not exist"
    missing = f"Failed to flush table {table} {where}."
    try:
        there = context.call("nftables.check_table", table, family=family)["result"]
        if there and chain:
            there = context.call("nftables.check_chain", table, chain, family=family)["result"]
            missing = (
                f"Failed to flush chain {chain} in table {table} in family {family}, "
                "chain does not exist."
            )
        if not there:
            return done(f"There are no {told}") if truth(ignore_absence) else failed(missing)
        rows = [one.get("rule", {}) for one in context.call("nftables.get_rules_json", family)]
        if not any(one.get("table") == table and chain in ("", one.get("chain")) for one in rows):
            return done(f"There are no {told}")
    except _REFUSALS as problem:
        return failed(f"Failed to flush nftables rules: {problem}")
    if context.test:
        return would("nftables flush not performed in test mode.")
    problem_text = _ask(context, "nftables.flush", table, chain, family)
    if problem_text:
        return failed(f"Failed to flush nftables rules: {problem_text}")
    return done(f"Flush {told}", {"locale": name})


@state()
def set_policy(
    context: Context,
    /,
    name: str,
    chain: str,
    policy: str,
    table: str = "filter",
    family: str = "ipv4",
    save: Any = False,
    save_filename: Optional[str] = None,
) -> StateResult:
    """Set what becomes of packets that no rule of a chain matches.

    Args:
        context: the call's context.
        name: of the state.
        chain: a chain with a hook.
        policy: accept or drop.
        table: name of the table.
        family: ipv4, ipv6, inet, arp, bridge or netdev.
        save: True, or the path of a file: save all rules afterwards.
        save_filename: the path of that file.
    """
    told = f"nftables default policy for chain {chain} on table {table} for {family}"
    subject = f"default policy for {chain} to {policy} family {family}"
    try:
        present = context.call("nftables.get_policy", table, chain, family)
        if (present or "").lower() == str(policy).lower():
            return done(f"{told} already set to {policy}")
        if context.test:
            return would(f"{told} needs to be set to {policy}")
        if not context.call("nftables.set_policy", table, chain, str(policy).lower(), family):
            return failed(
                f"Failed to set nftables default policy: table {table} has no chain {chain} with "
                "a hook"
            )
    except _REFUSALS as problem:
        return failed(f"Failed to set nftables default policy: {problem}")
    result = done(f"Set {subject}", {"locale": name})
    where = save_filename if save_filename and truth(save) else save
    return _saved(context, where, result, f"Set and saved {subject}", family)
