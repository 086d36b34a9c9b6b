"""rabbitmq_user.*: users of RabbitMQ."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional

from catena.core.context import Context
from catena.core.errors import UsageError
from catena.core.frozen import dataclass
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.rabbitmq import remembering
from catena.modules.shared.arguments import mapped, truth
from catena.states.answers import done, would
from catena.states.rabbitmq.node import attempt

_KINDS = ("configure", "write", "read")


@dataclass(frozen=True)
class WantedUser:
    """A user as a state describes one."""

    name: str
    password: Optional[str]
    #: Set the password without a comparison; without a password, remove it.
    force: bool
    #: None leaves the tags as they are.
    tags: Optional[List[str]]
    #: By virtual host: regular expressions for configure, write and read.
    permissions: Dict[str, Dict[str, str]]
    runas: Optional[str]


def _permissions(perms: Any) -> Dict[str, Dict[str, str]]:
    """Return the permissions of [{vhost: [configure, write, read]}].

    Raises:
        UsageError: they have another form.
    """
    found = {}
    for vhost, three in mapped(perms).items():
        if not isinstance(three, (list, tuple)) or len(three) != len(_KINDS):
            raise UsageError(f"perms: {vhost} needs a list of configure, write and read")
        found[str(vhost)] = dict(zip(_KINDS, (str(one) for one in three)))
    return found


@state(ahead=remembering)
def present(
    context: Context,
    name: str,
    password: Optional[str] = None,
    force: bool = False,
    tags: Any = None,
    perms: Any = (),
    runas: Optional[str] = None,
) -> StateResult:
    """Make sure that a user exists with this password, these tags and permissions.

    Args:
        context: the call's context.
        name: of the user.
        password: of the user.
        force: set the password at each run; without a password, remove it.
        tags: a list, or separated by blanks; None leaves them as they are.
        perms: [{vhost: [configure, write, read]}], as regular expressions; other virtual hosts
            stay as they are.
        runas: system user that calls rabbitmqctl; default for root: "rabbitmq".
    """

    def work() -> StateResult:
        listed = tags.split() if isinstance(tags, str) else tags
        labels = None if listed is None else [str(one) for one in listed]
        wanted = WantedUser(
            name, password, truth(force), labels, _permissions(list(perms or ())), runas
        )
        return _present(context, wanted)

    return attempt(context, work, f"User '{name}' is set to be created.")


def _present(context: Context, wanted: WantedUser) -> StateResult:
    name, runas = wanted.name, wanted.runas
    users = context.call("rabbitmq.list_users", runas=runas)
    changes: Dict[str, Any] = {}
    if name not in users:
        changes["user"] = {"old": "", "new": name}
        if context.test:
            return would(f"User '{name}' is set to be created.", changes)
        context.call("rabbitmq.add_user", name, wanted.password, runas=runas)
    else:
        changes.update(_set_password(context, wanted))
    changes.update(_set_tags(context, wanted, users.get(name, [])))
    if wanted.permissions:
        changes.update(_set_permissions(context, wanted))
    if not changes:
        asked = wanted.force or wanted.tags or wanted.permissions
        if asked:
            return done(f"'{name}' is already in the desired state.")
        return done(f"User '{name}' is already present.")
    if context.test:
        return would(f"Configuration for '{name}' will change.", changes)
    return done(f"'{name}' was configured.", changes)


def _set_password(context: Context, wanted: WantedUser) -> Dict[str, Any]:
    """Set or remove the password of an existing user, if needed; return the changes."""
    words = {"runas": wanted.runas}
    if wanted.password is None:
        if not wanted.force:
            return {}
        if not context.test:
            context.call("rabbitmq.clear_password", wanted.name, **words)
        return {"password": {"old": "Removed password.", "new": ""}}
    call = (wanted.name, wanted.password)
    if not wanted.force and context.call("rabbitmq.check_password", *call, **words):
        return {}
    if not context.test:
        context.call("rabbitmq.change_password", *call, **words)
    return {"password": {"old": "", "new": "Set password."}}


def _set_tags(context: Context, wanted: WantedUser, found: List[str]) -> Dict[str, Any]:
    if wanted.tags is None or set(wanted.tags) == set(found):
        return {}
    if not context.test:
        context.call("rabbitmq.set_user_tags", wanted.name, wanted.tags, runas=wanted.runas)
    return {"tags": {"old": found, "new": wanted.tags}}


def _set_permissions(context: Context, wanted: WantedUser) -> Dict[str, Any]:
    words = {"runas": wanted.runas}
    found: Mapping[str, Any] = context.call("rabbitmq.list_user_permissions", wanted.name, **words)
    new = {vhost: one for vhost, one in wanted.permissions.items() if found.get(vhost) != one}
    if not new:
        return {}
    if not context.test:
        for vhost, one in new.items():
            context.call("rabbitmq.set_permissions", vhost, wanted.name, *one.values(), **words)
    old = {vhost: found[vhost] for vhost in new if vhost in found}
    return {"perms": {"old": old, "new": new} if old else {"new": new}}


@state(ahead=remembering)
def absent(context: Context, name: str, runas: Optional[str] = None) -> StateResult:
    """Make sure that a user does not exist.

    Args:
        context: the call's context.
        name: of the user.
        runas: as of present.
    """
    expected = f"The user '{name}' will be removed."

    def work() -> StateResult:
        if not context.call("rabbitmq.user_exists", name, runas=runas):
            return done(f"The user '{name}' is not present.")
        changes = {"name": {"old": name, "new": ""}}
        if context.test:
            return would(expected, changes)
        context.call("rabbitmq.delete_user", name, runas=runas)
        return done(f"The user '{name}' was removed.", changes)

    return attempt(context, work, expected)
