"""rabbitmq_policy.*: policies of a virtual host of RabbitMQ."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Mapping, Optional

from catena.core.context import Context
from catena.core.errors import UsageError
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.rabbitmq import remembering
from catena.states.answers import done, would
from catena.states.rabbitmq.node import attempt


def _definition(given: Any) -> Any:
    """Return a definition, given as JSON or as a mapping.

    Raises:
        UsageError: it is neither.
    """
    if isinstance(given, Mapping):
        return dict(given)
    try:
        found = json.loads(str(given))
    except ValueError as problem:
        raise UsageError(f"definition: this is no JSON: {problem}") from problem
    if not isinstance(found, dict):
        raise UsageError("definition: must be a JSON object")
    return found


def _updates(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> List[str]:
    """Return Salt's words for what differs."""
    updates = []
    if found["pattern"] != wanted["pattern"]:
        updates.append("Pattern")
    if _definition(found["definition"]) != wanted["definition"]:
        updates.append("Definition")
    if wanted["apply_to"] and found["apply_to"] != wanted["apply_to"]:
        updates.append("Applyto")
    if int(found["priority"]) != wanted["priority"]:
        updates.append("Priority")
    return updates


@state(ahead=remembering)
def present(
    context: Context,
    name: str,
    pattern: str,
    definition: Any,
    priority: int = 0,
    vhost: str = "/",
    runas: Optional[str] = None,
    apply_to: Optional[str] = None,
) -> StateResult:
    """Make sure that a virtual host has a policy.

    Args:
        context: the call's context.
        name: of the policy.
        pattern: regular expression for names of queues and exchanges.
        definition: JSON, as {"max-length": 5}, or a mapping.
        priority: a number.
        vhost: virtual host.
        runas: system user that calls rabbitmqctl; default for root: "rabbitmq".
        apply_to: queues, exchanges or all; None leaves it as it is.
    """
    given = (pattern, definition, priority, apply_to)
    return attempt(
        context,
        lambda: _set(context, name, _wanted(*given), vhost, runas),
        f"Policy {vhost} {name} is set to be created",
    )


def _wanted(
    pattern: str, definition: Any, priority: int, apply_to: Optional[str]
) -> Dict[str, Any]:
    return {
        "pattern": str(pattern),
        "definition": _definition(definition),
        "apply_to": apply_to,
        "priority": int(priority),
    }


def _set(
    context: Context, name: str, wanted: Mapping[str, Any], vhost: str, runas: Optional[str]
) -> StateResult:
    found = context.call("rabbitmq.list_policies", vhost=vhost, runas=runas)
    old = found.get(vhost, {}).get(name)
    updates = _updates(old, wanted) if old else []
    if old and not updates:
        return done(f"Policy {vhost} {name} is already present")
    changes = {"old": old, "new": updates} if old else {"old": {}, "new": name}
    if context.test:
        verb = "updated" if old else "created"
        return would(f"Policy {vhost} {name} is set to be {verb}", changes)
    kept = wanted["apply_to"] or (old or {}).get("apply_to")
    text = json.dumps(wanted["definition"])
    words = {"priority": wanted["priority"], "runas": runas, "apply_to": kept}
    made = context.call("rabbitmq.set_policy", vhost, name, wanted["pattern"], text, **words)
    return done(made["Set"], changes)


@state(ahead=remembering)
def absent(
    context: Context, name: str, vhost: str = "/", runas: Optional[str] = None
) -> StateResult:
    """Make sure that a virtual host lacks a policy.

    Args:
        context: the call's context.
        name: of the policy.
        vhost: virtual host.
        runas: as of present.
    """
    expected = f"Policy '{vhost} {name}' will be removed."

    def work() -> StateResult:
        if not context.call("rabbitmq.policy_exists", vhost, name, runas=runas):
            return done(f"Policy '{vhost} {name}' is not present.")
        changes = {"new": "", "old": name}
        if context.test:
            return would(expected, changes)
        context.call("rabbitmq.delete_policy", vhost, name, runas=runas)
        return done("Deleted", changes)

    return attempt(context, work, expected)
