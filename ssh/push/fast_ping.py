"""A fast ping of a known host: check the login, its Python and catena's program.

The program takes a tenth of a second to start on the host, and a ping does not use it. On a host
that was visited before, a few lines of Python check the preconditions of a visit instead. Nothing
that is stored on the host is executed. If a precondition fails (no program, another version, a
folder with wrong permissions, a Python that does not start), a normal visit follows, which repairs
or reports the problem.
"""

from __future__ import annotations

from collections.abc import Sequence

from catena.core.config.master import MasterSettings
from catena.core.job import JobSpec
from catena.fileserver.index import RootOptions
from catena.fileserver.roots import RootsClient
from catena.ssh.connect.cache import cache_of
from catena.ssh.connect.errors import ChannelLostError, PushPhase, SshError
from catena.ssh.connect.link import Connection
from catena.ssh.connect.target import SshTarget
from catena.ssh.push.custom_names import CustomNames
from catena.ssh.push.kept_bundle import kept_bundle
from catena.ssh.push.remembered import Ground, Remembered

#: The only function that the check can answer.
FUNCTION = "test.ping"
_CUSTOM = "_modules/"
#: Output of the check if all preconditions hold.
_HERE = b"catena-here\n"
#: Python code for the host; arguments: the private folder, and the bundle in it.
_CHECK = """
import os, sys
for path, kind in zip(sys.argv[1:], (0o040000, 0o100000)):
    found = os.lstat(path)
    if found.st_mode & 0o170022 != kind or found.st_uid != os.geteuid():
        sys.exit(1)
sys.stdout.write("catena-here\\n")
"""


class FastPings:
    """The fast pings of one command.

    Args:
        settings: of this master.
        spec: the job of the command.
    """

    def __init__(self, settings: MasterSettings, spec: JobSpec) -> None:
        self._settings = settings
        self._asked = spec.fun == FUNCTION and not spec.args and not spec.kwargs
        #: By environment: whether its custom files may replace the built-in function.
        self._overridden: dict[str, bool] = {}

    def applies_to(self, target: SshTarget) -> bool:
        """Return whether a fast ping may answer the job for *target*.

        Raises:
            ConfigError: the cache folder can't be used.
        """
        if not self._asked or self._remembered().recall(target) is None:
            return False
        environments = dict.fromkeys((str(target.minion_opts.get("saltenv") or "base"), "base"))
        return not any(self._is_overridden(one) for one in environments)

    def succeeds(self, connection: Connection) -> bool:
        """Return whether all preconditions hold on a host; False: make a normal visit.

        Raises:
            SshError: the host can't be reached, and a visit would fail in the same way.
        """
        known = self._remembered()
        ground = known.recall(connection.target)
        sha256 = kept_bundle(cache_of(self._settings)).sha256
        if ground is None:
            return False
        try:
            done = connection.run(
                check_command(ground, sha256),
                timeout=self._settings.ssh_timeout,
                phase=PushPhase.start,
            )
        except SshError as error:
            if error.waits and not isinstance(error, ChannelLostError):
                raise
            return False
        return done.code == 0 and done.stdout == _HERE

    def _remembered(self) -> Remembered:
        return Remembered(cache_of(self._settings) / "hosts")

    def _is_overridden(self, saltenv: str) -> bool:
        if saltenv not in self._overridden:
            settings = self._settings
            options = RootOptions.of(
                settings.fileserver_followsymlinks,
                settings.file_ignore_glob,
                settings.file_ignore_regex,
            )
            roots = RootsClient(settings.file_roots, options)
            entries = roots.entries(saltenv, _CUSTOM)
            local = {one.path[len(_CUSTOM) :]: roots.fetch(one.path, saltenv) for one in entries}
            names = CustomNames({path: file for path, file in local.items() if file is not None})
            self._overridden[saltenv] = FUNCTION.partition(".")[0] in names
        return self._overridden[saltenv]


def check_command(ground: Ground, sha256: str) -> Sequence[str]:
    """Return the command that checks the preconditions, for `Connection.run`.

    Args:
        ground: interpreter and folder of the program on the host.
        sha256: of the bundle.
    """
    # -S skips site packages, which are not needed.
    start = [ground.python, "-I", "-S", "-c", _CHECK]
    return [*start, ground.room, f"{ground.room}/bundles/{sha256}.zip"]
