"""Turn Salt's arguments of a rule into nft's language. Nothing here runs a program."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping

from catena.core.errors import UsageError
from catena.core.patterns import lazy_pattern
from catena.core.suggest import unknown

#: nft's names of families by Salt's.
FAMILIES = {
    "ipv4": "ip",
    "ip4": "ip",
    "ip": "ip",
    "ipv6": "ip6",
    "ip6": "ip6",
    "inet": "inet",
    "arp": "arp",
    "bridge": "bridge",
    "netdev": "netdev",
}
#: Arguments of the states and functions that are no part of a rule. nft needs no names of matches.
_OWN = frozenset(("name", "state", "chain", "table", "save", "family", "match", "position"))
_KNOWN = (
    "if", "of", "proto", "protocol", "connstate", "icmp-type", "icmpv6-type", "pkttype",
    "counter", "saddr", "source", "daddr", "destination", "dport", "sport", "dports", "sports",
    "jump", "target", "j", "redirect-to", "to-port", "to-ports", "to-source", "to-destination",
    "reject-with", "comment",
)  # fmt: skip
#: Statements that end a rule; every other single word is the name of a chain.
_STATEMENTS = frozenset(
    "accept drop reject return continue queue log masquerade redirect snat dnat notrack".split()
)
_NAME = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_./-]{0,126}\Z")
_LONGEST = 8192


def family_of(name: Any) -> str:
    """Return nft's name of a family.

    Raises:
        UsageError: there is no such family.
    """
    if name not in FAMILIES:
        raise UsageError(unknown("family", str(name), list(FAMILIES)))
    return FAMILIES[name]


def named(kind: str, name: Any) -> str:
    """Return *name* if it can be that of a table or chain.

    Raises:
        UsageError: it is missing or can't.
    """
    if name is None or name == "":
        raise UsageError(f"{kind} needs to be specified")
    if not _NAME.match(str(name)):
        raise UsageError(f"{str(name)[:80]!r} can't be the name of a {kind.lower()} of nftables")
    return str(name)


def text_of(value: Any) -> str:
    """Return a part of a rule as text.

    Raises:
        UsageError: it has a character with which another statement could begin.
    """
    if isinstance(value, (list, tuple)):
        return ", ".join(text_of(one) for one in value)
    if not isinstance(value, (str, int)):
        raise UsageError(f"a part of a rule can't be a {type(value).__name__}")
    text = str(value).strip()
    if not text or any(mark in text for mark in ";\"'\\\n\r\0#$"):
        raise UsageError(f"{text[:80]!r} can't be a part of a rule of nftables")
    if text.count("{") != text.count("}"):
        raise UsageError(f"{text[:80]!r}: a brace is missing")
    return text


def checked(rule: Any) -> str:
    """Return a rule that is given as text.

    Raises:
        UsageError: it is missing, too long or holds more than one statement line.
    """
    if not rule:
        raise UsageError("Rule needs to be specified")
    text = str(rule).strip()
    if any(mark in text for mark in ";\n\r\0\\") or text.count('"') % 2:
        raise UsageError(f"{text[:200]!r} is not a single rule of nftables")
    if len(text) > _LONGEST:
        raise UsageError(f"a rule has at most {_LONGEST} characters, this one has {len(text)}")
    return text


def build(given: Mapping[str, Any], family: str) -> str:
    """Return a rule.

    Args:
        given: Salt's arguments: if, of, proto, connstate, source, dport, dports, jump …
        family: nft's name of the family.

    Raises:
        UsageError: an argument is unknown or makes no sense.
    """
    left: Dict[str, Any] = {}
    for key, value in given.items():
        if key in _OWN or key.startswith("__"):
            continue
        if key not in _KNOWN:
            raise UsageError(unknown("argument", key, _KNOWN))
        left["jump" if key in ("target", "j") else key] = value
    protocol = left.pop("proto", left.pop("protocol", None))
    parts = _matches(left, family) + _ports(left, protocol)
    if "comment" in left:
        comment = text_of(left.pop("comment"))
        return checked(" ".join([*parts, *_verdict(left), f'comment "{comment}"']))
    return checked(" ".join([*parts, *_verdict(left)]))


def _matches(left: Dict[str, Any], family: str) -> List[str]:
    parts = []
    for key, word in (("if", "meta iifname"), ("of", "meta oifname")):
        if key in left:
            parts.append(f"{word} {text_of(left.pop(key))}")
    for key, word in (
        ("connstate", "ct state"),
        ("icmp-type", "icmp type"),
        ("icmpv6-type", "icmpv6 type"),
        ("pkttype", "meta pkttype"),
    ):
        if key in left:
            value = text_of(left.pop(key))
            parts.append(f"{word} {{ {value.lower() if key == 'connstate' else value} }}")
    if left.pop("counter", False) is not False:
        parts.append("counter")
    for word, keys in (("saddr", ("saddr", "source")), ("daddr", ("daddr", "destination"))):
        values = [left.pop(key) for key in keys if key in left]
        if values:
            text = text_of(values[0])
            parts.append(f"{_layer(family, text)} {word} {text}")
    return parts


def _layer(family: str, address: str) -> str:
    """Return the protocol whose header has an address."""
    if family in ("ip", "ip6", "arp"):
        return family
    return "ip6" if ":" in address else "ip"


def _ports(left: Dict[str, Any], protocol: Any) -> List[str]:
    parts = []
    for key, word in (("dport", "dport"), ("sport", "sport"), ("dports", "dport"),
                      ("sports", "sport")):  # fmt: skip
        if key not in left:
            continue
        if not protocol:
            raise UsageError(f"{key} needs a protocol: add `proto: tcp` or `proto: udp`")
        value = left.pop(key)
        text = _sorted(value) if key.endswith("s") else text_of(value).replace(":", "-")
        parts.append(f"{text_of(protocol)} {word} {{ {text} }}")
    if protocol and not parts:
        parts.append(f"meta l4proto {text_of(protocol)}")
    return parts


def _sorted(value: Any) -> str:
    """Return several ports; numbers in falling order, as Salt shows them."""
    texts = [one.strip().replace(":", "-") for one in text_of(value).split(",")]
    if all(one.isdigit() for one in texts):
        texts = [str(number) for number in sorted(map(int, texts), reverse=True)]
    return ", ".join(texts)


def _verdict(left: Dict[str, Any]) -> List[str]:
    jump = text_of(left["jump"]) if "jump" in left else ""
    word = jump.lower() if jump.lower() in _STATEMENTS else jump
    to_port = left.get("redirect-to") or left.get("to-port")
    parts = []
    if (word == "redirect" and to_port) or (word == "reject" and "reject-with" in left):
        word = ""
    if word and " " not in word and word not in _STATEMENTS:
        word = f"jump {named('Chain', word)}"
    if word:
        parts.append(word)
    if to_port:
        parts.append(f"redirect to {_port(to_port)}")
    if "to-ports" in left:
        parts.append(f"to {_port(left['to-ports'])}")
    for key in ("to-source", "to-destination"):
        if key in left:
            parts.append(f"to {text_of(left[key])}")
    if "reject-with" in left:
        parts.append(f"reject with {text_of(left['reject-with'])}")
    return parts


def _port(value: Any) -> str:
    text = text_of(value)
    return text if text.startswith(":") else f":{text}"
