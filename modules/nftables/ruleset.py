"""Read what `nft list ruleset` prints, and compare rules with it. Nothing here runs a program."""

from __future__ import annotations

import re
from typing import Dict, List, Optional, Sequence, Tuple

from catena.core.errors import CommandExecutionError
from catena.core.frozen import dataclass, field
from catena.core.patterns import lazy_pattern

_TABLE = lazy_pattern(r"table (\S+) (\S+) \{(?: # handle (\d+))?\Z")
_CHAIN = lazy_pattern(r"chain (\S+) \{(?: # handle \d+)?\Z")
_HANDLE = lazy_pattern(r"(.*?) # handle (\d+)\Z")
_BASE = lazy_pattern(r"type \S+ hook \S+ ")
_POLICY = lazy_pattern(r"\bpolicy (\w+);")
_TOKEN = lazy_pattern(r'"[^"]*"|[{},]|[^\s{},"]+')
#: Words before whose value nft's listing has no "meta", whether it was given or not.
_META = "meta"


@dataclass(frozen=True)
class ListedRule:
    """A rule as nft lists it, and the number by which it is deleted."""

    text: str
    handle: str


@dataclass
class ListedChain:
    """A chain with its rules."""

    name: str
    #: "type filter hook input priority filter; policy accept;", or "" for a chain to jump to.
    base: str = ""
    rules: List[ListedRule] = field(default_factory=list)

    @property
    def policy(self) -> Optional[str]:
        """Return the policy; None for a chain to jump to."""
        found = _POLICY.search(self.base)
        return found.group(1) if found else None


@dataclass
class ListedTable:
    """A table with its chains."""

    family: str
    name: str
    handle: str = ""
    chains: Dict[str, ListedChain] = field(default_factory=dict)


Tables = Dict[Tuple[str, str], ListedTable]


def parse(text: str) -> Tables:
    """Return the tables of a listing with handles, by family and name.

    Raises:
        CommandExecutionError: the listing is cut off.
    """
    tables: Tables = {}
    table: Optional[ListedTable] = None
    chain: Optional[ListedChain] = None
    depth = 0
    for raw in text.splitlines():
        line = raw.strip()
        bare = re.sub(r'"[^"]*"', "", line)
        if depth == 0:
            table = _table(tables, line) or table
        elif depth == 1 and table is not None:
            found = _CHAIN.match(line)
            chain = ListedChain(found.group(1)) if found else None
            if chain is not None:
                table.chains[chain.name] = chain
        elif depth == 2 and chain is not None and line != "}":
            _into(chain, line)
        depth += bare.count("{") - bare.count("}")
    if depth:
        raise CommandExecutionError("the listing of nft is cut off: a brace is missing")
    return tables


def _table(tables: Tables, line: str) -> Optional[ListedTable]:
    found = _TABLE.match(line)
    if not found:
        return None
    made = ListedTable(found.group(1), found.group(2), found.group(3) or "")
    return tables.setdefault((made.family, made.name), made)


def _into(chain: ListedChain, line: str) -> None:
    if not line:
        return
    if _BASE.match(line) and not chain.rules:
        chain.base = line
        return
    found = _HANDLE.match(line)
    if found:
        chain.rules.append(ListedRule(found.group(1), found.group(2)))


def normal(rule: str) -> str:
    """Return a spelling that nft's listing of a rule has in common with what was given.

    Sets of one element are written without braces and larger ones sorted, "meta" and the quotes
    of single words are left out, and counters have no values.
    """
    tokens = [one for one in _TOKEN.findall(rule) if one != _META]
    found: List[str] = []
    place = 0
    while place < len(tokens):
        token = tokens[place]
        if token == "{" and "}" in tokens[place:]:
            end = tokens.index("}", place)
            found.append(_set(tokens[place + 1 : end]))
            place = end + 1
            continue
        if token == "counter":
            found.append(token)
            place += 5 if tokens[place + 1 : place + 2] == ["packets"] else 1
            continue
        found.append(_word(token))
        place += 1
    return _lists(found)


def _word(token: str) -> str:
    plain = token.strip('"')
    return plain if token.startswith('"') and plain and " " not in plain else token


def _set(tokens: Sequence[str]) -> str:
    elements = " ".join(_word(one) for one in tokens).split(",")
    texts = sorted({" ".join(one.split()) for one in elements if one.strip()})
    return texts[0] if len(texts) == 1 else "{" + ",".join(texts) + "}"


def _lists(words: Sequence[str]) -> str:
    """Join words; sort those that commas separate."""
    found: List[List[str]] = []
    joined = False
    for word in words:
        if word == ",":
            joined = True
        elif joined and found:
            found[-1].append(word)
            joined = False
        else:
            found.append([word])
    return " ".join(",".join(sorted(one)) for one in found)


def find(chain: ListedChain, rule: str) -> Optional[ListedRule]:
    """Return the first listed rule that is *rule*, or None."""
    wanted = normal(rule)
    return next((one for one in chain.rules if normal(one.text) == wanted), None)
