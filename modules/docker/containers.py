"""docker.*: functions about containers."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Union

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import function
from catena.modules.docker.command import DEADLINE, LONG, ask, find, image_name, inspect, named
from catena.modules.docker.options import LABEL, creation
from catena.modules.shared.arguments import listed, truth

#: Salt's word for a container by that of docker or podman.
_STATES = {"running": "running", "paused": "paused"}

Changed = Dict[str, Any]


def state_of(container: Dict[str, Any]) -> str:
    """Return running, paused or stopped for an inspected container."""
    status = str(container.get("State", {}).get("Status", ""))
    return _STATES.get(status, "stopped")


def _ids(context: Context, all_: Any) -> List[str]:
    flags = ["--all"] if truth(all_) else []
    return ask(context, ["container", "ls", "--no-trunc", "--quiet", *flags]).split()


@function(reads=True)
def ps(context: Context, all: Any = False) -> Dict[str, Dict[str, Any]]:
    """Return the running containers, or with *all* every one: {id: {Names, Image, State, …}}."""
    return {
        one["Id"]: {
            "Names": [str(one.get("Name", "")).lstrip("/")],
            "Image": one.get("Config", {}).get("Image") or one.get("ImageName"),
            "ImageID": one.get("Image"),
            "Command": " ".join([str(one.get("Path", "")), *map(str, one.get("Args") or [])]),
            "Created": one.get("Created"),
            "State": state_of(one),
            "Status": one.get("State", {}).get("Status"),
            "Labels": one.get("Config", {}).get("Labels") or {},
        }
        for one in inspect(context, "container", _ids(context, all))
    }


@function(reads=True)
def list_containers(context: Context, all: Any = False) -> List[str]:
    """Return the names of the running containers, or with *all* of every one."""
    return sorted(name for one in ps(context, all).values() for name in one["Names"])


@function(reads=True)
def exists(context: Context, name: str) -> bool:
    """Return whether there is a container."""
    return find(context, "container", named(name)) is not None


@function(reads=True)
def inspect_container(context: Context, name: str) -> Dict[str, Any]:
    """Return docker's description of a container.

    Raises:
        CommandExecutionError: there is no such container.
    """
    return inspect(context, "container", [named(name)])[0]


@function(reads=True)
def state(context: Context, name: str) -> str:
    """Return running, paused or stopped.

    Raises:
        CommandExecutionError: there is no such container.
    """
    return state_of(inspect_container(context, name))


@function(reads=True)
def logs(context: Context, name: str, tail: Any = 1000) -> str:
    """Return the last lines that a container has printed."""
    if not str(tail).isdigit():
        raise UsageError(f"tail: {str(tail)[:80]!r} is no number of lines")
    return ask(context, ["container", "logs", "--tail", str(tail), named(name)])


@function()
def create(
    context: Context, /, image: str, name: Optional[str] = None, start: Any = False, **options: Any
) -> Dict[str, Any]:
    """Create a container and return {Id, Name, Started}.

    Values of the environment are passed on the standard input, never as arguments.

    Args:
        context: the host.
        image: name of the image, which is pulled if it is not there.
        name: of the container; default: one that is made up.
        start: start it, too.
        options: command, environment, binds, port_bindings, network_mode, networks, labels,
            restart_policy … as of the state docker_container.running.

    Raises:
        CommandExecutionError: docker refuses; nothing was created.
        UsageError: an argument makes no sense.
    """
    wanted = creation(options)
    words = ["container", "create", *(["--name", named(name)] if name else []), *wanted.options]
    words += ["--label", f"{LABEL}={wanted.digest()}"]
    if wanted.environment:
        words += ["--env-file", "/dev/stdin"]
    words += [image_name(image), *wanted.command]
    made = ask(context, words, stdin=wanted.environment or None, timeout=LONG).split()[-1]
    try:
        for network, flags in wanted.networks:
            ask(context, ["network", "connect", *flags, named(network, "network"), made])
        if truth(start):
            ask(context, ["container", "start", made])
    except CommandExecutionError:
        ask(context, ["container", "rm", "--force", made])
        raise
    found = inspect_container(context, made)
    label = str(found.get("Name", "")).lstrip("/")
    return {"Id": made, "Name": label, "Started": truth(start)}


def _acted(context: Context, name: str, words: List[str], timeout: float = DEADLINE) -> Changed:
    """Run a command about a container; return {result, state: {old, new}}."""
    before = state(context, name)
    ask(context, [*words, named(name)], timeout=timeout)
    return {"result": True, "state": {"old": before, "new": state(context, name)}}


def _stop_words(verb: str, timeout: Any) -> List[str]:
    words = ["container", verb]
    if timeout is not None:
        if not str(timeout).isdigit():
            raise UsageError(f"timeout: {str(timeout)[:80]!r} is no number of seconds")
        words += ["--time", str(timeout)]
    return words


@function()
def start(context: Context, name: str) -> Changed:
    """Start a container; return {result, state: {old, new}}."""
    return _acted(context, name, ["container", "start"])


@function()
def stop(context: Context, name: str, timeout: Any = None, unpause: Any = False) -> Changed:
    """Stop a container; return {result, state: {old, new}}.

    Args:
        context: the host.
        name: of the container.
        timeout: seconds until it is killed; default: 10 or what the container says.
        unpause: continue a paused one first.
    """
    words = _stop_words("stop", timeout)
    if truth(unpause) and state(context, name) == "paused":
        ask(context, ["container", "unpause", named(name)])
    return _acted(context, name, words, DEADLINE + int(timeout or 0))


@function()
def restart(context: Context, name: str, timeout: Any = None) -> Changed:
    """Restart a container; return {result, state: {old, new}, restarted}."""
    words = _stop_words("restart", timeout)
    done = _acted(context, name, words, DEADLINE + int(timeout or 0))
    return {**done, "restarted": True}


@function()
def kill(context: Context, name: str) -> Changed:
    """Kill a container; return {result, state: {old, new}}."""
    return _acted(context, name, ["container", "kill"])


@function()
def signal_(context: Context, name: str, signal: Union[str, int]) -> bool:
    """Send a signal to the first process of a container; return True."""
    if not str(signal).isalnum():
        raise UsageError(f"{str(signal)[:80]!r} is no signal")
    ask(context, ["container", "kill", "--signal", str(signal), named(name)])
    return True


@function()
def pause(context: Context, name: str) -> Changed:
    """Freeze the processes of a container; return {result, state: {old, new}}."""
    return _acted(context, name, ["container", "pause"])


@function()
def unpause(context: Context, name: str) -> Changed:
    """Continue the processes of a container; return {result, state: {old, new}}."""
    return _acted(context, name, ["container", "unpause"])


@function()
def rename(context: Context, name: str, new_name: str) -> bool:
    """Give a container another name; return True."""
    ask(context, ["container", "rename", named(name), named(new_name)])
    return True


@function()
def rm_(
    context: Context,
    name: str,
    force: Any = False,
    volumes: Any = False,
    stop: Any = False,
    timeout: Any = None,
) -> List[str]:
    """Remove a container; return its id in a list.

    Args:
        context: the host.
        name: of the container.
        force: kill it if it runs.
        volumes: remove its unnamed volumes, too.
        stop: stop it first.
        timeout: seconds until it is killed when it is stopped.
    """
    found = inspect_container(context, name)
    if truth(stop) and state_of(found) != "stopped":
        ask(context, [*_stop_words("stop", timeout), named(name)],
            timeout=DEADLINE + int(timeout or 0))  # fmt: skip
    flags = [*(["--force"] if truth(force) else []), *(["--volumes"] if truth(volumes) else [])]
    ask(context, ["container", "rm", *flags, named(name)])
    return [str(found["Id"])]


@function()
def run(context: Context, name: str, cmd: Any, user: Optional[str] = None) -> str:
    """Run a command in a running container and return what it prints.

    Args:
        context: the host.
        name: of the container.
        cmd: a list of words, or a line for the container's /bin/sh.
        user: who runs it there.

    Raises:
        CommandExecutionError: it failed.
    """
    flags = ["--user", str(user)] if user else []
    words = [str(one) for one in cmd] if isinstance(cmd, (list, tuple)) else None
    inner = words if words is not None else ["/bin/sh", "-c", str(cmd)]
    return ask(context, ["container", "exec", *flags, named(name), *inner], timeout=LONG)


@function()
def commit(
    context: Context, name: str, repository: str, tag: str = "latest", message: str = ""
) -> Dict[str, Any]:
    """Make an image of a container; return {Id, Image}."""
    image = image_name(f"{repository}:{tag}")
    flags = ["--message", str(message)] if message else []
    made = ask(context, ["container", "commit", *flags, named(name), image], timeout=LONG)
    return {"Id": made.split()[-1], "Image": image}


@function(reads=True)
def names_of(context: Context, labels: Any = None) -> List[str]:
    """Return the names of all containers that have each of *labels* ("KEY" or "KEY=VALUE")."""
    wanted = [str(one).partition("=") for one in listed(labels)]
    return sorted(
        name
        for one in ps(context, True).values()
        for name in one["Names"]
        if all(
            key in one["Labels"] and (not mark or one["Labels"][key] == value)
            for key, mark, value in wanted
        )
    )
