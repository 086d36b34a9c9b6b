"""Turn Salt's arguments of a rule into the words of iptables. Nothing here runs a program."""

from __future__ import annotations

import re
import shlex
from typing import Any, Dict, List, Mapping, Tuple

from catena.core.errors import UsageError
from catena.core.patterns import lazy_pattern

#: Options of targets: iptables accepts them only after the target. From iptables-extensions(8)
#: and xtables-addons(8), without "save", which is an argument of the states.
_TARGET_OPTIONS = frozenset(
    """
    add-set del-set map-set exist timeout
    checksum-fill set-class clustermac hash-init hashmode local-node new total-nodes
    and-mark mask nfmask ctmask or-mark restore-mark save-mark set-mark set-xmark xor-mark
    restore selctx ctevents expevents helper notrack zone zone-orig zone-reply
    to to-destination to-ports to-source persistent random random-fully nodst
    set-dscp set-dscp-class dst-pfx src-pfx ecn-tcp-remove hl-dec hl-inc hl-set
    hmark-dport-mask hmark-dst-prefix hmark-mod hmark-offset hmark-proto-mask hmark-rnd
    hmark-spi-mask hmark-sport-mask hmark-src-prefix hmark-tuple
    label led-always-blink led-delay led-trigger-id
    log-ip-options log-level log-prefix log-tcp-options log-tcp-sequence log-uid
    nflog-group nflog-prefix nflog-range nflog-size nflog-threshold
    queue-balance queue-bypass queue-cpu-fanout queue-num
    rateest-ewmalog rateest-interval rateest-name reject-with
    sack-perm mss timestamp wscale sack strip-options clamp-mss-to-pmtu set-mss
    and-tos or-tos set-tos xor-tos on-ip on-port tproxy-mark gateway ttl-dec ttl-inc ttl-set type
    ulog-cprange ulog-nlgroup ulog-prefix ulog-qthreshold
    to-port addr and-mask or-mask delude honeypot tarpit prefix reset reuse set-mac shift static
    tname ttl
    """.split()
)
#: Arguments of the states and functions that are no options of a rule.
_OWN = frozenset(("name", "state", "chain", "table", "save", "rules", "family"))
_KEY = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9_-]*\Z")
_NEGATED = lazy_pattern(r"(?:!\s*|not\s+)")
_NAMED_MATCHES = ("pknock", "quota2", "recent")
#: Maximum characters of a rule; the kernel's own limits are lower.
_LONGEST = 8192


class _Arguments:
    """The arguments of a rule that are not yet turned into words."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.left: Dict[str, Any] = {}
        for key, value in given.items():
            if key in _OWN or key.startswith("__"):
                continue
            if not _KEY.match(key):
                raise UsageError(f"{key[:80]!r} can't be an option of iptables")
            self.left["jump" if key == "target" else key] = value

    def option(self, key: str, flag: str) -> List[str]:
        """Take the argument *key*; return its words, or none."""
        if key not in self.left:
            return []
        negation, text = _negation(self.left.pop(key))
        return [f"{negation}{flag} {text}" if text else f"{negation}{flag}"]


def _negation(value: Any) -> Tuple[str, str]:
    """Return "! " or "", and the text of a value without its negation."""
    text = _text(value)
    found = _NEGATED.match(text)
    return ("! ", text[found.end() :]) if found else ("", text)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, (list, tuple)):
        return ",".join(_text(one) for one in value)
    if not isinstance(value, (str, int, float)):
        raise UsageError(f"an option of iptables can't be a {type(value).__name__}")
    text = str(value).strip()
    if any(mark in text for mark in "\0\r\n"):
        raise UsageError(f"{text[:80]!r}: an option of iptables can't have several lines")
    return text


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def build(given: Mapping[str, Any]) -> str:
    """Return the options of a rule in the order that iptables needs.

    Args:
        given: Salt's arguments: names of long options, and `connstate`, `if`, `of`, `dports`,
            `sports`, `jump` or `target`, `name_`. A value with "!" or "not " is negated.

    Raises:
        UsageError: an argument makes no sense.
    """
    arguments = _Arguments(given)
    parts = [*arguments.option("if", "-i"), *arguments.option("of", "-o")]
    parts += _matches(arguments)
    parts += _state(arguments, parts)
    parts += arguments.option("dport", "--dport") + arguments.option("sport", "--sport")
    parts += _multiport(arguments, parts)
    parts += _comment(arguments, parts)
    if arguments.left.get("set"):
        parts += arguments.option("set", "--match-set")
    after = _target(arguments)
    for key in list(arguments.left):
        parts += arguments.option(key, f"-{key}" if len(key) == 1 else f"--{key}")
    rule = " ".join(parts + after)
    if len(rule) > _LONGEST:
        raise UsageError(f"a rule has at most {_LONGEST} characters, this one has {len(rule)}")
    return rule


def _matches(arguments: _Arguments) -> List[str]:
    """Return the protocol and the matches (-m)."""
    left = arguments.left
    policy = left.get("match") == "policy"
    if "proto" in left and not policy:
        left["protocol"] = left.pop("proto")
    parts = arguments.option("protocol", "-p")
    given = left.pop("match", [])
    for match in given if isinstance(given, (list, tuple)) else _text(given).split(","):
        parts.append(f"-m {_text(match)}")
        if _text(match) in _NAMED_MATCHES:
            parts += arguments.option("name_", "--name")
    if policy:
        parts += arguments.option("proto", "--proto")
    sets = left.pop("match-set", [])
    for one in sets if isinstance(sets, (list, tuple)) else [sets]:
        negation, text = _negation(one)
        parts.append(f"-m set {negation}--match-set {text}")
    return parts


def _state(arguments: _Arguments, parts: List[str]) -> List[str]:
    if "connstate" not in arguments.left:
        return []
    match = [] if "-m state" in parts else ["-m state"]
    return match + arguments.option("connstate", "--state")


def _multiport(arguments: _Arguments, parts: List[str]) -> List[str]:
    found: List[str] = []
    for key in ("dports", "sports"):
        if key not in arguments.left:
            continue
        if not any(part.startswith(("-p ", "! -p ")) for part in parts):
            raise UsageError(f"{key} needs a protocol: add `protocol: tcp` or `protocol: udp`")
        if "-m multiport" not in [*parts, *found]:
            found.append("-m multiport")
        value = arguments.left.pop(key)
        each = value if isinstance(value, (list, tuple)) else [value]
        pairs = [_negation(one) for one in each]
        negation = "! " if any(mark for mark, _ in pairs) else ""
        found.append(f"{negation}--{key} {','.join(text for _, text in pairs)}")
    return found


def _comment(arguments: _Arguments, parts: List[str]) -> List[str]:
    if "comment" not in arguments.left:
        return []
    match = [] if "-m comment" in parts else ["-m comment"]
    return [*match, f"--comment {_quoted(_text(arguments.left.pop('comment')))}"]


def _target(arguments: _Arguments) -> List[str]:
    """Return the target and its options."""
    left, parts = arguments.left, []
    names = sorted(key for key in left if key in _TARGET_OPTIONS)
    for key in [key for key in ("j", "jump") if key in left] + names:
        text = _text(left.pop(key))
        flag = f"-{key}" if len(key) == 1 else f"--{key}"
        if re.search(r"\s", text):
            text = _quoted(text)
        parts.append(f"{flag} {text}" if text else flag)
    return parts


def words(rule: str) -> List[str]:
    """Return the words of a rule that is given as text.

    Raises:
        UsageError: a quotation mark is missing, or the text is no single line.
    """
    if any(mark in rule for mark in "\0\r\n"):
        raise UsageError("a rule of iptables can't have several lines")
    try:
        return shlex.split(rule)
    except ValueError as problem:
        raise UsageError(f"the rule {rule[:200]!r} can't be read: {problem}") from problem
