"""postgres_privileges.*: what roles of PostgreSQL may do with an object."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError
from catena.core.frozen import dataclass
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.postgres.psql import NoDatabaseError, remembering
from catena.modules.shared.arguments import listed
from catena.states.answers import done, failed, would
from catena.states.postgres.server import ServerOptions, attempt, taken


@dataclass(frozen=True)
class GrantOptions:
    """Arguments of the states besides the object, with Salt's names."""

    #: Names of privileges; none for a group.
    privileges: Any = None
    #: The role may grant them to others.
    grant_option: Optional[bool] = None
    #: Schema of a table, sequence or function.
    prepend: str = "public"


def _words(options: GrantOptions, server: ServerOptions) -> Dict[str, Any]:
    """Return the arguments of the functions of privileges."""
    names = ",".join(str(one) for one in listed(options.privileges)) or None
    return {"privileges": names, "prepend": options.prepend, **server.words()}


def _shown(object_name: str, object_type: str, words: Mapping[str, Any]) -> str:
    return str(object_name if str(object_type).lower() == "group" else words["privileges"])


@state(ahead=remembering)
def present(
    context: Context, /, name: str, object_name: str, object_type: str, **arguments: Any
) -> StateResult:
    """Make sure that a role holds privileges of an object, or is a member of a group.

    Args:
        context: the call's context.
        name: of the role.
        object_name: of the object; ALL stands for all tables, sequences or functions of a schema.
        object_type: table (also a view), sequence, function, schema, tablespace, language,
            database or group.
        arguments: privileges (a list; none for a group), grant_option, prepend (schema,
            "public"), maintenance_db (the database of the object), user (system user that runs
            psql), db_user, db_password, db_host, db_port.
    """
    options, server, warnings = taken(GrantOptions, arguments, "postgres_privileges.present")
    words = {**_words(options, server), "grant_option": options.grant_option}
    shown = _shown(object_name, object_type, words)
    expected = f"The privilege(s): {shown} are set to be granted to {name}"

    def work() -> StateResult:
        call = (str(name), str(object_name), object_type)
        try:
            if context.call("postgres.has_privileges", *call, **words):
                return done("The requested privilege(s) are already set")
        except NoDatabaseError:
            if not context.test:
                raise
        if context.test:
            return would(expected)
        try:
            context.call("postgres.privileges_grant", *call, **words)
        except CommandExecutionError as problem:
            return failed(f"Failed to grant privilege(s): {shown} to {name}: {problem}")
        told = f"The privilege(s): {shown} have been granted to {name}"
        return done(told, {str(name): "Present"})

    return attempt(context, work, expected, warnings)


@state(ahead=remembering)
def absent(
    context: Context, /, name: str, object_name: str, object_type: str, **arguments: Any
) -> StateResult:
    """Make sure that none of some privileges is granted to a role; arguments as of present."""
    options, server, warnings = taken(GrantOptions, arguments, "postgres_privileges.absent")
    words = _words(options, server)
    shown = _shown(object_name, object_type, words)
    expected = f"The privilege(s): {shown} are set to be revoked from {name}"

    def work() -> StateResult:
        call = (str(name), str(object_name), object_type)
        if not context.call("postgres.has_any_privilege", *call, **words):
            return done("The requested privilege(s) are not set so cannot be revoked")
        if context.test:
            return would(expected)
        try:
            context.call("postgres.privileges_revoke", *call, **words)
        except CommandExecutionError as problem:
            return failed(f"Failed to revoke privilege(s): {shown} from {name}: {problem}")
        told = f"The privilege(s): {shown} have been revoked from {name}"
        return done(told, {str(name): "Absent"})

    return attempt(context, work, expected, warnings)
