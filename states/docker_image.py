"""docker_image.*: images of docker or podman."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.shared.arguments import truth
from catena.states.answers import done, failed, would

_REFUSALS = (CommandExecutionError, UsageError)
_VERBS = {"built": "building", "loaded": "loading", "pulled": "pulling"}


@state()
def present(
    context: Context,
    /,
    name: str,
    tag: Optional[str] = None,
    build: Optional[str] = None,
    load: Optional[str] = None,
    force: Any = False,
    dockerfile: Optional[str] = None,
    sls: Any = None,
    **options: Any,
) -> StateResult:
    """Make sure that there is an image: pull, build or load it if not.

    Args:
        context: the call's context.
        name: of the image.
        tag: its tag; needed with build and load.
        build: folder with a Dockerfile.
        load: archive of docker.save.
        force: pull, build or load it anyway.
        dockerfile: path of the Dockerfile below the folder.
        sls: not supported.
        options: arguments of docker.build (buildargs, cache, network_mode, labels, pull).
    """
    mistake = _refused(build, load, sls, tag)
    if mistake:
        return failed(mistake)
    full = f"{name}:{tag}" if tag else str(name)
    past = "built" if build else "loaded" if load else "pulled"
    names = (str(name), str(tag or ""), full)
    try:
        before = context.call("docker.resolve_image_id", full)
        if before and not truth(force):
            return done(f"Image {full} already present")
        if context.test:
            return would(f"Image {full} will be {past}")
        made = _made(context, names, build, load, {"dockerfile": dockerfile, **options})
        after = context.call("docker.resolve_image_id", full)
    except _REFUSALS as problem:
        return failed(f"Encountered error {_VERBS[past]} {full}: {problem}")
    subject = f"Image '{full}' was {past}"
    if not after:
        return failed(f"{subject}, but it is not there under this name")
    return done(subject, made) if after != before else done(f"{subject}, but nothing changed")


def _refused(build: Any, load: Any, sls: Any, tag: Any) -> str:
    """Return what is wrong with the arguments of `present`, or ""."""
    if sls is not None:
        return "docker_image.present does not build images of SLS files; use build"
    if build is not None and load is not None:
        return "Only one of 'build', 'load', or 'sls' is permitted."
    if (build or load) and not tag:
        return "The 'tag' argument is required if any one of 'build', 'load', or 'sls' is used."
    return ""


def _made(
    context: Context,
    names: Tuple[str, str, str],
    build: Optional[str],
    load: Optional[str],
    options: Mapping[str, Any],
) -> Mapping[str, Any]:
    """Pull, build or load an image; return what the function says."""
    name, tag, full = names
    if build:
        found = context.call("docker.build", path=build, repository=name, tag=tag, **options)
    elif load:
        found = context.call("docker.load", path=load, repository=name, tag=tag)
    else:
        found = context.call("docker.pull", full)
    return dict(found)


@state()
def absent(
    context: Context,
    name: Optional[str] = None,
    images: Optional[Sequence[str]] = None,
    force: Any = False,
) -> StateResult:
    """Make sure that images are not there.

    Args:
        context: the call's context.
        name: of an image.
        images: several names, instead.
        force: also remove one that a stopped container uses.
    """
    names = [str(one) for one in (images or ([name] if name else []))]
    if not names:
        return failed("One of 'name' and 'images' must be provided")
    try:
        found = [context.call("docker.resolve_tag", one) for one in names]
        there = [str(one) for one in found if one]
        shown = ", ".join(there)
        if not there:
            one = f"Image {names[0]} is not present"
            return done(one if len(names) == 1 else "All specified images are not present")
        single = len(there) == 1
        if context.test:
            one = f"Image {shown} will be removed"
            return would(one if single else f"The following images will be removed: {shown}")
        removed = context.call("docker.rmi", *there, force=truth(force))
    except _REFUSALS as problem:
        return failed(str(problem))
    if removed.get("Errors"):
        gone = {key: value for key, value in removed.items() if key != "Errors" and value}
        return failed("Could not remove " + "; ".join(removed["Errors"]), gone)
    told = (
        f"Image {shown} was removed" if single else f"The following images were removed: {shown}"
    )
    return done(told, removed)


@state()
def mod_watch(
    context: Context, /, name: str, sfun: str = "present", **arguments: Any
) -> StateResult:
    """Pull, build or load an image again: something watched has changed."""
    if sfun != "present":
        return failed(f"watch requisite is not implemented for {sfun}")
    given = {key: value for key, value in arguments.items() if not key.startswith("__")}
    found: StateResult = present(context, name, **{**given, "force": True})
    return found
