"""Versions of the agent side by side, and the change from one to the next.

    agent_dir/versions/<version>/site/                 the unpacked wheel (and wheels beside it)
    agent_dir/versions/<version>/catena-version.json   marks `site` as complete
    agent_dir/current -> versions/<version>            switched by one rename(2)

A version is not a virtual environment: it precedes the dependencies of the agent's interpreter in
sys.path, so it needs no network; wheels of new dependencies may be installed beside it.

`cache_dir/agent_upgrade.json` is the record of the change, for the daemon, its guard and the
resume of a chain (boundary agent_upgrade):

    state      asked      installed; the daemon restarts with it after the job's return
               switching  `current` names it; it has until `deadline` to be welcomed by the master
               confirmed  the master welcomed it; `session` is its agent process
               fell_back  it was not welcomed; `current` names `previous` again; see `reason`
    version, previous, asked, deadline (wall clock, seconds), session, reason, told
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from enum import Enum
from pathlib import Path
from typing import Dict, List, Optional, Sequence

import catena
from catena.core import records
from catena.core.errors import CatenaError, CommandExecutionError, NotFoundError, UsageError
from catena.core.files import read_limited, sync_file, sync_folder, write_durable
from catena.core.frozen import dataclass, replace
from catena.core.patterns import lazy_pattern

VERSION_FILE = "catena-version.json"
STATE_FILE = "agent_upgrade.json"
#: Seconds for a new agent from the switch until the master's Welcome.
WELCOME_SECONDS = 120
_VERSION = lazy_pattern(r"[0-9][0-9A-Za-z.+!_-]{0,63}\Z")
_WHEEL = lazy_pattern(r"catena-([0-9][0-9A-Za-z.+!_]*)-.*\.whl\Z")
_LIMIT = 64 * 1024
_TRIAL_SECONDS = 60


class BadWheelError(UsageError):
    """A file is not a wheel of catena."""


class UpgradeState(str, Enum):
    """Progress of a change of versions."""

    asked = "asked"
    switching = "switching"
    confirmed = "confirmed"
    fell_back = "fell_back"


@dataclass(frozen=True)
class Upgrade:
    """The record of a change."""

    state: UpgradeState
    version: str
    #: Version that ran before; "" if none was installed side by side.
    previous: str
    asked: float
    deadline: float = 0.0
    session: str = ""
    reason: str = ""
    #: A chain that waited for the new agent has been notified of the failure.
    told: bool = False


def read(cache_dir: Path) -> Optional[Upgrade]:
    """Return the record of the last change; None if there is none or it is damaged.

    A damaged record is moved aside and reported: the running version stays.
    """
    path = cache_dir / STATE_FILE
    try:
        data = read_limited(path, _LIMIT)
    except (OSError, CatenaError):
        return None
    try:
        return records.decode(Upgrade, json.loads(data))
    except (ValueError, CatenaError) as error:
        from catena.runtime.damage import Damage, report

        lost = "whether an upgrade of the agent is in progress; the running version stays"
        if report(cache_dir, Damage(str(path), str(error), "", lost), data):
            with contextlib.suppress(OSError):
                path.unlink()
        return None


def write(cache_dir: Path, upgrade: Upgrade) -> None:
    """Store the record durably."""
    write_durable(cache_dir / STATE_FILE, json.dumps(records.encode(upgrade)).encode("utf-8"))


def installed(agent_dir: Path) -> List[str]:
    """Return the completely installed versions, sorted."""
    found = (agent_dir / "versions").glob(f"*/{VERSION_FILE}")
    return sorted(path.parent.name for path in found)


def current(agent_dir: Path) -> str:
    """Return the version that `current` names; "" if there is none."""
    try:
        name = (agent_dir / "current").readlink().name
    except OSError:
        return ""
    return name if (agent_dir / "versions" / name / VERSION_FILE).is_file() else ""


def site_of(agent_dir: Path, version: str) -> Path:
    """Return the folder to put on the path for *version*."""
    return (agent_dir / "versions" / version / "site").resolve()


def switch(agent_dir: Path, version: str) -> None:
    """Make `current` name *version* ("": nothing), atomically even in a power failure.

    Raises:
        NotFoundError: that version is not installed.
    """
    link = agent_dir / "current"
    if not version:
        link.unlink(missing_ok=True)
        sync_folder(agent_dir)
        return
    if version not in installed(agent_dir):
        raise NotFoundError(f"agent version {version} is not installed in {agent_dir}")
    fresh = agent_dir / f".current.{os.getpid()}"
    fresh.unlink(missing_ok=True)
    # The installer may have been killed before it synced the name of the version's folder.
    sync_folder(agent_dir / "versions")
    fresh.symlink_to(Path("versions") / version)
    fresh.rename(link)
    sync_folder(agent_dir)


def version_of_wheel(name: str) -> str:
    """Return the version that a wheel's file name carries.

    Raises:
        BadWheelError: it is not the name of a wheel of catena (PEP 427).
    """
    found = _WHEEL.match(name)
    if found is None:
        raise BadWheelError(f"{name}: not catena-<version>-….whl")
    return found.group(1)


def install(agent_dir: Path, wheels: Sequence[Path], name: str = "") -> str:
    """Unpack wheels as a version beside the others, try it, and return its version.

    Args:
        agent_dir: see above; made if missing.
        wheels: catena's wheel first, then wheels of dependencies that the host lacks.
        name: file name of catena's wheel, if that of the path differs (in a cache).

    Raises:
        BadWheelError: not a wheel, or one whose files would leave the folder.
        CommandExecutionError: the version does not start on this host; it is removed again.
    """
    # Imported here: the daemon imports this module, and an idle daemon must stay small.
    import shutil

    version = version_of_wheel(name or wheels[0].name)
    home = agent_dir / "versions" / version
    if (home / VERSION_FILE).is_file():
        return version
    home.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    fresh = home.with_name(f".{version}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    site = fresh / "site"
    site.mkdir(mode=0o755, parents=True)
    try:
        for wheel in wheels:
            _unpack(wheel, site)
        _try_out(site, version)
        text = json.dumps({"version": version, "python": sys.executable})
        _sync_tree(site)
        write_durable(fresh / VERSION_FILE, text.encode("utf-8"), 0o644)
        shutil.rmtree(home, ignore_errors=True)
        fresh.rename(home)
        sync_folder(home.parent)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    return version


def ask(agent_dir: Path, cache_dir: Path, version: str) -> Upgrade:
    """Request that the daemon changes to *version* after the running job's return.

    Raises:
        NotFoundError: that version is not installed.
    """
    if not _VERSION.match(version) or version not in installed(agent_dir):
        raise NotFoundError(f"agent version {version[:80]!r} is not installed in {agent_dir}")
    upgrade = Upgrade(UpgradeState.asked, version, current(agent_dir), time.time())
    write(cache_dir, upgrade)
    return upgrade


def begin_switch(agent_dir: Path, cache_dir: Path) -> Optional[Upgrade]:
    """Switch to the requested version; return None if there is no request."""
    upgrade = read(cache_dir)
    if upgrade is None or upgrade.state is not UpgradeState.asked:
        return None
    deadline = time.time() + WELCOME_SECONDS
    upgrade = replace(upgrade, state=UpgradeState.switching, deadline=deadline)
    # Write the record first: after a crash in between, the old agent's start undoes the change.
    write(cache_dir, upgrade)
    switch(agent_dir, upgrade.version)
    return upgrade


def confirm(cache_dir: Path, session: str) -> bool:
    """Record that the master welcomed this agent; return whether a change waited for that."""
    upgrade = read(cache_dir)
    if upgrade is None or upgrade.state is not UpgradeState.switching:
        return False
    if upgrade.version != catena.__version__:
        return False
    write(cache_dir, replace(upgrade, state=UpgradeState.confirmed, session=session))
    return True


def fall_back(agent_dir: Path, cache_dir: Path, reason: str) -> bool:
    """Make `current` name the previous version; return whether a change was in progress."""
    upgrade = read(cache_dir)
    if upgrade is None or upgrade.state is not UpgradeState.switching:
        return False
    switch(agent_dir, upgrade.previous)
    write(cache_dir, replace(upgrade, state=UpgradeState.fell_back, reason=reason))
    return True


def take_back_unmade(agent_dir: Path, cache_dir: Path) -> bool:
    """Undo a change that a crash interrupted between its record and the switch.

    For a launcher, which runs as the version that `current` names. If the record names another
    one, neither the switch nor the start of the guard has happened.
    """
    upgrade = read(cache_dir)
    if upgrade is None or upgrade.version == catena.__version__:
        return False
    return fall_back(agent_dir, cache_dir, "this host or its agent stopped before the change")


def untold_failure(cache_dir: Path) -> str:
    """Return why the last change was undone; "" if `tell_failure` was called since."""
    upgrade = read(cache_dir)
    if upgrade is None or upgrade.state is not UpgradeState.fell_back or upgrade.told:
        return ""
    return f"agent {upgrade.version} was taken back: {upgrade.reason}"


def tell_failure(cache_dir: Path) -> None:
    """Record durably that a chain which waited for the new agent knows of `untold_failure`."""
    upgrade = read(cache_dir)
    if upgrade is not None and upgrade.state is UpgradeState.fell_back:
        write(cache_dir, replace(upgrade, told=True))


def _sync_tree(folder: Path) -> None:
    """Make all files below *folder* durable: the old version may soon be removed."""
    for where, _, names in os.walk(folder):
        for name in names:
            sync_file(Path(where) / name)
        sync_folder(where)


def _unpack(wheel: Path, site: Path) -> None:
    import zipfile

    try:
        with zipfile.ZipFile(wheel) as archive:
            for entry in archive.infolist():
                parts = Path(entry.filename).parts
                if Path(entry.filename).is_absolute() or ".." in parts:
                    raise BadWheelError(f"{wheel.name}: {entry.filename!r} leaves the folder")
            archive.extractall(site)
            bad = archive.testzip()
    except (zipfile.BadZipFile, OSError) as error:
        raise BadWheelError(f"{wheel.name}: {error}") from None
    if bad:
        raise BadWheelError(f"{wheel.name}: {bad} is damaged")


def _try_out(site: Path, version: str) -> None:
    """Import the new agent in a separate process: a version that cannot start is refused."""
    import subprocess

    code = (
        f"import sys; sys.path.insert(0, {str(site)!r}); import catena, catena.minion.daemon, "
        "catena.minion.launch, catena.minion.worker.template; print(catena.__version__)"
    )
    environment: Dict[str, str] = {"PATH": os.defpath, "LANG": "C.UTF-8"}
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", code],
            capture_output=True,
            timeout=_TRIAL_SECONDS,
            env=environment,
            cwd="/",
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CommandExecutionError(f"agent {version} does not start: {error}") from None
    said = done.stdout.decode("utf-8", "replace").strip()
    if done.returncode or said != version:
        why = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or [said]
        raise CommandExecutionError(f"agent {version} does not start: {why[0]}")
