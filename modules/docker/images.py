"""docker.*: functions about images and registries."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Union

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import function
from catena.modules.docker.command import LONG, ask, find, image_name, inspect
from catena.modules.shared.arguments import mapped, truth


def short_id(image: Mapping[str, Any]) -> str:
    """Return the first twelve digits of an inspected image's id, as Salt does."""
    return str(image.get("Id", "")).partition("sha256:")[2][:12] or str(image.get("Id", ""))[:12]


@function(reads=True)
def images(context: Context, all: Any = False) -> Dict[str, Dict[str, Any]]:
    """Return the images: {id: {RepoTags, Created, Size}}; with *all* the intermediate ones too."""
    flags = ["--all"] if truth(all) else []
    ids = ask(context, ["image", "ls", "--no-trunc", "--quiet", *flags]).split()
    return {
        one["Id"]: {key: one.get(key) for key in ("RepoTags", "RepoDigests", "Created", "Size")}
        for one in inspect(context, "image", list(dict.fromkeys(ids)))
    }


@function(reads=True)
def list_tags(context: Context) -> List[str]:
    """Return the names of all images, as "NAME:TAG"."""
    found = images(context).values()
    return sorted({tag for one in found for tag in one["RepoTags"] or []})


@function(reads=True)
def inspect_image(context: Context, name: str) -> Dict[str, Any]:
    """Return docker's description of an image.

    Raises:
        CommandExecutionError: there is no such image.
    """
    return inspect(context, "image", [image_name(name)])[0]


@function(reads=True)
def image_exists(context: Context, name: str) -> bool:
    """Return whether there is an image, without asking a registry."""
    return find(context, "image", image_name(name)) is not None


@function(reads=True)
def resolve_image_id(context: Context, name: str) -> Union[str, bool]:
    """Return the id of an image; False if it is not there."""
    found = find(context, "image", image_name(name))
    return str(found["Id"]) if found else False


@function(reads=True)
def resolve_tag(context: Context, name: str) -> Union[str, bool]:
    """Return the full name of an image; False if it is not there.

    An image can have several names: the one that was asked for counts, an id has the first one.
    """
    found = find(context, "image", image_name(name))
    if found is None:
        return False
    last = str(name).rsplit("/", 1)[-1]
    full = str(name) if ":" in last or "@" in last else f"{name}:latest"
    tags = [str(one) for one in found.get("RepoTags") or ()]
    for tag in tags:
        if tag == full or tag.endswith(f"/{full}"):
            return tag
    is_id = str(found.get("Id", "")).partition("sha256:")[2] or str(found.get("Id", ""))
    plain = str(name).partition("sha256:")[2] or str(name)
    return tags[0] if tags and is_id.startswith(plain) else str(name)


def _moved(context: Context, words: List[str], image: str) -> Dict[str, Any]:
    began = time.monotonic()
    ask(context, words, timeout=LONG)
    found = find(context, "image", image)
    spent = round(time.monotonic() - began, 3)
    return {"Id": short_id(found) if found else "", "Image": image, "Time_Elapsed": spent}


@function()
def pull(context: Context, image: str) -> Dict[str, Any]:
    """Fetch an image from its registry; return {Id, Image, Time_Elapsed in seconds}.

    Raises:
        CommandExecutionError: the registry can't be reached or does not have it.
    """
    name = image_name(image)
    return _moved(context, ["image", "pull", "--quiet", name], name)


@function()
def push(context: Context, image: str) -> Dict[str, Any]:
    """Send an image to its registry; return {Id, Image, Time_Elapsed in seconds}."""
    name = image_name(image)
    return _moved(context, ["image", "push", name], name)


def _dockerfile(path: str, dockerfile: Optional[str]) -> List[str]:
    """Return the option that names another Dockerfile than the usual one."""
    if path.startswith("-"):
        raise UsageError(f"{path[:80]!r} can't be the path of a build")
    if not dockerfile:
        return []
    apart = "://" in path or Path(dockerfile).is_absolute()
    return ["--file", dockerfile if apart else f"{path}/{dockerfile}"]


@function()
def build(
    context: Context,
    path: Optional[str] = None,
    repository: Optional[str] = None,
    tag: Optional[str] = None,
    cache: Any = True,
    rm: Any = True,
    dockerfile: Optional[str] = None,
    buildargs: Any = None,
    network_mode: Optional[str] = None,
    labels: Any = None,
    pull: Any = False,
) -> Dict[str, Any]:
    """Build an image; return {Id, Image, Time_Elapsed in seconds}.

    Args:
        context: the host.
        path: folder with the Dockerfile, or a URL.
        repository: name of the image.
        tag: default: latest.
        cache: use layers of earlier builds.
        rm: remove intermediate containers.
        dockerfile: path of the Dockerfile below the folder.
        buildargs: build arguments; they can be read in the image, so they are no place for
            passwords.
        network_mode: network for RUN.
        labels: labels of the image.
        pull: look for a newer base image.

    Raises:
        CommandExecutionError: the build failed.
        UsageError: path or repository is missing.
    """
    if not path or not repository:
        raise UsageError("docker.build needs path and repository")
    name = image_name(f"{repository}:{tag or 'latest'}")
    words = ["image", "build", "--quiet", "--tag", name, f"--rm={str(truth(rm)).lower()}"]
    words += [] if truth(cache) else ["--no-cache"]
    words += ["--pull"] if truth(pull) else []
    words += ["--network", str(network_mode)] if network_mode else []
    words += _dockerfile(str(path), dockerfile)
    for option, values in (("--build-arg", buildargs), ("--label", labels)):
        for key, value in mapped(values).items():
            words += [option, f"{key}={value}"]
    return _moved(context, [*words, str(path)], name)


@function()
def load(
    context: Context, path: str, repository: Optional[str] = None, tag: Optional[str] = None
) -> Dict[str, Any]:
    """Load images from the archive of docker.save; return {Image, Time_Elapsed in seconds}."""
    source = Path(path)
    if not source.is_absolute() or not source.is_file():
        raise CommandExecutionError(f"{path} is no file with an absolute path")
    before = set(images(context))
    began = time.monotonic()
    printed = ask(context, ["image", "load", "--input", str(source)], timeout=LONG)
    loaded = [line.partition(": ")[2].strip() for line in printed.splitlines() if "oaded" in line]
    new = sorted(set(images(context)) - before)
    if repository:
        name = image_name(f"{repository}:{tag or 'latest'}")
        if not new and not loaded:
            raise CommandExecutionError(f"{path} holds no image")
        ask(context, ["image", "tag", (new or loaded)[0], name])
        loaded = [name]
    spent = round(time.monotonic() - began, 3)
    return {"Path": str(source), "Image": loaded, "Layers": new, "Time_Elapsed": spent}


@function()
def save(context: Context, name: str, path: str, overwrite: Any = False) -> Dict[str, Any]:
    """Write an image to an archive; return {Image, Path, Size in bytes}."""
    target = Path(path)
    if not target.is_absolute():
        raise UsageError(f"{path!r} is no absolute path")
    if target.exists() and not truth(overwrite):
        raise CommandExecutionError(f"{path} already exists")
    ask(context, ["image", "save", "--output", str(target), image_name(name)], timeout=LONG)
    return {"Image": name, "Path": path, "Size": target.stat().st_size}


@function()
def tag_(context: Context, name: str, repository: str, tag: str = "latest") -> bool:
    """Give an image another name; return True."""
    ask(context, ["image", "tag", image_name(name), image_name(f"{repository}:{tag}")])
    return True


@function()
def rmi(context: Context, *names: str, force: Any = False) -> Dict[str, Any]:
    """Remove images; return {Tags, Layers} that were removed, and {Errors}."""
    tags, ids = set(list_tags(context)), set(images(context, True))
    errors = []
    for name in names:
        flags = ["--force"] if truth(force) else []
        try:
            ask(context, ["image", "rm", *flags, image_name(name)])
        except CommandExecutionError as problem:
            errors.append(f"{name}: {problem}")
    answer: Dict[str, Any] = {
        "Tags": sorted(tags - set(list_tags(context))),
        "Layers": sorted(ids - set(images(context, True))),
    }
    return {**answer, "Errors": errors} if errors else answer


@function()
def login(context: Context, *registries: str) -> Dict[str, Any]:
    """Log in to registries; return {Results: {registry: bool}, Errors: [text]}.

    Users and passwords are those of `docker-registries` in the pillar or the configuration:
    {REGISTRY: {username, password}}. The password is passed on the standard input.

    Args:
        context: the host.
        registries: default: all that are configured.
    """
    known = context.call("config.get", "docker-registries", {}) or {}
    if not isinstance(known, Mapping):
        raise UsageError("docker-registries must be a mapping of registries")
    results: Dict[str, bool] = {}
    errors: List[str] = []
    for registry in registries or tuple(known):
        account = known.get(registry) or {}
        user, password = account.get("username"), account.get("password")
        if not user or not password:
            errors.append(f"Missing username or password for registry {registry}")
            results[registry] = False
            continue
        place = [] if registry == "hub" else [image_name(registry)]
        words = ["login", "--username", str(user), "--password-stdin", *place]
        try:
            ask(context, words, stdin=f"{password}\n")
            results[registry] = True
        except CommandExecutionError as problem:
            errors.append(str(problem).replace(str(password), "(hidden)"))
            results[registry] = False
    return {"Results": results, "Errors": errors} if errors else {"Results": results}


@function()
def logout(context: Context, *registries: str) -> Dict[str, Any]:
    """Log out from registries; return {Results: {registry: bool}}."""
    results = {}
    for registry in registries:
        place = [] if registry == "hub" else [image_name(registry)]
        try:
            ask(context, ["logout", *place])
            results[registry] = True
        except CommandExecutionError:
            results[registry] = False
    return {"Results": results}
