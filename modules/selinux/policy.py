"""selinux.fcontext_* and selinux.port_*: the contexts of files and ports in the policy."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from catena.core.context import Context
from catena.core.errors import UsageError
from catena.core.plugins import function
from catena.modules.selinux import parse
from catena.modules.shared import programs
from catena.modules.shared.arguments import truth

#: Seconds: the policy is compiled again; a large tree takes long to relabel.
_DEADLINE = 1800
_PACKAGE = "policycoreutils-python-utils"


@function(reads=True)
def filetype_id_to_string(context: Context, filetype: str = "a") -> str:
    """Return the type of files for a letter, as semanage lists it ("all files").

    Raises:
        UsageError: no such letter.
    """
    return parse.file_type(filetype)


def _rules(context: Context) -> List[parse.FileRule]:
    words = ["semanage", "fcontext", "--list"]
    return parse.file_rules(programs.need(context, words, _PACKAGE, timeout=_DEADLINE))


@function(reads=True)
def fcontext_get_policy(
    context: Context,
    name: str,
    filetype: Optional[str] = None,
    sel_type: Optional[str] = None,
    sel_user: Optional[str] = None,
    sel_level: Optional[str] = None,
) -> Optional[Dict[str, str]]:
    """Return filespec, filetype and the parts of the context of a rule; None if there is none.

    Args:
        context: the host.
        name: pattern of the paths, exactly as in the policy.
        filetype: only for this type of files: a, f, d, c, b, s, l or p.
        sel_type: only with this type.
        sel_user: only with this user.
        sel_level: only with this level.

    Raises:
        CommandExecutionError: semanage is not installed, or the policy can't be read.
        UsageError: no such type of files.
    """
    kind = parse.file_type(filetype) if filetype else None
    found = None
    for rule in _rules(context):
        pairs = (
            (name, rule.filespec),
            (kind, rule.filetype),
            (sel_type, rule.sel_type),
            (sel_user, rule.sel_user),
            (sel_level, rule.sel_level),
        )
        if all(wanted in (None, "", have) for wanted, have in pairs):
            found = rule  # a rule of this host comes after that of the distribution
    return None if found is None else dict(vars(found))


def rule_words(
    action: str, name: str, filetype: Any, sel_type: Any, sel_user: Any, sel_level: Any
) -> List[str]:
    """Return semanage's words to add, modify or delete a rule for files.

    Raises:
        UsageError: an argument makes no sense.
    """
    words = ["semanage", "fcontext", f"--{action}"]
    if filetype not in (None, "a"):
        parse.file_type(filetype)
        words += ["--ftype", str(filetype)]
    pairs = (("--type", sel_type), ("--seuser", sel_user), ("--range", sel_level))
    for option, value in pairs:
        if value is not None:
            words += [option, parse.checked(value, option[2:])]
    return [*words, parse.checked(name, "name")]


@function()
def fcontext_add_policy(
    context: Context,
    name: str,
    filetype: Optional[str] = None,
    sel_type: Optional[str] = None,
    sel_user: Optional[str] = None,
    sel_level: Optional[str] = None,
) -> bool:
    """Add a rule for files, or replace the one for the same pattern and type; return True.

    Raises:
        CommandExecutionError: semanage is not installed, or failed.
        UsageError: an argument makes no sense.
    """
    there = fcontext_get_policy(context, name, filetype or "a") is not None
    words = rule_words("modify" if there else "add", name, filetype, sel_type, sel_user, sel_level)
    programs.need(context, words, _PACKAGE, timeout=_DEADLINE)
    return True


@function()
def fcontext_delete_policy(
    context: Context,
    name: str,
    filetype: Optional[str] = None,
    sel_type: Optional[str] = None,
    sel_user: Optional[str] = None,
    sel_level: Optional[str] = None,
) -> bool:
    """Delete a rule for files; return True.

    Raises:
        CommandExecutionError: semanage is not installed, or failed; a rule of the distribution
            can't be deleted.
        UsageError: an argument makes no sense.
    """
    words = rule_words("delete", name, filetype, sel_type, sel_user, sel_level)
    programs.need(context, words, _PACKAGE, timeout=_DEADLINE)
    return True


def _restorecon(context: Context, options: List[str], name: str, recursive: Any) -> str:
    walk = ["-R"] if truth(recursive) else []
    words = ["restorecon", *options, *walk, parse.checked(name, "name")]
    return programs.need(context, words, "policycoreutils", timeout=_DEADLINE)


@function(reads=True)
def fcontext_policy_is_applied(context: Context, name: str, recursive: Any = False) -> str:
    """Return "" if files have the contexts of the policy, otherwise what restorecon would do.

    Raises:
        CommandExecutionError: restorecon is not installed, or failed.
        UsageError: *name* makes no sense.
    """
    return _restorecon(context, ["-n", "-v"], name, recursive).strip()


@function()
def fcontext_apply_policy(
    context: Context, name: str, recursive: Any = False
) -> Dict[str, Dict[str, Any]]:
    """Give files the contexts of the policy; return {"changes": {path: {old, new}}}.

    Raises:
        CommandExecutionError: restorecon is not installed, or failed.
        UsageError: *name* makes no sense.
    """
    return {"changes": parse.relabelled(_restorecon(context, ["-v", "-F"], name, recursive))}


@function(reads=True)
def port_get_policy(
    context: Context,
    name: str,
    sel_type: Optional[str] = None,
    protocol: Optional[str] = None,
    port: Any = None,
) -> Optional[Dict[str, str]]:
    """Return sel_type, protocol and all ports of the row that has a port; None if none has.

    Args:
        context: the host.
        name: PROTOCOL/PORT or PROTOCOL/FIRST-LAST.
        sel_type: only with this type.
        protocol: if the name is no port.
        port: if the name is no port.

    Raises:
        CommandExecutionError: semanage is not installed, or the policy can't be read.
        UsageError: neither the name nor the arguments are a port.
    """
    wanted, number = parse.port_of(name, protocol, port)
    words = ["semanage", "port", "--list"]
    rows = parse.port_rules(programs.need(context, words, _PACKAGE, timeout=_DEADLINE))
    for kind, proto, ports in rows:
        if proto == wanted and number in ports and sel_type in (None, "", kind):
            return {"sel_type": kind, "protocol": proto, "port": ", ".join(ports)}
    return None


def _change_port(
    context: Context, action: str, port: tuple[str, str], sel_type: Any, sel_range: Any = None
) -> bool:
    if action == "add" and not sel_type:
        raise UsageError("SELinux Type is required to add a policy")
    words = ["semanage", "port", f"--{action}", "--proto", port[0]]
    for option, value in (("--type", sel_type), ("--range", sel_range)):
        if value:
            words += [option, parse.checked(value, option[2:])]
    programs.need(context, [*words, port[1]], _PACKAGE, timeout=_DEADLINE)
    return True


@function()
def port_add_policy(
    context: Context,
    name: str,
    sel_type: Optional[str] = None,
    protocol: Optional[str] = None,
    port: Any = None,
    sel_range: Optional[str] = None,
) -> bool:
    """Give a port a type; return True. See port_get_policy for the arguments.

    Raises:
        CommandExecutionError: semanage is not installed, or failed.
        UsageError: an argument makes no sense.
    """
    return _change_port(context, "add", parse.port_of(name, protocol, port), sel_type, sel_range)


@function()
def port_modify_policy(
    context: Context,
    name: str,
    sel_type: Optional[str] = None,
    protocol: Optional[str] = None,
    port: Any = None,
    sel_range: Optional[str] = None,
) -> bool:
    """Give a port that the policy has another type; return True.

    Raises:
        CommandExecutionError: semanage is not installed, or failed.
        UsageError: an argument makes no sense.
    """
    return _change_port(
        context, "modify", parse.port_of(name, protocol, port), sel_type, sel_range
    )


@function()
def port_delete_policy(
    context: Context, name: str, protocol: Optional[str] = None, port: Any = None
) -> bool:
    """Take the type from a port; return True.

    Raises:
        CommandExecutionError: semanage is not installed, or failed.
        UsageError: neither the name nor the arguments are a port.
    """
    return _change_port(context, "delete", parse.port_of(name, protocol, port), None)
