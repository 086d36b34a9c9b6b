"""docker_container.*: containers of docker or podman."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.docker.containers import state_of
from catena.modules.docker.options import LABEL, creation
from catena.modules.shared.arguments import split, truth
from catena.states.answers import done, failed, would

_REFUSALS = (CommandExecutionError, UsageError)


@dataclass(frozen=True)
class _Handling:
    """Arguments of docker_container.running that are no options of the container."""

    force: Any = False
    #: "force", or a signal that a watch requisite sends.
    watch_action: Any = "force"
    start: Any = True
    #: Seconds until a replaced container is killed.
    shutdown_timeout: Any = None
    send_signal: Any = False


@dataclass(frozen=True)
class _Present:
    """A container as it is before the state."""

    id: str
    image: str
    state: str
    digest: str


def _sentence(parts: Sequence[str]) -> str:
    return ". ".join(parts) + ("." if len(parts) > 1 else "")


def _present(context: Context, name: str) -> Optional[_Present]:
    if not context.call("docker.exists", name):
        return None
    found = context.call("docker.inspect_container", name)
    labels = (found.get("Config") or {}).get("Labels") or {}
    image = str(found.get("Image", "")).partition("sha256:")[2] or str(found.get("Image", ""))
    return _Present(str(found["Id"]), image, state_of(found), str(labels.get(LABEL, "")))


def _image_id(context: Context, image: str) -> str:
    """Return the id of an image without its prefix; "" if it is not there."""
    found = context.call("docker.resolve_image_id", image)
    return str(found or "").partition("sha256:")[2] or str(found or "")


@state()
def running(
    context: Context, /, name: str, image: Optional[str] = None, **arguments: Any
) -> StateResult:
    """Make sure that a container with this configuration exists and runs.

    A container is replaced if its image has changed, or if the arguments are not those with which
    it was created: a label holds their digest.

    Args:
        context: the call's context.
        name: of the container.
        image: name of its image, which is pulled if it is not there.
        arguments: command, environment, binds, port_bindings, network_mode, networks, labels,
            restart_policy, user, working_dir, privileged and other options with Salt's names;
            force (replace it anyway), start, shutdown_timeout in seconds, watch_action ("force"
            or a signal).
    """
    if not image:
        return failed("The 'image' argument is required")
    given, options = split(_Handling, arguments)
    try:
        return _running(context, str(name), str(image), given, options)
    except _REFUSALS as problem:
        return failed(str(problem))


def _running(
    context: Context, name: str, image: str, given: _Handling, options: Mapping[str, Any]
) -> StateResult:
    digest = creation(options).digest()
    present, wanted = _present(context, name), _image_id(context, image)
    changed = present is not None and (present.image != wanted or not wanted)
    replaces = present is None or changed or present.digest != digest or truth(given.force)
    if context.test:
        return _would(name, image, given, present, replaces, wanted)
    if not wanted:
        context.call("docker.pull", image)
        wanted = _image_id(context, image)
        changed = present is not None and present.image != wanted
        replaces = replaces and (
            present is None or changed or present.digest != digest or truth(given.force)
        )
    changes: Dict[str, Any] = {}
    comments: List[str] = []
    if replaces:
        _replace(context, name, image, given, options, present, changes, comments)
    elif truth(given.send_signal):
        context.call("docker.signal", name, given.watch_action)
        changes["signal"] = given.watch_action
        comments.append(f"Sent signal {given.watch_action} to container")
    else:
        comments.append(f"Container '{name}' is already configured as specified")
    if present is not None and changed:
        changes["image"] = {"old": present.image, "new": wanted}
        comments.append("Container has a new image")
    return _started(context, name, given, present, changes, comments)


def _would(
    name: str,
    image: str,
    given: _Handling,
    present: Optional[_Present],
    replaces: bool,
    wanted: str,
) -> StateResult:
    """Return the result of test mode."""
    comments: List[str] = []
    changes: Dict[str, Any] = {}
    if not wanted:
        comments.append(f"Image '{image}' would be pulled")
    if replaces:
        verb = "created" if present is None else "replaced"
        comments.append(f"Container '{name}' would be {verb}")
        if present is not None and present.image != wanted:
            changes["image"] = {"old": present.image, "new": wanted or image}
        if truth(given.force):
            changes["forced_update"] = True
    elif truth(given.send_signal):
        comments.append(f"Signal {given.watch_action} would be sent to container")
    if truth(given.start) and (replaces or (present and present.state != "running")):
        comments.append("Container would be started")
    if not comments:
        return done(f"Container '{name}' is already configured as specified")
    return would(_sentence(comments), changes)


def _replace(
    context: Context,
    name: str,
    image: str,
    given: _Handling,
    options: Mapping[str, Any],
    present: Optional[_Present],
    changes: Dict[str, Any],
    comments: List[str],
) -> None:
    """Create the container; one with its name is removed once the new one could be created."""
    if present is None:
        made = context.call("docker.create", image, name=name, **options)
        changes["container_id"] = {"added": made["Id"]}
        comments.append(f"Created container '{name}'")
        return
    made = context.call("docker.create", image, **options)
    try:
        removed = context.call("docker.rm", name, stop=True, timeout=given.shutdown_timeout)
    except CommandExecutionError:
        context.call("docker.rm", made["Name"])
        raise
    context.call("docker.rename", made["Name"], name)
    changes["container_id"] = {"removed": removed, "added": made["Id"]}
    comments.append(f"Replaced container '{name}'")


def _started(
    context: Context,
    name: str,
    given: _Handling,
    present: Optional[_Present],
    changes: Dict[str, Any],
    comments: List[str],
) -> StateResult:
    """Start the container if it has to run; return the state's result."""
    before = present.state if present is not None else None
    after = context.call("docker.state", name)
    if truth(given.start) and after != "running":
        verb = "docker.unpause" if after == "paused" else "docker.start"
        try:
            after = context.call(verb, name)["state"]["new"]
        except CommandExecutionError as problem:
            comments.append(f"Failed to start container '{name}': '{problem}'")
            return failed(_sentence(comments), changes)
    if before != after:
        changes["state"] = {"old": before, "new": after}
        if before is not None:
            comments.append(f"State changed from '{before}' to '{after}'")
    if truth(given.start) and after != "running":
        return failed(_sentence([*comments, "Container is not running"]), changes)
    return done(_sentence(comments), changes)


@state()
def stopped(
    context: Context,
    name: Optional[str] = None,
    containers: Optional[Sequence[str]] = None,
    shutdown_timeout: Any = None,
    unpause: Any = False,
    error_on_absent: Any = True,
) -> StateResult:
    """Make sure that containers do not run.

    Args:
        context: the call's context.
        name: of a container.
        containers: several names, instead.
        shutdown_timeout: seconds until one is killed.
        unpause: continue a paused one, to stop it.
        error_on_absent: fail if one does not exist.
    """
    if containers is not None and not isinstance(containers, (list, tuple)):
        return failed("containers must be a list")
    names = [str(one) for one in containers or ([name] if name else [])]
    if not names:
        return failed("One of 'name' and 'containers' must be provided")
    try:
        found = _by_state(context, names)
        trouble = _in_the_way(found, truth(error_on_absent), truth(unpause))
        if trouble:
            return failed(trouble)
        to_stop = [*found.get("running", ()), *found.get("paused", ())]
        if not to_stop:
            return done(_none_runs(names, bool(found.get("absent"))))
        if context.test:
            return would(f"The following container(s) will be stopped: {', '.join(to_stop)}")
        return _stop(context, to_stop, shutdown_timeout, unpause)
    except _REFUSALS as problem:
        return failed(str(problem))


def _in_the_way(found: Mapping[str, Sequence[str]], all_exist: bool, unpause: bool) -> str:
    """Return why containers can't be stopped, or ""."""
    trouble = []
    if all_exist and found.get("absent"):
        missing = ", ".join(found["absent"])
        trouble.append(f"The following container(s) are absent: {missing}")
    if not unpause and found.get("paused"):
        trouble.append(f"The following container(s) are paused: {', '.join(found['paused'])}")
    return ". ".join(trouble)


def _none_runs(names: Sequence[str], absent_too: bool) -> str:
    subject = "All specified containers are"
    if len(names) == 1:
        subject = f"Container '{names[0]}' is"
    return f"{subject} {'absent or ' if absent_too else ''}not running"


def _by_state(context: Context, names: Sequence[str]) -> Dict[str, List[str]]:
    found: Dict[str, List[str]] = {}
    for one in names:
        there = context.call("docker.exists", one)
        key = context.call("docker.state", one) if there else "absent"
        found.setdefault(key, []).append(one)
    return found


def _stop(context: Context, names: Sequence[str], timeout: Any, unpause: Any) -> StateResult:
    changes: Dict[str, Any] = {}
    errors = []
    for one in names:
        try:
            changes[one] = context.call("docker.stop", one, timeout=timeout, unpause=unpause)
        except CommandExecutionError as problem:
            errors.append(f"Failed to stop container '{one}': {problem}")
    if errors:
        return failed("; ".join(errors), changes)
    return done(f"The following container(s) were stopped: {', '.join(names)}", changes)


@state()
def absent(context: Context, name: str, force: Any = False) -> StateResult:
    """Make sure that a container does not exist.

    Args:
        context: the call's context.
        name: of the container.
        force: kill it if it runs; otherwise the state fails.
    """
    try:
        if not context.call("docker.exists", name):
            return done(f"Container '{name}' does not exist")
        stopped_ = context.call("docker.state", name) == "stopped"
        if not stopped_ and not truth(force):
            return failed("Container is running, set force to True to forcibly remove it")
        if context.test:
            return would(f"Container '{name}' will be removed")
        removed = context.call("docker.rm", name, force=truth(force))
    except _REFUSALS as problem:
        return failed(f"Failed to remove container '{name}': {problem}")
    how = "Successfully" if stopped_ else "Forcibly"
    return done(f"{how} removed container '{name}'", {"removed": removed})


@state()
def mod_watch(
    context: Context, /, name: str, sfun: str = "running", **arguments: Any
) -> StateResult:
    """Replace a container or send it a signal (watch_action), or stop it: something changed."""
    given = {key: value for key, value in arguments.items() if not key.startswith("__")}
    if sfun == "running":
        by_signal = given.get("watch_action", "force") != "force"
        return running(context, name, **{**given, "send_signal": by_signal,
                                         "force": not by_signal})  # fmt: skip
    if sfun == "stopped":
        return stopped(context, name, **given)
    return failed(f"watch requisite is not implemented for {sfun}")
