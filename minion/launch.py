"""`catena minion`: reads the configuration, collects grains, then becomes the lean daemon."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import Any, Mapping, NoReturn

from catena.core import frozen, records
from catena.core.checkup import is_locked
from catena.core.errors import CatenaError, ConfigError
from catena.core.privileges import become, keep_files_private
from catena.minion import upgrade
from catena.minion.jobs.inline import resume_file
from catena.minion.start import blob, configure
from catena.minion.start.blob import Start
from catena.minion.start.interpreter import python_argv
from catena.minion.start.place import collect_grains, place_of
from catena.renderers import config_files
from catena.runtime import agent_versions

#: Says on stderr, once per start, what a Salt configuration has that means nothing here.
_WITHOUT_EFFECT = "these settings have no effect here: "


def launch(config_dir: Path, overrides: Mapping[str, Any] = {}) -> NoReturn:
    """Replace this process by the minion daemon.

    Where another version of the agent is `current`, its launcher takes over first, without
    *overrides*, which it may not know.

    Args:
        config_dir: folder of the configuration.
        overrides: settings that win over the files (options of a command line).

    Raises:
        ConfigError: the configuration can't be used.
        BadNameError: this host has no usable name.
    """
    if not config_files.files(config_dir / "minion"):
        raise ConfigError(
            f"{config_dir / 'minion'}: there is no such file; it says at least which `master:` "
            "this minion has"
        )
    configured = configure.read(config_dir, overrides)
    # Before the first file is made; what only reads the configuration keeps its caller's umask.
    keep_files_private()
    agent_dir = Path(configured.settings.agent_dir)
    if not upgrade.is_current(agent_dir):
        argv = upgrade.launch_argv(agent_dir, str(config_dir.resolve()))
        os.execv(argv[0], argv)
    if configured.loaded.without_effect:
        sys.stderr.write(_WITHOUT_EFFECT + ", ".join(configured.loaded.without_effect) + "\n")
    for text in configured.loaded.not_yet:
        sys.stderr.write(f"{text}\n")
    if not configured.settings.master and configured.settings.file_client == "remote":
        sys.stderr.write("no `master:` is set: this minion has nothing to do but its own jobs\n")
    become(configured.settings.user)
    if _owes_change(Path(configured.settings.cache_dir)):
        argv = upgrade.restart_argv(configured.settings, str(config_dir.resolve()))
        os.execv(argv[0], argv)
    start = prepare(configure.start_of(configured, config_dir))
    handle = blob.write(start)
    argv = python_argv("catena.minion.daemon", str(handle))
    os.execv(argv[0], argv)


def _owes_change(cache_dir: Path) -> bool:
    """Return whether an agent was to become another version, and ended before it could.

    One that runs has its reasons to wait: a second one beside it changes nothing.
    """
    return upgrade.wants_restart(cache_dir) and not is_locked(cache_dir / "lock")


def prepare(start: Start) -> Start:
    """Return *start* with grains, and with what the runtime knows of chains on this host."""
    return with_chains(frozen.replace(start, grains=collect_grains(start)))


def with_chains(start: Start) -> Start:
    """Return *start* with what the runtime knows of chains and agent versions on this host.

    A change of agents that did not come about is settled here.
    """
    agent_versions.take_back_unmade(Path(start.settings.agent_dir), start.cache_dir)
    failure = agent_versions.untold_failure(start.cache_dir)
    if not (failure or (start.cache_dir / "chains").is_dir() or resume_file(start.conf_dir)):
        # Most hosts: what follows is a twentieth of an agent's start.
        return start
    from catena.runtime import chain_run

    place = place_of(start)
    if failure:
        # A chain that waits for the new agent must fail there, not go on under the old one. Noted
        # as told only once that is on disk: a cut in between refuses it at the next start.
        chain_run.refuse_boundary(place, failure)
        with contextlib.suppress(OSError):  # a full disk does not keep the agent away
            agent_versions.tell_failure(start.cache_dir)
    after = chain_run.pending_after(place)
    chain = chain_run.open_chain(place)
    return frozen.replace(
        start,
        pending_resume=chain_run.pending_resume(place),
        # One that a cut met in its midst holds others back, too, should its job be called off.
        open_chain=chain.chain_id if chain else 0,
        pending_after=records.encode(after) if after else {},
    )


def main() -> None:
    """Launch as `python -m`: the restart of an agent. sys.argv[1]: the configuration's folder."""
    try:
        launch(Path(sys.argv[1]))
    except CatenaError as error:
        sys.stderr.write(f"catena minion: {error}\n")
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
