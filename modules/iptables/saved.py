"""Read what iptables-save prints, and compare rules with it. Nothing here runs a program."""

from __future__ import annotations

import shlex
from ipaddress import ip_network
from typing import Any, Dict, FrozenSet, Iterable, List, Mapping, Optional, Sequence, Tuple

from catena.core.errors import CommandExecutionError
from catena.core.frozen import dataclass, field, replace
from catena.core.patterns import lazy_pattern

_CHAIN = lazy_pattern(r":(\S+) (\S+)(?: \[(\d+):(\d+)\])?\Z")
_COUNTED = lazy_pattern(r"\[\d+:\d+\] ")

#: Long names of options by the short ones that iptables-save prints.
_LONG = {
    "-p": "protocol",
    "-s": "source",
    "-d": "destination",
    "-j": "jump",
    "-g": "goto",
    "-i": "in-interface",
    "-o": "out-interface",
    "-f": "fragment",
    "-m": "match",
}
#: Other names of options by the name that is compared.
_SAME = {
    "proto": "protocol",
    "src": "source",
    "dst": "destination",
    "source-port": "sport",
    "destination-port": "dport",
    "source-ports": "sports",
    "destination-ports": "dports",
    "j": "jump",
}
#: Keys of Salt's answers that differ from the option's name.
_SHOWN = {"sport": "source_port", "dport": "destination_port"}

Tables = Mapping[str, Mapping[str, "SavedChain"]]


@dataclass(frozen=True)
class SavedChain:
    """A chain of a table with its rules."""

    policy: str
    packets: str = "0"
    octets: str = "0"
    #: Rules in iptables' own words, without "-A CHAIN".
    rules: Tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class Option:
    """One option of a rule: `! --source 10.0.0.0/8`."""

    name: str
    values: Tuple[str, ...]
    negated: bool = False


def parse(text: str, what: str) -> Dict[str, Dict[str, SavedChain]]:
    """Return the chains of a saved text by table.

    Args:
        text: output of iptables-save, or a file for iptables-restore.
        what: source of the text, for errors.

    Raises:
        CommandExecutionError: a line can't be read, or the text is cut off.
    """
    tables: Dict[str, Dict[str, SavedChain]] = {}
    chains: Optional[Dict[str, SavedChain]] = None
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        if line.startswith("*"):
            chains = tables.setdefault(line[1:], {})
        elif chains is not None and line == "COMMIT":
            chains = None
        elif chains is None or not _into(chains, line):
            raise CommandExecutionError(
                f"{what}: line {number}: {line[:120]!r} can't be read as a saved rule"
            )
    if chains is not None:
        raise CommandExecutionError(f"{what} is cut off: the last table has no COMMIT")
    return tables


def _into(chains: Dict[str, SavedChain], line: str) -> bool:
    """Add a line to its chain; return whether it could be read."""
    found = _CHAIN.match(line)
    if found:
        name, policy, packets, octets = found.groups()
        chains[name] = SavedChain(policy, packets or "0", octets or "0")
        return True
    line = _COUNTED.sub("", line, count=1)
    parts = line.split(" ", 2)
    if parts[0] not in ("-A", "--append") or len(parts) < 2:
        return False
    chain = chains.get(parts[1], SavedChain("-"))
    rule = parts[2] if len(parts) > 2 else ""
    chains[parts[1]] = replace(chain, rules=(*chain.rules, rule))
    return True


def plain(tables: Tables, patterns: Sequence[Any] = ()) -> Dict[str, Any]:
    """Return what makes two saved texts equal: policies and rules, without counters.

    Args:
        tables: of a saved text.
        patterns: compiled; rules that one of them finds are left out.
    """
    return {
        table: {
            name: (
                chain.policy,
                tuple(
                    rule
                    for rule in chain.rules
                    if not any(one.search(f"-A {name} {rule}") for one in patterns)
                ),
            )
            for name, chain in chains.items()
        }
        for table, chains in tables.items()
    }


def options(words: Iterable[str]) -> List[Option]:
    """Return the options of a rule in their order."""
    found: List[Option] = []
    negated = False
    for word in words:
        if word == "!":
            negated = True
        elif word.startswith("-") and len(word) > 1 and not word[1].isdigit():
            name = _LONG.get(word, word.lstrip("-"))
            found.append(Option(_SAME.get(name, name), (), negated))
            negated = False
        elif found:
            last = found[-1]
            found[-1] = replace(last, values=(*last.values, word), negated=last.negated or negated)
            negated = False
    return found


def fingerprint(words: Sequence[str]) -> Optional[FrozenSet[Tuple[str, Tuple[str, ...], bool]]]:
    """Return what two spellings of one rule have in common; None if only iptables can compare it.

    Two equal fingerprints mean the same rule. Two different ones may still mean the same rule,
    for example if one has a host name.
    """
    found = options(words)
    protocol = next((one.values[0] for one in found if one.name == "protocol" and one.values), "")
    names = [one.name for one in found if one.name != "match"]
    if len(names) != len(set(names)):
        return None
    kept = []
    for one in found:
        if one.name == "match" and one.values == (protocol.lower(),):
            continue  # iptables-save names the protocol's own match for each port
        values = _plain_values(one)
        if not one.negated and (one.name, values) in _EVERYTHING:
            continue
        kept.append((one.name, values, one.negated))
    matches = [values for name, values, _ in kept if name == "match"]
    return frozenset(kept) if len(matches) == len(set(matches)) else None


#: Options without effect, which iptables-save leaves out.
_EVERYTHING = frozenset(
    [("protocol", ("all",))]
    + [(name, (net,)) for name in ("source", "destination") for net in ("0.0.0.0/0", "::/0")]
)


def _plain_values(option: Option) -> Tuple[str, ...]:
    values = option.values
    if option.name in ("source", "destination"):
        try:
            return tuple(str(ip_network(one, strict=False)) for one in values)
        except ValueError:
            return values
    if option.name in ("state", "ctstate"):
        return tuple(",".join(sorted(one.upper().split(","))) for one in values)
    return tuple(one.lower() for one in values) if option.name == "protocol" else values


def contains(chain: SavedChain, words: Sequence[str]) -> bool:
    """Return whether a chain surely has a rule; False also means that only iptables can tell."""
    wanted = fingerprint(words)
    return wanted is not None and any(
        wanted == fingerprint(shlex.split(rule)) for rule in chain.rules
    )


def as_salt(tables: Tables) -> Dict[str, Any]:
    """Return tables in the form of Salt's iptables.get_rules."""
    answer: Dict[str, Any] = {}
    for table, chains in tables.items():
        answer[table] = {}
        for name, chain in chains.items():
            rules = [_rule_as_salt(rule) for rule in chain.rules]
            answer[table][name] = {
                "policy": chain.policy,
                "packet count": chain.packets,
                "byte count": chain.octets,
                "rules": rules,
                "rules_comment": {one["comment"][0]: one for one in rules if "comment" in one},
            }
    return answer


def _rule_as_salt(rule: str) -> Dict[str, List[str]]:
    found: Dict[str, List[str]] = {}
    for one in options(shlex.split(rule)):
        value = " ".join((*(("!",) if one.negated else ()), *one.values))
        found.setdefault(_SHOWN.get(one.name, one.name), []).append(value)
    return found
