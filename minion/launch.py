"""`catena minion`: read the configuration, collect grains, then become the lean daemon."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import Any, Mapping, NoReturn

from catena.core import frozen, records
from catena.core.checkup import is_locked
from catena.core.config import placeholders
from catena.core.errors import CatenaError, ConfigError
from catena.core.privileges import become, keep_files_private
from catena.minion import upgrade
from catena.minion.jobs.inline import resume_file
from catena.minion.start import blob, configure
from catena.minion.start.blob import StartData
from catena.minion.start.interpreter import python_argv
from catena.minion.start.place import collect_grains, place_of
from catena.renderers import config_files
from catena.runtime import agent_versions

#: Printed on stderr at each start before the settings of Salt that have no effect here.
_WITHOUT_EFFECT = "these settings have no effect here: "


def launch(config_dir: Path, overrides: Mapping[str, Any] = {}) -> NoReturn:
    """Replace this process by the minion daemon.

    If another version of the agent is `current`, its launcher takes over first, without
    *overrides*, which it may not support.

    Args:
        config_dir: folder of the configuration.
        overrides: settings that take precedence over the files (command line options).

    Raises:
        ConfigError: the configuration cannot be used.
        BadNameError: this host has no valid name.
    """
    if not config_files.files(config_dir / "minion"):
        raise ConfigError(
            f"{config_dir / 'minion'}: there is no such file; it must at least set `master:`, the "
            "address of this minion's master"
        )
    configured = configure.read(config_dir, overrides)
    # Before the first file is created. Commands that only read keep their caller's umask.
    keep_files_private()
    agent_dir = Path(configured.settings.agent_dir)
    if not upgrade.is_current(agent_dir):
        argv = upgrade.launch_argv(agent_dir, str(config_dir.resolve()))
        os.execv(argv[0], argv)
    if configured.loaded.without_effect:
        sys.stderr.write(_WITHOUT_EFFECT + ", ".join(configured.loaded.without_effect) + "\n")
    for text in (*configured.loaded.not_yet, *placeholders.findings(configured.settings)):
        sys.stderr.write(f"{text}\n")
    if not configured.settings.master and configured.settings.file_client == "remote":
        sys.stderr.write("`master:` is not set: this minion only runs its own jobs\n")
    become(configured.settings.user)
    if _owes_change(Path(configured.settings.cache_dir)):
        argv = upgrade.restart_argv(configured.settings, str(config_dir.resolve()))
        os.execv(argv[0], argv)
    start = prepare(configure.start_of(configured, config_dir))
    handle = blob.write(start)
    argv = python_argv("catena.minion.daemon", str(handle))
    os.execv(argv[0], argv)


def _owes_change(cache_dir: Path) -> bool:
    """Return whether an agent ended before it could change to another version.

    A running agent has its reasons to wait, and starting a second one would change nothing.
    """
    return upgrade.wants_restart(cache_dir) and not is_locked(cache_dir / "lock")


def prepare(start: StartData) -> StartData:
    """Return *start* with grains, and with what the runtime knows about chains on this host."""
    return with_chains(frozen.replace(start, grains=collect_grains(start)))


def with_chains(start: StartData) -> StartData:
    """Return *start* with what the runtime knows about chains and agent versions on this host.

    A failed change of agent versions is settled here.
    """
    agent_versions.take_back_unmade(Path(start.settings.agent_dir), start.cache_dir)
    failure = agent_versions.untold_failure(start.cache_dir)
    if not (failure or (start.cache_dir / "chains").is_dir() or resume_file(start.conf_dir)):
        # Most hosts have no chains; the rest takes a twentieth of an agent's start.
        return start
    from catena.runtime import chain_run, lost_resume

    place = place_of(start)
    if failure:
        # A chain that waits for the new agent must fail, not continue with the old one. Record the
        # failure as reported only after that is durable: a crash in between repeats it.
        chain_run.refuse_boundary(place, failure)
        with contextlib.suppress(OSError):  # a full disk must not prevent the agent's start
            agent_versions.tell_failure(start.cache_dir)
    after = chain_run.pending_after(place)
    if (start.cache_dir / "chains").is_dir():
        lost_resume.report_lost_file(place)
    chain = chain_run.open_chain(place)
    return frozen.replace(
        start,
        pending_resume=chain_run.pending_resume(place),
        # A chain left unfinished by a crash or a power failure blocks later chains even if its job
        # is cancelled.
        open_chain=chain.chain_id if chain else 0,
        pending_after=records.encode(after) if after else {},
    )


def main() -> None:
    """Launch as `python -m`, to restart an agent. sys.argv[1]: folder of the configuration."""
    try:
        launch(Path(sys.argv[1]))
    except CatenaError as error:
        sys.stderr.write(f"catena minion: {error}\n")
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
