"""pkg.*: installed, removed, held and upgraded packages."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.pkg.functions import normalize_name, provider
from catena.modules.pkg.provider import WantedPackage
from catena.modules.pkg.repos.functions import FRESH
from catena.modules.pkg.wanted import satisfies, wanted_packages
from catena.modules.shared.arguments import truth


def _refresh(context: Context, asked: Optional[bool]) -> bool:
    """Return whether this state has to fetch the indexes of repositories for its run.

    Indexes are fetched once per run, as in Salt's mod_init, and again after a repository changed.
    In test mode no state fetches them: the prediction uses the existing indexes.
    """
    if context.test or not truth(asked) or context.scratch.get(FRESH):
        return False
    context.scratch[FRESH] = True
    return True


def _unmet(context: Context, wanted: Sequence[WantedPackage]) -> List[WantedPackage]:
    tool = provider(context)
    installed = tool.installed()
    return [
        item for item in wanted if not satisfies(tool, installed.get(item.name, ()), item.version)
    ]


def _names(items: Sequence[Any]) -> str:
    return ", ".join(
        f"{item.name}={item.version}" if isinstance(item, WantedPackage) and item.version
        else item.name if isinstance(item, WantedPackage) else str(item)
        for item in items
    )  # fmt: skip


@state()
def installed(
    context: Context, /, name: str, version: Optional[str] = None, pkgs: Any = None,
    sources: Any = None, refresh: Optional[bool] = None, **options: Any,
) -> StateResult:  # fmt: skip
    """Install packages, in the given versions.

    Args:
        context: the call's context.
        name: the package, unless *pkgs* or *sources* are given.
        version: a version, a pattern with `*`, an operator and a version, or "latest".
        pkgs: list of names and of {name: version}.
        sources: list of {name: salt:// address or file}.
        refresh: fetch the repositories' indexes first (once per run).
        options: fromrepo, skip_verify, install_recommends, hold, diff_attr, as pkg.install.
    """
    if version == "latest":
        return latest(context, name, pkgs=pkgs, refresh=refresh, **options)
    wanted = _wanted(context, name, version, pkgs, sources)
    todo = _unmet(context, wanted)
    if not todo:
        text = "All specified packages are already installed"
        return _with_hold(context, StateResult(True, comment=text), wanted, options)
    if context.test:
        return StateResult(
            None, comment=f"The following packages would be installed/updated: {_names(todo)}"
        )
    asked = (
        {"sources": [s for s in sources if next(iter(s)) in {item.name for item in todo}]}
        if sources
        else {"pkgs": [{item.name: item.version} if item.version else item.name for item in todo]}
    )
    extra = {k: v for k, v in options.items() if k in _INSTALL}
    fresh = _refresh(context, refresh)
    changes = context.call("pkg.install", refresh=fresh, **asked, **extra)
    missing = _unmet(context, wanted)
    if missing:
        text = f"The following packages failed to install/update: {_names(missing)}"
        return StateResult(False, changes, text)
    text = f"The following packages were installed/updated: {_names(todo)}"
    return _with_hold(context, StateResult(True, changes, text), wanted, options)


_UPGRADE = frozenset(
    {"pkgs", "dist_upgrade", "diff_attr", "skip_verify", "fromrepo", "novendorchange"}
)
_INSTALL = frozenset(
    {
        "fromrepo",
        "skip_verify",
        "install_recommends",
        "no_recommends",
        "allow_downgrade",
        "diff_attr",
    }
)


def _named(
    context: Context, name: Optional[str], pkgs: Any, version: Optional[str] = None
) -> List[WantedPackage]:
    """Return the packages that a state names.

    Package managers list a package of the host's own architecture without the architecture, so
    it is removed from the name: `bash:amd64` is bash on amd64, `bash.x86_64` is bash on x86_64.
    """
    found = wanted_packages(name, pkgs, version)
    return [WantedPackage(normalize_name(context, item.name), item.version) for item in found]


def _wanted(
    context: Context, name: str, version: Optional[str], pkgs: Any, sources: Any
) -> List[WantedPackage]:
    if sources:
        if not isinstance(sources, list) or not all(isinstance(one, Mapping) for one in sources):
            raise UsageError("sources is a list of `- NAME: ADDRESS` lines")
        return wanted_packages(None, [key for item in sources for key in item])
    return _named(context, name, pkgs, version)


def _with_hold(
    context: Context,
    result: StateResult,
    wanted: Sequence[WantedPackage],
    options: Mapping[str, Any],
) -> StateResult:
    """Hold or release the packages if `hold` is given; return *result* with the changes."""
    hold = options.get("hold")
    if hold is None:
        return result
    names = [item.name for item in wanted]
    if context.test:
        return _foretold_hold(context, result, names, truth(hold))
    done = context.call("pkg.hold" if truth(hold) else "pkg.unhold", pkgs=names)
    changed = {key: row["changes"] for key, row in done.items() if row["changes"]}
    return StateResult(result.result, {**result.changes, **changed}, result.comment)


def _foretold_hold(
    context: Context, result: StateResult, names: Sequence[str], on: bool
) -> StateResult:
    """Return *result* with the holds that a real run would change (test mode)."""
    held = set(context.call("pkg.list_holds"))
    todo = [found for found in names if (found in held) is not on]
    if not todo:
        return result
    word = "held" if on else "unheld"
    text = f"{result.comment}\nThe following packages would be {word}: {_names(todo)}"
    return StateResult(None, result.changes, text, result.warnings)


@state()
def latest(
    context: Context,
    /,
    name: str,
    pkgs: Any = None,
    refresh: Optional[bool] = None,
    **options: Any,
) -> StateResult:
    """Install packages in the newest version that the repositories offer."""
    tool = provider(context)
    names = [item.name for item in _named(context, name, pkgs)]
    if _refresh(context, True if refresh is None else refresh):
        tool.refresh()
    offered, present = tool.candidates(names), tool.installed()
    unknown = [found for found in names if not offered[found] and found not in present]
    if unknown:
        text = f"No information found for '{', '.join(unknown)}'."
        return StateResult(False, comment=text)
    todo = [
        WantedPackage(found, offered[found])
        for found in names
        if offered[found]
        and not any(tool.compare(old, offered[found]) >= 0 for old in present.get(found, ()))
    ]
    if not todo:
        one = f"Package {names[0]} is already up-to-date"
        many = f"All packages are up-to-date ({', '.join(names)})."
        return StateResult(True, comment=one if len(names) == 1 else many)
    if context.test:
        return StateResult(
            None,
            comment=f"The following packages are set to be installed/upgraded: {_names(todo)}",
        )
    extra = {k: v for k, v in options.items() if k in _INSTALL}
    changes = context.call("pkg.install", pkgs=[{w.name: w.version} for w in todo], **extra)
    failed = _unmet(context, todo)
    if failed:
        return StateResult(
            False, changes, f"The following packages failed to update: {_names(failed)}"
        )
    return StateResult(
        True, changes, f"The following packages were successfully installed/upgraded: "
        f"{', '.join(item.name for item in todo)}"
    )  # fmt: skip


def _gone(
    context: Context, name: str, pkgs: Any, version: Optional[str], purge: bool
) -> StateResult:
    wanted = _named(context, name, pkgs, version)
    tool = provider(context)
    present = tool.installed()
    todo = [i.name for i in wanted if satisfies(tool, present.get(i.name, ()), i.version)]
    word = "purged" if purge else "removed"
    if not todo:
        text = f"All specified packages are already absent: {_names(wanted)}" if pkgs else (
            f"Package {name} is already absent" if len(wanted) == 1
            else "All specified packages are already absent"
        )  # fmt: skip
        return StateResult(True, comment=text)
    if context.test:
        return StateResult(None, comment=f"The following packages will be {word}: {_names(todo)}.")
    changes: Dict[str, Any] = context.call("pkg.purge" if purge else "pkg.remove", pkgs=todo)
    left = [found for found in todo if found in provider(context).installed()]
    if left:
        return StateResult(
            False, changes, f"The following packages failed to {word[:-1]}: {_names(left)}."
        )
    if pkgs or len(todo) > 1:
        return StateResult(True, changes, f"All targeted packages were {word}.")
    return StateResult(True, changes, f"Package {name} was {word}.")


@state()
def removed(
    context: Context, /, name: str, version: Optional[str] = None, pkgs: Any = None, **_: Any
) -> StateResult:
    """Remove packages, or one version of them."""
    return _gone(context, name, pkgs, version, purge=False)


@state()
def purged(
    context: Context, /, name: str, version: Optional[str] = None, pkgs: Any = None, **_: Any
) -> StateResult:
    """Remove packages together with their configuration."""
    return _gone(context, name, pkgs, version, purge=True)


@state()
def uptodate(
    context: Context, /, name: str, refresh: Optional[bool] = None, **options: Any
) -> StateResult:
    """Upgrade every installed package to its newest version."""
    fresh = _refresh(context, True if refresh is None else refresh)
    upgrades: Dict[str, str] = context.call("pkg.list_upgrades", refresh=fresh)
    if not upgrades:
        return StateResult(True, comment="System is already up-to-date")
    if context.test:
        return StateResult(None, comment=f"System update will be performed: {_names([*upgrades])}")
    extra = {key: value for key, value in options.items() if key in _UPGRADE}
    changes = context.call("pkg.upgrade", refresh=False, **extra)
    left, expected = context.call("pkg.list_upgrades"), set(upgrades)
    if expected & set(left):
        text = f"The following packages failed to update: {', '.join(sorted(left))}"
        return StateResult(False, changes, text)
    return StateResult(True, changes, "Upgrade ran successfully")


@state()
def downloaded(
    context: Context, /, name: str, version: Optional[str] = None, pkgs: Any = None,
    refresh: Optional[bool] = None, **options: Any,
) -> StateResult:  # fmt: skip
    """Fetch packages into the package manager's cache without installing them.

    Args:
        context: the call's context.
        name: the package, unless *pkgs* is given.
        version: of *name*.
        pkgs: list of names and of {name: version}.
        refresh: fetch the repositories' indexes first (once per run).
        options: fromrepo, skip_verify, as pkg.install.
    """
    if isinstance(pkgs, list) and not pkgs:
        return StateResult(True, comment="No packages to download provided")
    wanted = _named(context, name, pkgs, version)
    todo = _not_fetched(context, wanted)
    if not todo:
        text = f"Package {name} is already downloaded"
        if pkgs:
            text = "All specified packages (matching specified versions) are already downloaded"
        return StateResult(True, comment=text)
    if context.test:
        text = f"The following packages would be downloaded: {_names(todo)}"
        return StateResult(None, comment=text)
    extra = {k: v for k, v in options.items() if k in _INSTALL and k != "diff_attr"}
    asked = [{item.name: item.version} if item.version else item.name for item in todo]
    fresh = _refresh(context, refresh)
    changes = context.call("pkg.install", pkgs=asked, downloadonly=True, refresh=fresh, **extra)
    failed = _not_fetched(context, todo)
    if failed:
        text = f"The following packages failed to download: {_names(failed)}"
        return StateResult(False, changes, text)
    return StateResult(True, changes, f"Packages downloaded: {_names(todo)}")


def _not_fetched(context: Context, wanted: Sequence[WantedPackage]) -> List[WantedPackage]:
    fetched = context.call("pkg.list_downloaded")
    tool = provider(context)
    return [
        item
        for item in wanted
        if not satisfies(tool, list(fetched.get(item.name, ())), item.version)
    ]


def _patch_state(
    context: Context, name: str, advisory_ids: Any, only_fetch: bool, options: Mapping[str, Any]
) -> StateResult:
    if isinstance(advisory_ids, list) and not advisory_ids:
        return StateResult(True, comment="No advisory ids provided")
    wanted = [str(one) for one in advisory_ids] if advisory_ids else [name]
    done = context.call("pkg.list_installed_patches")
    todo = [one for one in wanted if one not in done]
    if not todo:
        text = "All specified advisory patches are already installed"
        if not advisory_ids:
            text = f"Advisory patch {name} is already installed"
        return StateResult(True, comment=text)
    if context.test:
        text = f"The following advisory patches would be downloaded: {', '.join(todo)}"
        return StateResult(None, comment=text)
    extra = {k: v for k, v in options.items() if k in _INSTALL}
    fresh = _refresh(context, options.get("refresh"))
    try:
        changes = context.call(
            "pkg.install", advisory_ids=todo, downloadonly=only_fetch, refresh=fresh, **extra
        )
    except CommandExecutionError as error:
        text = f"An error was encountered while downloading package(s): {error}"
        return StateResult(False, comment=text)
    if changes:
        return StateResult(True, changes, "")
    word = "downloaded" if only_fetch else "installed"
    text = f"Advisory patch is not needed or related packages are already {word}"
    return StateResult(True, comment=text)


@state()
def patch_installed(
    context: Context, /, name: str, advisory_ids: Any = None, downloadonly: bool = False,
    **options: Any,
) -> StateResult:  # fmt: skip
    """Install patches, which zypper and dnf call advisories.

    Args:
        context: the call's context.
        name: the patch, unless *advisory_ids* is given.
        advisory_ids: list of patches.
        downloadonly: fetch their packages, but install nothing.
        options: refresh, diff_attr.
    """
    return _patch_state(context, name, advisory_ids, truth(downloadonly), options)


@state()
def patch_downloaded(
    context: Context, /, name: str, advisory_ids: Any = None, **options: Any
) -> StateResult:
    """Fetch the packages of patches (advisories) without installing them.

    Args:
        context: the call's context.
        name: the patch, unless *advisory_ids* is given.
        advisory_ids: list of patches.
        options: refresh.
    """
    given = {key: value for key, value in options.items() if key != "downloadonly"}
    return _patch_state(context, name, advisory_ids, True, given)


def _hold_state(context: Context, names: Tuple[str, ...], on: bool) -> StateResult:
    held = set(context.call("pkg.list_holds"))
    todo = [found for found in names if (found in held) is not on]
    word = "held" if on else "unheld"
    if not todo:
        return StateResult(True, comment=f"All packages are already {word}")
    if context.test:
        return StateResult(None, comment=f"The following packages would be {word}: {_names(todo)}")
    try:
        done = context.call("pkg.hold" if on else "pkg.unhold", pkgs=todo)
    except CommandExecutionError as error:
        return StateResult(False, comment=str(error))
    changes = {key: row["changes"] for key, row in done.items() if row["changes"]}
    return StateResult(True, changes, f"The following packages were {word}: {_names(todo)}")


@state()
def held(
    context: Context, /, name: str, pkgs: Any = None, replace: bool = False, **_: Any
) -> StateResult:
    """Hold packages at their version.

    Args:
        context: the call's context.
        name: the package, unless *pkgs* is given.
        pkgs: list of packages.
        replace: release every other package that is held.
    """
    names: Tuple[str, ...] = ()
    if isinstance(pkgs, list) and not pkgs:
        # An empty list does not mean the package *name*: with *replace* nothing stays held.
        if not truth(replace):
            return StateResult(True, comment="No packages to be held provided")
    else:
        names = tuple(w.name for w in wanted_packages(name, pkgs))
    result = _hold_state(context, names, True)
    if not truth(replace) or result.result is False:
        return result
    others = tuple(one for one in context.call("pkg.list_holds") if one not in names)
    released = _hold_state(context, others, False)
    if not released.changes and released.result is True:
        return result
    comment = f"{result.comment}\n{released.comment}" if names else released.comment
    both = (result.result, released.result)
    return StateResult(
        False if False in both else None if None in both else True,
        {**result.changes, **released.changes},
        comment,
    )


@state()
def unheld(context: Context, /, name: str, pkgs: Any = None, **_: Any) -> StateResult:
    """Release held packages."""
    return _hold_state(context, tuple(w.name for w in wanted_packages(name, pkgs)), False)


_BY_NAME: Dict[str, Callable[..., StateResult]] = {
    "installed": installed,
    "latest": latest,
    "removed": removed,
    "purged": purged,
}


@state()
def mod_watch(context: Context, /, name: str, sfun: str = "", **options: Any) -> StateResult:
    """Run the state again because something watched has changed."""
    given = {key: value for key, value in options.items() if key != "__reqs__"}
    if sfun in _BY_NAME:
        return _BY_NAME[sfun](context, name, **given)
    return StateResult(False, comment=f"pkg.{sfun} does not work with the watch requisite")


@state()
def mod_aggregate(
    context: Context, low: Dict[str, Any], chunks: Iterable[Dict[str, Any]], running: Any
) -> Dict[str, Any]:
    """Combine the packages of several states into one transaction (`aggregate`).

    Only states with the same function and repository and without `hold` are combined. States that
    name files (`sources`) are not combined with states that name packages.

    Args:
        context: the call's context.
        low: low chunk of the state that does the work; its `pkgs` or `sources` are set.
        chunks: low chunks that may be combined; combined ones get the mark `__agg__`.
        running: rows of the states that ran, by key; those states are skipped.
    """
    if low["fun"] not in _BY_NAME:
        return low
    kind = "sources" if "sources" in low else "pkgs"
    joined = [chunk for chunk in chunks if _joins(chunk, low, running)]
    if joined:
        items = [item for chunk in (low, *joined) for item in _asked(chunk, kind)]
        low[kind] = [item for place, item in enumerate(items) if item not in items[:place]]
        # `pkgs` now contains the version together with the name.
        low.pop("version", None)
    for chunk in joined:
        chunk["__agg__"] = True
    return low


def _joins(chunk: Mapping[str, Any], low: Mapping[str, Any], running: Any) -> bool:
    key = "_|-".join(str(chunk[part]) for part in ("state", "__id__", "name", "fun"))
    alike = all(chunk.get(part) == low.get(part) for part in ("fun", "fromrepo"))
    apart = ("sources" in chunk) != ("sources" in low) or "hold" in chunk or "hold" in low
    return alike and not apart and key not in running and not chunk.get("__agg__")


def _asked(chunk: Mapping[str, Any], kind: str) -> List[Any]:
    """Return the packages of a chunk as entries of `pkgs` or `sources`."""
    listed = chunk.get(kind)
    if listed:
        return list(listed) if isinstance(listed, list) else [listed]
    version = chunk.get("version")
    return [{chunk["name"]: version}] if version else [chunk["name"]]
