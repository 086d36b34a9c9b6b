"""iptables.*: read and change the packet filter; iptables-save is read once per change."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass, field
from catena.core.patterns import lazy_pattern
from catena.core.plugins import function
from catena.core.suggest import unknown
from catena.modules.iptables import rules, saved
from catena.modules.shared import programs
from catena.modules.shared.arguments import listed, truth
from catena.modules.shared.generation import generation

#: Key in the run's scratch data: family -> (generation of the packet filter, snapshot).
_READ = "iptables"
_PROGRAMS = {"ipv4": "iptables", "ipv6": "ip6tables"}
_TABLES = ("filter", "nat", "mangle", "raw", "security")
_POLICIES = ("ACCEPT", "DROP")
_CHAIN = lazy_pattern(r"[A-Za-z0-9_.+:/][^\s!\x00-\x1f\"'\\]{0,28}\Z")
#: Files of saved rules, IPv4 and IPv6, by the grain os or os_family.
_FILES = {
    "Alpine": ("/etc/iptables/rules-save", "/etc/iptables/rules6-save"),
    "Arch": ("/etc/iptables/iptables.rules", "/etc/iptables/ip6tables.rules"),
    "Debian": ("/etc/iptables/rules.v4", "/etc/iptables/rules.v6"),
    "Gentoo": ("/var/lib/iptables/rules-save", "/var/lib/ip6tables/rules-save"),
    "NILinuxRT": ("/etc/natinst/share/iptables.conf", "/etc/natinst/share/ip6tables.conf"),
    "RedHat": ("/etc/sysconfig/iptables", "/etc/sysconfig/ip6tables"),
    "Suse": ("/etc/sysconfig/scripts/SuSEfirewall2-custom",) * 2,
    "Void": ("/etc/iptables/iptables.rules", "/etc/iptables/ip6tables.rules"),
}


@dataclass(frozen=True)
class _Snapshot:
    """The rules of one family as they were listed."""

    text: str
    tables: Dict[str, Dict[str, saved.SavedChain]]
    #: Answers of `iptables -C` about these rules: (table, chain, rule) -> whether it is there.
    answers: Dict[Tuple[str, str, str], bool] = field(default_factory=dict)


def _program(family: str) -> str:
    if family not in _PROGRAMS:
        raise UsageError(unknown("family", str(family), list(_PROGRAMS)))
    return _PROGRAMS[family]


def _table(name: Any) -> str:
    if name not in _TABLES:
        raise UsageError(unknown("table", str(name), list(_TABLES)))
    return str(name)


def _chain(name: Any) -> str:
    """Return *name* if it can be that of a chain.

    Raises:
        UsageError: it is missing or can't.
    """
    if name is None or name == "":
        raise UsageError("Chain needs to be specified")
    if not _CHAIN.match(str(name)):
        raise UsageError(f"{str(name)[:80]!r} can't be the name of a chain of iptables")
    return str(name)


def _words(rule: Any) -> List[str]:
    if not rule:
        raise UsageError("Rule needs to be specified")
    return rules.words(str(rule))


def _snapshot(context: Context, family: str) -> _Snapshot:
    """Return the present rules; list them only if they may have changed.

    Only iptables over nf_tables has a generation; the older one is asked each time.
    """
    program = _program(family)
    known = context.scratch.setdefault(_READ, {})
    modern = "nft" in Path(programs.find(program, "iptables")).resolve().name
    mark = generation() if modern else None
    if mark is not None and family in known and known[family][0] == mark:
        found: _Snapshot = known[family][1]
        return found
    text = programs.need(context, [f"{program}-save"], "iptables")
    made = _Snapshot(text, saved.parse(text, f"the output of {program}-save"))
    if mark is not None and generation() == mark:
        known[family] = mark, made
    return made


def _change(context: Context, family: str, words: Sequence[str]) -> None:
    """Run iptables.

    Raises:
        CommandExecutionError: it is not installed, or refuses.
    """
    programs.need(context, [_program(family), "--wait", *words], "iptables")


@function(reads=True)
def version(context: Context, family: str = "ipv4") -> str:
    """Return the version of iptables, as "v1.8.9"."""
    return programs.need(context, [_program(family), "--version"], "iptables").split()[1]


@function(reads=True)
def build_rule(
    context: Context,
    /,
    table: str = "filter",
    chain: Optional[str] = None,
    command: Optional[str] = None,
    position: Union[int, str] = "",
    full: Any = None,
    family: str = "ipv4",
    **kwargs: Any,
) -> str:
    """Return the options of a rule, or with *full* the whole command line.

    Args:
        context: the host.
        table: filter, nat, mangle, raw or security.
        chain: name of the chain.
        command: A, I, D or C, or a long one (append).
        position: number of the rule in the chain, for I and D.
        full: return the whole command line; needs table, chain and command.
        family: ipv4 or ipv6.
        kwargs: options of the rule by their long names; `connstate` is --state.

    Raises:
        UsageError: an argument makes no sense.
    """
    rule = rules.build(kwargs)
    if not truth(full):
        return rule
    if not command:
        raise UsageError("Command needs to be specified")
    path = programs.find(_program(family), "iptables")
    flag = "-" if len(str(command)) == 1 else "--"
    head = f"{path} --wait -t {_table(table)} {flag}{command} {_chain(chain)}"
    return f"{head} {position} {rule}"


@function(reads=True)
def get_rules(context: Context, family: str = "ipv4") -> Dict[str, Any]:
    """Return the rules of the kernel: {table: {chain: {policy, rules, counts}}}."""
    return saved.as_salt(_snapshot(context, family).tables)


def _file(context: Context, family: str, given: Any) -> Path:
    """Return the file of saved rules.

    Raises:
        CommandExecutionError: this system has no usual place for it.
    """
    _program(family)
    if given:
        path = Path(str(given))
        if not path.is_absolute():
            raise UsageError(f"{str(path)[:200]!r}: a file of saved rules needs an absolute path")
        return path
    for grain in ("os", "os_family"):
        names = _FILES.get(str(context.grains.get(grain)))
        if names:
            return Path(names[family == "ipv6"])
    raise CommandExecutionError(
        f"there is no usual file for saved rules on {context.grains.get('os')}; name one"
    )


def saved_tables(context: Context, family: str, filename: Any) -> saved.Tables:
    """Return the saved rules; those of a file that does not exist are empty.

    Raises:
        CommandExecutionError: the file can't be read.
    """
    path = _file(context, family, filename)
    try:
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
    except FileNotFoundError:
        return {}
    except OSError as problem:
        raise CommandExecutionError(f"cannot read {path}: {problem.strerror}") from problem
    return saved.parse(text, str(path))


@function(reads=True)
def get_saved_rules(
    context: Context, conf_file: Optional[str] = None, family: str = "ipv4"
) -> Dict[str, Any]:
    """Return the rules of a file, by default of the one that is loaded at boot."""
    return saved.as_salt(saved_tables(context, family, conf_file))


@function(reads=True)
def get_saved_policy(
    context: Context,
    table: str = "filter",
    chain: Optional[str] = None,
    conf_file: Optional[str] = None,
    family: str = "ipv4",
) -> Optional[str]:
    """Return the saved policy of a chain; None if the file has no such chain."""
    tables = saved_tables(context, family, conf_file)
    found = tables.get(_table(table), {}).get(_chain(chain))
    return found.policy if found else None


@function(reads=True)
def get_policy(
    context: Context, table: str = "filter", chain: Optional[str] = None, family: str = "ipv4"
) -> Optional[str]:
    """Return the present policy of a chain; None if there is no such chain."""
    found = _snapshot(context, family).tables.get(_table(table), {}).get(_chain(chain))
    return found.policy if found else None


@function()
def set_policy(
    context: Context,
    table: str = "filter",
    chain: Optional[str] = None,
    policy: Optional[str] = None,
    family: str = "ipv4",
) -> str:
    """Set the policy of a chain, ACCEPT or DROP; return "".

    Raises:
        CommandExecutionError: iptables refuses.
    """
    if not policy:
        raise UsageError("Policy needs to be specified")
    if policy not in _POLICIES:
        raise UsageError(unknown("policy", str(policy), _POLICIES, few=True))
    _change(context, family, ["-t", _table(table), "-P", _chain(chain), str(policy)])
    return ""


def _filters(context: Context) -> List[re.Pattern[str]]:
    """Return the patterns of the setting iptables.save_filters.

    Raises:
        UsageError: one is no regular expression.
    """
    found = []
    for text in listed(context.call("config.option", "iptables.save_filters", [])):
        try:
            found.append(re.compile(str(text)))
        except re.error as problem:
            raise UsageError(f"iptables.save_filters: {str(text)[:80]!r}: {problem}") from problem
    return found


@function(reads=True)
def is_saved(context: Context, filename: Optional[str] = None, family: str = "ipv4") -> bool:
    """Return whether a file has exactly the present rules and policies."""
    filters = _filters(context)
    present = saved.plain(_snapshot(context, family).tables, filters)
    return present == saved.plain(saved_tables(context, family, filename), filters)


@function()
def save(context: Context, filename: Optional[str] = None, family: str = "ipv4") -> str:
    """Save the present rules to a file, by default the one that is loaded at boot.

    Rules that match the setting iptables.save_filters are left out.

    Raises:
        CommandExecutionError: the rules can't be listed, or the file can't be written.
    """
    from catena.modules.file.content import encode, write

    path, filters = _file(context, family, filename), _filters(context)
    text = _snapshot(context, family).text
    kept = [line for line in text.splitlines() if not any(one.search(line) for one in filters)]
    try:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    except OSError as problem:
        raise CommandExecutionError(f"cannot make {path.parent}: {problem.strerror}") from problem
    write(path, encode("".join(f"{line}\n" for line in kept)), "0644")
    return f'Wrote 1 lines to "{path}"'


@function(reads=True)
def check(
    context: Context,
    table: str = "filter",
    chain: Optional[str] = None,
    rule: Optional[str] = None,
    family: str = "ipv4",
) -> bool:
    """Return whether a chain has a rule.

    Args:
        context: the host.
        table: filter, nat, mangle, raw or security.
        chain: name of the chain.
        rule: options in iptables' own words: "-p tcp --dport 22 -j ACCEPT".
        family: ipv4 or ipv6.

    Raises:
        CommandExecutionError: the rule makes no sense to iptables.
    """
    key = _table(table), _chain(chain), str(rule)
    words, snapshot = _words(rule), _snapshot(context, family)
    found = snapshot.tables.get(key[0], {}).get(key[1])
    if found is None:
        return False
    if key not in snapshot.answers:
        there = saved.contains(found, words)
        snapshot.answers[key] = there or _asked(context, family, key[0], key[1], words)
    return snapshot.answers[key]


def _asked(context: Context, family: str, table: str, chain: str, words: Sequence[str]) -> bool:
    """Let iptables compare a rule."""
    asked = [_program(family), "--wait", "-t", table, "-C", chain, *words]
    ran = programs.look(context, asked, "iptables")
    if ran.retcode in (0, 1):
        return ran.retcode == 0
    if "does not exist" in ran.stderr or "No chain/target/match" in ran.stderr:
        return False  # a chain to which the rule jumps is not there yet
    raise CommandExecutionError(f"{asked[0]}: {ran.stderr.strip() or ran.stdout.strip()}")


@function(reads=True)
def check_chain(
    context: Context, table: str = "filter", chain: Optional[str] = None, family: str = "ipv4"
) -> bool:
    """Return whether a table has a chain."""
    return _chain(chain) in _snapshot(context, family).tables.get(_table(table), {})


@function()
def new_chain(
    context: Context, table: str = "filter", chain: Optional[str] = None, family: str = "ipv4"
) -> bool:
    """Create a chain; return True.

    Raises:
        CommandExecutionError: iptables refuses, for example because it is there.
    """
    _change(context, family, ["-t", _table(table), "-N", _chain(chain)])
    return True


@function()
def delete_chain(
    context: Context, table: str = "filter", chain: Optional[str] = None, family: str = "ipv4"
) -> bool:
    """Delete an empty chain; return True.

    Raises:
        CommandExecutionError: iptables refuses.
    """
    _change(context, family, ["-t", _table(table), "-X", _chain(chain)])
    return True


@function()
def append(
    context: Context,
    table: str = "filter",
    chain: Optional[str] = None,
    rule: Optional[str] = None,
    family: str = "ipv4",
) -> bool:
    """Append a rule to a chain; return False if the chain has it.

    Raises:
        CommandExecutionError: iptables refuses.
    """
    words = _words(rule)
    if check(context, table, chain, rule, family):
        return False
    _change(context, family, ["-t", _table(table), "-A", _chain(chain), *words])
    return True


@function()
def insert(
    context: Context,
    table: str = "filter",
    chain: Optional[str] = None,
    position: Optional[int] = None,
    rule: Optional[str] = None,
    family: str = "ipv4",
) -> Union[str, bool]:
    """Insert a rule into a chain; return "", or False if the chain has it.

    Args:
        context: the host.
        table: filter, nat, mangle, raw or security.
        chain: name of the chain.
        position: number that the rule gets, from 1; -1 is before the last rule.
        rule: options in iptables' own words.
        family: ipv4 or ipv6.

    Raises:
        CommandExecutionError: iptables refuses.
    """
    words = _words(rule)
    if not position:
        raise UsageError("Position needs to be specified or use append (-A)")
    try:
        place = int(position)
    except (TypeError, ValueError):
        raise UsageError(f"position: {str(position)[:80]!r} is no number") from None
    if check(context, table, chain, rule, family):
        return False
    if place < 0:
        found = _snapshot(context, family).tables.get(_table(table), {}).get(_chain(chain))
        place = max(len(found.rules if found else ()) + place + 1, 1)
    _change(context, family, ["-t", _table(table), "-I", _chain(chain), str(place), *words])
    return ""


@function()
def delete(
    context: Context,
    table: str,
    chain: Optional[str] = None,
    position: Optional[int] = None,
    rule: Optional[str] = None,
    family: str = "ipv4",
) -> str:
    """Delete a rule by its options or by its number in the chain; return "".

    Raises:
        CommandExecutionError: iptables refuses, for example because there is no such rule.
    """
    if position and rule:
        raise UsageError("Only specify a position or a rule, not both")
    if position and not str(position).isdigit():
        raise UsageError(f"position: {str(position)[:80]!r} is no number")
    which = [str(position)] if position else _words(rule)
    _change(context, family, ["-t", _table(table), "-D", _chain(chain), *which])
    return ""


@function()
def flush(context: Context, table: str = "filter", chain: str = "", family: str = "ipv4") -> str:
    """Remove all rules of a chain, or of all chains of a table; return "".

    Raises:
        CommandExecutionError: iptables refuses.
    """
    which = [_chain(chain)] if chain else []
    _change(context, family, ["-t", _table(table), "-F", *which])
    return ""
