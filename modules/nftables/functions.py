"""nftables.*: read and change the packet filter; nft lists it once per change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import function
from catena.core.suggest import unknown
from catena.modules.nftables import rules, ruleset
from catena.modules.shared import programs
from catena.modules.shared.arguments import truth
from catena.modules.shared.generation import generation

#: Key in the run's scratch data: (generation of the packet filter, listing).
_READ = "nftables"
_PACKAGE = "nftables"
#: Usual place of saved rules; a folder gets the file of the second name.
_FILE, _IN_FOLDER = Path("/etc/nftables"), "salt-all-in-one.nft"
_HEAD = "#!/usr/sbin/nft -f\nflush ruleset\n"
_POLICIES = ("accept", "drop")

Answer = Dict[str, Any]


def _tables(context: Context) -> ruleset.Tables:
    """Return the present rules; list them only if they may have changed."""
    known = context.scratch
    mark = generation()
    if mark is not None and _READ in known and known[_READ][0] == mark:
        found: ruleset.Tables = known[_READ][1]
        return found
    text = programs.need(context, ["nft", "-a", "-s", "list", "ruleset"], _PACKAGE)
    made = ruleset.parse(text)
    if mark is not None and generation() == mark:
        known[_READ] = mark, made
    return made


def _change(context: Context, command: str, *flags: str) -> str:
    """Let nft carry out a command and return what it prints.

    Raises:
        CommandExecutionError: it is not installed, or refuses.
    """
    return programs.need(context, ["nft", *flags, "-f", "-"], _PACKAGE, stdin=f"{command}\n")


def _table(context: Context, table: str, family: str) -> Optional[ruleset.ListedTable]:
    key = rules.family_of(family), rules.named("Table", table)
    return _tables(context).get(key)


def _place(context: Context, table: Any, chain: Any, family: str) -> Tuple[Answer, Any]:
    """Return the answer about a chain, and the chain or None."""
    name = rules.named("Chain", chain)
    found = _table(context, table, family)
    if found is None:
        return _no(f"Table {table} in family {family} does not exist"), None
    if name not in found.chains:
        return _no(f"Chain {chain} in table {table} in family {family} does not exist"), None
    text = f"Chain {chain} in table {table} in family {family} exists"
    return _yes(text), found.chains[name]


def _yes(comment: str) -> Answer:
    return {"result": True, "comment": comment}


def _no(comment: str) -> Answer:
    return {"result": False, "comment": comment}


@function(reads=True)
def version(context: Context) -> str:
    """Return the version of nft, as "v1.0.6"."""
    return programs.need(context, ["nft", "--version"], _PACKAGE).split()[1]


@function(reads=True)
def build_rule(
    context: Context,
    /,
    table: Optional[str] = None,
    chain: Optional[str] = None,
    command: Optional[str] = None,
    position: Any = "",
    full: Any = None,
    family: str = "ipv4",
    **kwargs: Any,
) -> Answer:
    """Return {result, comment, rule}: a rule, or with *full* nft's whole command.

    Args:
        context: the host.
        table: name of the table.
        chain: name of the chain.
        command: add, insert or delete.
        position: handle of the rule before which to insert.
        full: return the whole command; needs table, chain and command.
        family: ipv4, ipv6, inet, arp, bridge or netdev.
        kwargs: parts of the rule: if, of, proto, connstate, source, destination, dport, sport,
            dports, sports, icmp-type, pkttype, counter, jump, reject-with, comment …

    Raises:
        UsageError: an argument makes no sense.
    """
    short = rules.family_of(family)
    rule = rules.build(kwargs, short)
    if truth(full):
        if not command:
            raise UsageError("Command needs to be specified")
        where = f" position {int(position)}" if position and command == "insert" else ""
        chain, table = rules.named("Chain", chain), rules.named("Table", table)
        rule = f"nft {str(command).lower()} rule {short} {table} {chain}{where} {rule}"
    return {"result": True, "comment": "Successfully built rule", "rule": rule}


@function(reads=True)
def list_tables(context: Context, family: str = "ipv4") -> List[Dict[str, Any]]:
    """Return family, name and handle of each table of a family."""
    short = rules.family_of(family)
    return [
        {"family": one.family, "name": one.name, "handle": int(one.handle or 0)}
        for one in _tables(context).values()
        if one.family == short
    ]


@function(reads=True)
def get_rules(context: Context, family: str = "ipv4") -> List[str]:
    """Return the text of each table of a family, as nft lists it."""
    short = rules.family_of(family)
    names = [one["name"] for one in list_tables(context, family)]
    return [
        programs.need(context, ["nft", "-n", "list", "table", short, name], _PACKAGE)
        for name in names
    ]


@function(reads=True)
def get_rules_json(context: Context, family: str = "ipv4") -> List[Any]:
    """Return the tables, chains and rules of a family as nft's JSON describes them."""
    words = ["nft", "-n", "-j", "list", "ruleset", rules.family_of(family)]
    try:
        found = json.loads(programs.need(context, words, _PACKAGE))["nftables"]
    except (ValueError, KeyError, TypeError) as problem:
        raise CommandExecutionError(f"nft's JSON can't be read: {problem}") from problem
    return list(found)


def _file(filename: Optional[str]) -> Path:
    path = Path(filename or _FILE)
    if not path.is_absolute():
        raise UsageError(f"{str(path)[:200]!r}: a file of saved rules needs an absolute path")
    return path / _IN_FOLDER if path.is_dir() else path


@function(reads=True)
def get_saved_rules(context: Context, conf_file: Optional[str] = None) -> List[str]:
    """Return the lines of the file of saved rules without comments and empty ones."""
    path = _file(conf_file)
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
    except OSError as problem:
        raise CommandExecutionError(f"cannot read {path}: {problem.strerror}") from problem
    return [line for line in lines if line.strip() and not line.strip().startswith("#")]


def _listing(context: Context) -> str:
    """Return the text of all rules for `nft -f`, which replaces those that are there."""
    text = programs.need(context, ["nft", "-s", "list", "ruleset"], _PACKAGE)
    return f"{_HEAD}{text}\n"


@function(reads=True)
def is_saved(context: Context, filename: Optional[str] = None) -> bool:
    """Return whether a file has exactly the present rules."""
    try:
        return _file(filename).read_text(encoding="utf-8") == _listing(context)
    except (OSError, UnicodeDecodeError):
        return False


@function()
def save(context: Context, filename: Optional[str] = None, family: str = "ipv4") -> str:
    """Save the rules of all families to a file, by default /etc/nftables; return the text.

    Raises:
        CommandExecutionError: the rules can't be listed, or the file can't be written.
    """
    from catena.modules.file.content import encode, write

    rules.family_of(family)
    path, text = _file(filename), _listing(context)
    try:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    except OSError as problem:
        raise CommandExecutionError(f"cannot make {path.parent}: {problem.strerror}") from problem
    write(path, encode(text), "0644")
    return text


@function(reads=True)
def get_rule_handle(
    context: Context,
    table: str = "filter",
    chain: Optional[str] = None,
    rule: Optional[str] = None,
    family: str = "ipv4",
) -> Answer:
    """Return {result, handle}: the number by which a rule can be deleted."""
    text = rules.checked(rule)
    answer, place = _place(context, table, chain, family)
    if place is None:
        return answer
    found = ruleset.find(place, text)
    if found is None:
        return _no(f"Could not find rule {rule}")
    return {"result": True, "handle": found.handle}


@function(reads=True)
def check(
    context: Context,
    table: str = "filter",
    chain: Optional[str] = None,
    rule: Optional[str] = None,
    family: str = "ipv4",
) -> Answer:
    """Return {result, comment}: whether a chain has a rule."""
    text = rules.checked(rule)
    answer, place = _place(context, table, chain, family)
    if place is None:
        return answer
    told = f"Rule {rule} in chain {chain} in table {table} in family {family}"
    if ruleset.find(place, text) is None:
        return _no(f"{told} does not exist")
    return _yes(f"{told} exists")


@function(reads=True)
def check_chain(
    context: Context, table: str = "filter", chain: Optional[str] = None, family: str = "ipv4"
) -> Answer:
    """Return {result, comment}: whether a table has a chain."""
    return _place(context, table, chain, family)[0]


@function(reads=True)
def check_table(context: Context, table: Optional[str] = None, family: str = "ipv4") -> Answer:
    """Return {result, comment}: whether there is a table."""
    if _table(context, str(table or ""), family) is None:
        return _no(f"Table {table} in family {family} does not exist")
    return _yes(f"Table {table} in family {family} exists")


@function()
def new_table(context: Context, table: str, family: str = "ipv4") -> Answer:
    """Create a table.

    Raises:
        CommandExecutionError: nft refuses.
    """
    answer = check_table(context, table, family)
    if answer["result"]:
        return answer
    _change(context, f"add table {rules.family_of(family)} {rules.named('Table', table)}")
    return _yes(f"Table {table} in family {family} created")


@function()
def delete_table(context: Context, table: str, family: str = "ipv4") -> Answer:
    """Delete a table with its chains and rules.

    Raises:
        CommandExecutionError: nft refuses.
    """
    answer = check_table(context, table, family)
    if not answer["result"]:
        return answer
    _change(context, f"delete table {rules.family_of(family)} {rules.named('Table', table)}")
    return _yes(f"Table {table} in family {family} deleted")


@function()
def new_chain(
    context: Context,
    table: str = "filter",
    chain: Optional[str] = None,
    table_type: Optional[str] = None,
    hook: Optional[str] = None,
    priority: Any = None,
    family: str = "ipv4",
) -> Answer:
    """Create a chain.

    Args:
        context: the host.
        table: name of the table, which has to be there.
        chain: name of the chain.
        table_type: filter, nat or route; with hook and priority, for a chain of the kernel's.
        hook: prerouting, input, forward, output, postrouting or ingress.
        priority: number or name; lower ones come first.
        family: ipv4, ipv6, inet, arp, bridge or netdev.

    Raises:
        CommandExecutionError: nft refuses.
        UsageError: an argument is missing.
    """
    answer, place = _place(context, table, chain, family)
    if place is not None:
        return _no(f"Chain {chain} in table {table} in family {family} already exists")
    if _table(context, table, family) is None:
        return answer
    base = ""
    if table_type or hook or priority is not None:
        if not table_type or not hook or priority is None:
            return _no("Table_type, hook, and priority required.")
        texts = [rules.text_of(one) for one in (table_type, hook, priority)]
        base = " {{ type {} hook {} priority {}; }}".format(*texts)
    _change(context, f"add chain {rules.family_of(family)} {table} {chain}{base}")
    return _yes(f"Chain {chain} in table {table} in family {family} created")


@function()
def delete_chain(
    context: Context, table: str = "filter", chain: Optional[str] = None, family: str = "ipv4"
) -> Answer:
    """Delete a chain without rules.

    Raises:
        CommandExecutionError: nft refuses.
    """
    answer, place = _place(context, table, chain, family)
    if place is None:
        return answer
    _change(context, f"delete chain {rules.family_of(family)} {table} {chain}")
    return _yes(f"Chain {chain} in table {table} in family {family} deleted")


def _added(
    context: Context, verb: str, table: str, chain: Any, rule: Any, family: str, where: str = ""
) -> Answer:
    text = rules.checked(rule)
    answer, place = _place(context, table, chain, family)
    if place is None:
        return answer
    if ruleset.find(place, text) is not None:
        return _no(f"Rule {rule} chain {chain} in table {table} in family {family} already exists")
    _change(context, f"{verb} rule {rules.family_of(family)} {table} {chain}{where} {text}")
    return _yes(f'Added rule "{rule}" chain {chain} in table {table} in family {family}.')


@function()
def append(
    context: Context,
    table: str = "filter",
    chain: Optional[str] = None,
    rule: Optional[str] = None,
    family: str = "ipv4",
) -> Answer:
    """Append a rule to a chain; result False if the chain has it.

    Raises:
        CommandExecutionError: nft refuses.
    """
    return _added(context, "add", table, chain, rule, family)


@function()
def insert(
    context: Context,
    table: str = "filter",
    chain: Optional[str] = None,
    position: Any = None,
    rule: Optional[str] = None,
    family: str = "ipv4",
) -> Answer:
    """Insert a rule at the beginning of a chain, or before the rule with a handle (*position*).

    Raises:
        CommandExecutionError: nft refuses.
    """
    where = f" position {_handle(position)}" if position else ""
    return _added(context, "insert", table, chain, rule, family, where)


def _handle(value: Any) -> str:
    if not str(value).isdigit():
        raise UsageError(f"position: {str(value)[:80]!r} is no handle of a rule")
    return str(value)


@function()
def delete(
    context: Context,
    table: str,
    chain: Optional[str] = None,
    position: Any = None,
    rule: Optional[str] = None,
    family: str = "ipv4",
) -> Answer:
    """Delete a rule by its text, or by its handle (*position*).

    Raises:
        CommandExecutionError: nft refuses.
    """
    if position and rule:
        raise UsageError("Only specify a position or a rule, not both")
    answer, place = _place(context, table, chain, family)
    if place is None:
        return answer
    if position:
        handle = _handle(position)
    else:
        found = ruleset.find(place, rules.checked(rule))
        if found is None:
            where = f"in chain {chain} in table {table} in family {family}"
            return _no(f"Rule {rule} {where} does not exist")
        handle = found.handle
    _change(context, f"delete rule {rules.family_of(family)} {table} {chain} handle {handle}")
    told = f'"{rule or position}" in chain {chain} in table {table} in family {family}'
    return _yes(f"Deleted rule {told}.")


@function()
def flush(
    context: Context, table: str = "filter", chain: str = "", family: str = "ipv4"
) -> Answer:
    """Remove all rules of a chain, or of all chains of a table.

    Raises:
        CommandExecutionError: nft refuses.
    """
    short = rules.family_of(family)
    if chain:
        answer, place = _place(context, table, chain, family)
        if place is None:
            return answer
        _change(context, f"flush chain {short} {table} {chain}")
        return _yes(f"Flushed rules from chain {chain} in table {table} in family {family}.")
    answer = check_table(context, table, family)
    if not answer["result"]:
        return answer
    _change(context, f"flush table {short} {table}")
    return _yes(f"Flushed rules from table {table} in family {family}.")


@function(reads=True)
def get_policy(
    context: Context, table: str = "filter", chain: Optional[str] = None, family: str = "ipv4"
) -> Optional[str]:
    """Return the policy of a chain; None if it has none or is not there."""
    place = _place(context, table, chain, family)[1]
    return place.policy if place is not None else None


@function(fails="bool")
def set_policy(
    context: Context,
    table: str = "filter",
    chain: Optional[str] = None,
    policy: Optional[str] = None,
    family: str = "ipv4",
) -> bool:
    """Set the policy of a chain with a hook, accept or drop; return whether there is such a chain.

    Raises:
        CommandExecutionError: nft refuses.
    """
    if not policy:
        raise UsageError("Policy needs to be specified")
    wanted = str(policy).lower()
    if wanted not in _POLICIES:
        raise UsageError(unknown("policy", wanted, _POLICIES, few=True))
    place = _place(context, table, chain, family)[1]
    if place is None or place.policy is None:
        return False
    where = f"{rules.family_of(family)} {table} {chain}"
    _change(context, f"add chain {where} {{ policy {wanted}; }}")
    return True
