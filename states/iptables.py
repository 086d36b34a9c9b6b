"""iptables.*: chains, rules and policies of the packet filter, and the file that keeps them."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.shared.arguments import truth
from catena.states.answers import done, failed, would
from catena.states.compiler.model import KEYWORDS

_REFUSALS = (CommandExecutionError, UsageError)
#: Keys of a low chunk that are no arguments of its state.
_CHUNK_KEYS = KEYWORDS | {"state", "fun"}


@state()
def chain_present(
    context: Context, name: str, table: str = "filter", family: str = "ipv4"
) -> StateResult:
    """Make sure that a table has a chain.

    Args:
        context: the call's context.
        name: of the chain.
        table: filter, nat, mangle, raw or security.
        family: ipv4 or ipv6.
    """
    try:
        if context.call("iptables.check_chain", table, name, family):
            return done(f"iptables {name} chain is already exist in {table} table for {family}")
        if context.test:
            return would(f"iptables {name} chain in {table} table needs to be set for {family}")
        context.call("iptables.new_chain", table, name, family)
    except _REFUSALS as problem:
        return failed(f"Failed to create {name} chain in {table} table: {problem} for {family}")
    text = f"iptables {name} chain in {table} table create success for {family}"
    return done(text, {"locale": name})


@state()
def chain_absent(
    context: Context, name: str, table: str = "filter", family: str = "ipv4"
) -> StateResult:
    """Make sure that a table does not have a chain; arguments as of chain_present."""
    try:
        if not context.call("iptables.check_chain", table, name, family):
            return done(f"iptables {name} chain is already absent in {table} table for {family}")
        if context.test:
            return would(f"iptables {name} chain in {table} table needs to be removed {family}")
        context.call("iptables.flush", table, name, family)
        context.call("iptables.delete_chain", table, name, family)
    except _REFUSALS as problem:
        return failed(f"Failed to delete {name} chain in {table} table: {problem} for {family}")
    text = f"iptables {name} chain in {table} table delete success for {family}"
    return done(text, {"locale": name})


@dataclass(frozen=True)
class _Rule:
    """A rule that a state describes."""

    name: str
    table: str
    chain: str
    family: str
    #: True, False, or the path of the file of saved rules.
    save: Any
    #: Options in iptables' own words.
    text: str
    #: The whole command line, for the comment.
    command: str
    position: Any = None

    @property
    def place(self) -> Sequence[str]:
        """Return table, chain, rule and family, as iptables.check takes them."""
        return self.table, self.chain, self.text, self.family


def _rule(
    context: Context, letter: str, name: str, table: str, family: str, given: Mapping[str, Any]
) -> _Rule:
    """Return the rule of a state.

    Raises:
        UsageError: an argument is missing or makes no sense.
        CommandExecutionError: iptables is not installed.
    """
    if not given.get("chain"):
        raise UsageError("the argument `chain` is missing")
    options = {key: value for key, value in given.items() if key not in ("save", "position")}
    text = context.call("iptables.build_rule", family=family, table=table, **options)
    place = {"position": given["position"]} if "position" in given else {}
    command = context.call(
        "iptables.build_rule",
        full=True, family=family, command=letter, table=table, **options, **place,
    )  # fmt: skip
    return _Rule(
        str(name), table, str(given["chain"]), family, given.get("save", False), text,
        command.strip(), given.get("position"),
    )  # fmt: skip


def _filename(save: Any) -> Optional[str]:
    """Return the file of the argument `save`; None for the usual one."""
    return None if save is True or not isinstance(save, str) or save == "True" else save


def _keeps(save: Any) -> bool:
    return bool(save) if isinstance(save, str) and save.startswith("/") else truth(save)


def _saved(context: Context, rule: _Rule) -> str:
    """Save all rules; return the lines about it for the comment."""
    out = context.call("iptables.save", filename=_filename(rule.save), family=rule.family)
    return f"{rule.name} for {rule.family}\n{rule.command}\n{out}"


def _unchanged(context: Context, rule: _Rule, comment: str) -> StateResult:
    """Return the result for a rule that is there; save the rules if the file lacks any."""
    if not _keeps(rule.save) or context.call(
        "iptables.is_saved", filename=_filename(rule.save), family=rule.family
    ):
        return done(comment)
    if context.test:
        return would(f"{comment}\nThe iptables rules would be saved for {rule.family}")
    return done(f"{comment}\nSaved iptables rule {_saved(context, rule)}")


def _added(
    context: Context, rule: _Rule, function: str, place: Mapping[str, Any], told: Sequence[str]
) -> StateResult:
    """Add a rule if its chain lacks it.

    Args:
        context: the call's context.
        rule: the rule.
        function: that adds it.
        place: further arguments of the function.
        told: comments for a rule that is there, and for one that would be added.
    """
    if context.call("iptables.check", *rule.place):
        return _unchanged(context, rule, told[0])
    if context.test:
        return would(told[1])
    try:
        context.call(function, rule.table, rule.chain, rule=rule.text, family=rule.family, **place)
    except _REFUSALS as problem:
        return failed(
            f"Failed to set iptables rule for {rule.name}.\n"
            f"Attempted rule was {rule.command} for {rule.family}\n{problem}"
        )
    changes = {"locale": rule.name}
    if not _keeps(rule.save):
        text = f"Set iptables rule for {rule.name} to: {rule.command} for {rule.family}"
        return done(text, changes)
    try:
        return done(f"Set and saved iptables rule {_saved(context, rule)}", changes)
    except _REFUSALS as problem:
        text = f"Set iptables rule for {rule.name}, but it could not be saved: {problem}"
        return failed(text, changes)


def _append(
    context: Context, name: str, table: str, family: str, given: Mapping[str, Any]
) -> StateResult:
    rule = _rule(context, "A", name, table, family, given)
    shown = f"({rule.command}) for {family}"
    told = (
        f"iptables rule for {name} already set {shown}",
        f"iptables rule for {name} needs to be set {shown}",
    )
    return _added(context, rule, "iptables.append", {}, told)


def _insert(
    context: Context, name: str, table: str, family: str, given: Mapping[str, Any]
) -> StateResult:
    if not given.get("position"):
        raise UsageError("the argument `position` is missing; iptables.append needs none")
    rule = _rule(context, "I", name, table, family, given)
    shown = f"for {family} ({rule.command})"
    told = (
        f"iptables rule for {name} already set {shown}",
        f"iptables rule for {name} needs to be set {shown}",
    )
    return _added(context, rule, "iptables.insert", {"position": rule.position}, told)


def _delete(
    context: Context, name: str, table: str, family: str, given: Mapping[str, Any]
) -> StateResult:
    rule = _rule(context, "D", name, table, family, given)
    if rule.position is None and not context.call("iptables.check", *rule.place):
        return done(f"iptables rule for {name} already absent for {family} ({rule.command})")
    if context.test:
        return would(f"iptables rule for {name} needs to be deleted for {family} ({rule.command})")
    which = {"rule": rule.text} if rule.position is None else {"position": rule.position}
    try:
        context.call("iptables.delete", table, rule.chain, family=family, **which)
    except _REFUSALS as problem:
        return failed(
            f"Failed to delete iptables rule for {name}.\n"
            f"Attempted rule was {rule.command}\n{problem}"
        )
    changes = {"locale": name}
    if not _keeps(rule.save):
        return done(f"Delete iptables rule for {name} {rule.command}", changes)
    try:
        return done(f"Deleted and saved iptables rule {_saved(context, rule)}", changes)
    except _REFUSALS as problem:
        text = f"Deleted iptables rule for {name}, but this could not be saved: {problem}"
        return failed(text, changes)


_EACH = {"append": _append, "insert": _insert, "delete": _delete}


def _one_or_many(
    context: Context, fun: str, name: str, table: str, family: str, given: Mapping[str, Any]
) -> StateResult:
    """Treat the rule of a state, or those of its argument `rules` instead."""
    each = _EACH[fun]
    try:
        if "rules" not in given:
            return each(context, name, table, family, given)
        return _many(context, fun, _listed(given["rules"]), family)
    except _REFUSALS as problem:
        return failed(f"iptables.{fun} for {name}: {problem}")


def _listed(rules: Any) -> List[Dict[str, Any]]:
    """Return the arguments of each rule of the argument `rules`.

    Raises:
        UsageError: it is no list of mappings.
    """
    if not isinstance(rules, (list, tuple)) or not all(isinstance(one, Mapping) for one in rules):
        raise UsageError("`rules` must be a list of mappings")
    return [
        {
            key: value
            for key, value in one.items()
            if key not in _CHUNK_KEYS and not str(key).startswith("__")
        }
        for one in rules
    ]


def _many(context: Context, fun: str, rules: Sequence[Dict[str, Any]], family: str) -> StateResult:
    """Treat several rules; save them once, after the last one."""
    results, save = [], None
    for one in rules:
        given = {key: value for key, value in one.items() if key not in ("name", "save", "rules")}
        table, own = str(given.pop("table", "filter")), str(given.pop("family", family))
        name = str(one.get("name", ""))
        try:
            results.append(_EACH[fun](context, name, table, own, given))
        except _REFUSALS as problem:
            results.append(failed(f"iptables.{fun} for {name}: {problem}"))
        if _keeps(one.get("save")):
            save = one["save"]
    if save is not None:
        results.append(_saved_at_last(context, save, family))
    changed = [one.changes["locale"] for one in results if one.changes]
    outcomes = [one.result for one in results]
    ended = False if False in outcomes else None if None in outcomes else True
    comment = "\n".join(one.comment for one in results if one.comment)
    return StateResult(ended, {"locale": changed} if changed else {}, comment)


def _saved_at_last(context: Context, save: Any, family: str) -> StateResult:
    where = {"filename": _filename(save), "family": family}
    try:
        if context.call("iptables.is_saved", **where):
            return done("")
        if context.test:
            return would(f"The iptables rules would be saved for {family}")
        return done(context.call("iptables.save", **where))
    except _REFUSALS as problem:
        return failed(f"The iptables rules could not be saved: {problem}")


@state()
def append(
    context: Context, /, name: str, table: str = "filter", family: str = "ipv4", **rule: Any
) -> StateResult:
    """Append a rule to a chain, unless the chain has it.

    Args:
        context: the call's context.
        name: of the state; it is no part of the rule.
        table: filter, nat, mangle, raw or security.
        family: ipv4 or ipv6.
        rule: `chain`, `save` (True or a path: save all rules afterwards), `rules` (a list of such
            arguments, instead), and options of iptables by their long names; `connstate` is
            --state, a value with "!" before it is negated, "" is an option without a value.
    """
    return _one_or_many(context, "append", name, table, family, rule)


@state()
def insert(
    context: Context, /, name: str, table: str = "filter", family: str = "ipv4", **rule: Any
) -> StateResult:
    """Insert a rule at `position` into a chain, unless the chain has it; else as append."""
    return _one_or_many(context, "insert", name, table, family, rule)


@state()
def delete(
    context: Context, /, name: str, table: str = "filter", family: str = "ipv4", **rule: Any
) -> StateResult:
    """Delete a rule, by its options or at `position`; arguments as of append."""
    return _one_or_many(context, "delete", name, table, family, rule)


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
) -> StateResult:
    """Set what becomes of packets that no rule of a chain matches.

    Args:
        context: the call's context.
        name: of the state.
        chain: a chain of the kernel's own, as INPUT.
        policy: ACCEPT or DROP.
        table: filter, nat, mangle, raw or security.
        family: ipv4 or ipv6.
        save: True, or the path of a file: save all rules afterwards.
    """
    told = f"iptables default policy for chain {chain} on table {table} for {family}"
    try:
        if context.call("iptables.get_policy", table, chain, family) == policy:
            return done(f"{told} already set to {policy}")
        if context.test:
            return would(f"{told} needs to be set to {policy}")
        context.call("iptables.set_policy", table, chain, policy, family)
    except _REFUSALS as problem:
        return failed(f"Failed to set iptables default policy: {problem}")
    changes, subject = {"locale": name}, f"policy for {chain} to {policy} family {family}"
    if not _keeps(save):
        return done(f"Set default {subject}", changes)
    try:
        context.call("iptables.save", filename=_filename(save), family=family)
    except _REFUSALS as problem:
        return failed(f"Set default {subject}, but it could not be saved: {problem}", changes)
    return done(f"Set and saved default {subject}", changes)


@state()
def flush(
    context: Context, /, name: str, table: str = "filter", family: str = "ipv4", chain: str = ""
) -> StateResult:
    """Remove all rules of a chain, or of all chains of a table.

    Args:
        context: the call's context.
        name: of the state.
        table: filter, nat, mangle, raw or security.
        family: ipv4 or ipv6.
        chain: "" for all.
    """
    told = f"iptables rules in {table} table {chain} chain {family} family"
    try:
        chains = context.call("iptables.get_rules", family).get(table, {})
        if not any(one["rules"] for key, one in chains.items() if chain in ("", key)):
            return done(f"There are no {told}")
        if context.test:
            return would(
                f"iptables rules in {name} table {chain} chain {family} family needs to be flushed"
            )
        context.call("iptables.flush", table, chain, family)
    except _REFUSALS as problem:
        return failed(f"Failed to flush iptables rules: {problem}")
    return done(f"Flush {told}", {"locale": name})


@state()
def mod_aggregate(
    context: Context, low: Dict[str, Any], chunks: Iterable[Dict[str, Any]], running: Any
) -> Dict[str, Any]:
    """Combine the rules of several states of one function and family (`aggregate`).

    Args:
        context: the call's context.
        low: low chunk of the state that does the work; its `rules` are set.
        chunks: low chunks that may be combined; combined ones get the mark `__agg__`.
        running: rows of the states that ran, by key; those states are skipped.
    """
    if low["fun"] not in ("append", "insert") or "rules" in low:
        return low
    joined = [chunk for chunk in chunks if _joins(chunk, low, running)]
    if joined:
        low["rules"] = [dict(low), *(dict(chunk) for chunk in joined)]
    for chunk in joined:
        chunk["__agg__"] = True
    return low


def _joins(chunk: Mapping[str, Any], low: Mapping[str, Any], running: Any) -> bool:
    key = "_|-".join(str(chunk[part]) for part in ("state", "__id__", "name", "fun"))
    alike = all(chunk.get(part) == low.get(part) for part in ("state", "fun", "family"))
    return alike and "rules" not in chunk and not chunk.get("__agg__") and key not in running
