"""The reactions that a rendered reactor SLS asks for, as records.

Both of Salt's spellings are read (`semantics/salt-events.md` section 2):

    new:  id: {local.test.arg: [{tgt: 'm*'}, {args: [{x: 1}]}]}
    old:  id: {cmd.test.arg:   [{tgt: 'm*'}, {arg: [1, 'k=v']}, {kwarg: {z: 3}}]}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from catena.core.errors import RenderError
from catena.core.suggest import unknown


class ReactionKind(StrEnum):
    """Where a reaction runs."""

    local = "local"  #: a job on minions
    runner = "runner"  #: a function of the master
    wheel = "wheel"  #: key management on the master
    caller = "caller"  #: an execution function on the master's own host


#: Prefix of a function -> kind; `cmd` is Salt's old name of `local`.
_KINDS = {**{kind.value: kind for kind in ReactionKind}, "cmd": ReactionKind.local}
#: Keys of an entry that are no arguments; any other key of an old-style runner entry is a keyword
#: argument.
_PLACING = frozenset({"tgt", "tgt_type", "expr_form", "arg", "kwarg", "args", "metadata", "ret",
                      "order", "timeout", "queue", "user"})  # fmt: skip


@dataclass(frozen=True)
class Reaction:
    """One function call that an event causes."""

    #: Id of the entry in the SLS file.
    id: str
    kind: ReactionKind
    fun: str
    tgt: str = ""
    tgt_type: str = "glob"
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    #: Position in the file's order: "first" is -inf, "last" is inf, and 10000 if none is given.
    #: Reactions with the same rank keep the order of the file.
    rank: float = 10000.0


def parse(data: Any, file: str) -> list[Reaction]:
    """Return the reactions of a rendered reactor SLS, in the order in which they run.

    Raises:
        RenderError: the file is no mapping of ids, or an entry is invalid; the message names file
            and id.
    """
    if data is None:
        return []
    if not isinstance(data, Mapping):
        raise RenderError(f"{file}: a reactor file is a mapping of ids, not {type(data).__name__}")
    found: list[Reaction] = []
    for entry_id, body in data.items():
        where = f"{file}: {entry_id}"
        if not isinstance(body, Mapping) or not body:
            raise RenderError(f"{where}: expected one of {', '.join(_KINDS)} with a function")
        found += [_reaction(str(entry_id), str(n), items, where) for n, items in body.items()]
    return sorted(found, key=lambda reaction: reaction.rank)


def _reaction(entry_id: str, name: str, items: Any, where: str) -> Reaction:
    prefix, _, fun = name.partition(".")
    if prefix not in _KINDS:
        raise RenderError(f"{where}: {unknown('reaction type', prefix, _KINDS)}")
    fields = _fields(items, where)
    if "." not in fun:
        # Salt does not accept `local: [- fun: test.ping]` either.
        raise RenderError(f"{where}: {name!r} names no function, as in {prefix}.test.ping")
    kind = _KINDS[prefix]
    if kind is ReactionKind.local and not fields.get("tgt"):
        raise RenderError(f"{where}: {name} needs tgt: which minions")
    args, kwargs = _arguments(kind, fields, where)
    return Reaction(
        id=entry_id,
        kind=kind,
        fun=fun,
        tgt=_target(fields.get("tgt", "")),
        tgt_type=str(fields.get("tgt_type") or fields.get("expr_form") or "glob"),
        args=args,
        kwargs=kwargs,
        metadata=dict(fields.get("metadata") or {}),
        rank=_rank(fields.get("order"), where),
    )


def _fields(items: Any, where: str) -> dict[str, Any]:
    if items is None:
        return {}
    if isinstance(items, Mapping):
        return dict(items)
    if not isinstance(items, Sequence) or isinstance(items, str):
        raise RenderError(f"{where}: expected a list of `- key: value`")
    fields: dict[str, Any] = {}
    for item in items:
        if not isinstance(item, Mapping) or len(item) != 1:
            raise RenderError(f"{where}: each item is one `key: value`, not {item!r}")
        fields.update(item)
    return fields


def _target(value: Any) -> str:
    return ",".join(str(part) for part in value) if isinstance(value, list) else str(value)


def _arguments(
    kind: ReactionKind, fields: Mapping[str, Any], where: str
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the positional and keyword arguments of an entry in either spelling."""
    if "args" in fields:
        return (), _new_style(fields["args"], where)
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    given = fields.get("arg") or []
    for item in given if isinstance(given, list) else [given]:
        key, sign, text = item.partition("=") if isinstance(item, str) else ("", "", "")
        if sign and key.isidentifier():
            keywords[key] = text
        else:
            positional.append(item)
    keywords.update(fields.get("kwarg") or {})
    if kind is not ReactionKind.local:
        keywords.update({key: fields[key] for key in fields if key not in _PLACING})
    return tuple(positional), keywords


def _new_style(args: Any, where: str) -> dict[str, Any]:
    if isinstance(args, Mapping):
        return dict(args)
    if not isinstance(args, list):
        raise RenderError(f"{where}: args is a list of `- key: value`")
    keywords: dict[str, Any] = {}
    for item in args:
        # As in Salt, a bare word is a keyword without a value.
        if not isinstance(item, Mapping) and not str(item).isidentifier():
            raise RenderError(
                f"{where}: args names its values, as in `- name: value`; {item!r} goes below arg"
            )
        keywords.update(item if isinstance(item, Mapping) else {str(item): None})
    return keywords


def _rank(order: Any, where: str) -> float:
    if order is None:
        return 10000.0
    if order in ("first", "last"):
        return float("-inf") if order == "first" else float("inf")
    if isinstance(order, (int, float)) and not isinstance(order, bool):
        return float(order)
    raise RenderError(f"{where}: order is a number, first or last, not {order!r}")
