"""A ping of a host that is known: does it let us in, and are its Python and our program there?

The whole program takes a tenth of a second of a host's time to begin, and a ping uses nothing of
it. So a host that was visited before is asked whether all that a visit needs is as it was; a few
lines of Python say so. Nothing that lies on the host is run. Where anything is not as it was (no
program, that of another version, a folder that is not the user's alone, a Python that does not
start) the whole visit follows, which sets it right or says what is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

from catena.core.config.master import MasterSettings
from catena.core.job import JobSpec
from catena.fileserver.index import RootOptions
from catena.fileserver.roots import RootsClient
from catena.ssh.connect.cache import cache_of
from catena.ssh.connect.errors import ChannelLostError, Phase, SshError
from catena.ssh.connect.link import Connection
from catena.ssh.connect.target import Target
from catena.ssh.push.custom_names import CustomNames
from catena.ssh.push.kept_bundle import kept_bundle
from catena.ssh.push.remembered import Ground, Remembered

#: What a knock answers.
FUNCTION = "test.ping"
_CUSTOM = "_modules/"
#: What a host says where all is as it was.
_HERE = b"catena-here\n"
#: Runs there: the room, and the bundle in it.
_LOOK = """
import os, sys
for path, kind in zip(sys.argv[1:], (0o040000, 0o100000)):
    found = os.lstat(path)
    if found.st_mode & 0o170022 != kind or found.st_uid != os.geteuid():
        sys.exit(1)
sys.stdout.write("catena-here\\n")
"""


class Knocks:
    """The knocks of one command.

    Args:
        settings: of this master.
        spec: what the command asks of its hosts.
    """

    def __init__(self, settings: MasterSettings, spec: JobSpec) -> None:
        self._settings = settings
        self._asked = spec.fun == FUNCTION and not spec.args and not spec.kwargs
        #: Environment -> whether custom files of it may stand in place of our function.
        self._taken: dict[str, bool] = {}

    def suit(self, target: Target) -> bool:
        """Return whether a knock may answer what *target* is asked.

        Raises:
            ConfigError: this master can keep nothing, and so knows no host.
        """
        if not self._asked or self._remembered().recall(target) is None:
            return False
        environments = dict.fromkeys((str(target.minion_opts.get("saltenv") or "base"), "base"))
        return not any(self._is_taken(one) for one in environments)

    def answered(self, connection: Connection) -> bool:
        """Return whether all is as it was on a host; False: the whole visit has to tell.

        Raises:
            SshError: it is not to be reached now, and a visit would find the same.
        """
        known = self._remembered()
        ground = known.recall(connection.target)
        sha256 = kept_bundle(cache_of(self._settings)).sha256
        if ground is None:
            return False
        try:
            done = connection.run(
                knock(ground, sha256), timeout=self._settings.ssh_timeout, phase=Phase.start
            )
        except SshError as error:
            if error.waits and not isinstance(error, ChannelLostError):
                raise
            return False
        return done.code == 0 and done.stdout == _HERE

    def _remembered(self) -> Remembered:
        return Remembered(cache_of(self._settings) / "hosts")

    def _is_taken(self, saltenv: str) -> bool:
        if saltenv not in self._taken:
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
            self._taken[saltenv] = FUNCTION.partition(".")[0] in names
        return self._taken[saltenv]


def knock(ground: Ground, sha256: str) -> Sequence[str]:
    """Return what asks a host whether all is as it was, for `Connection.run`.

    Args:
        ground: where our program runs there.
        sha256: of the bundle.
    """
    # Without what an installation adds to Python when it starts: nothing of it is used.
    start = [ground.python, "-I", "-S", "-c", _LOOK]
    return [*start, ground.room, f"{ground.room}/bundles/{sha256}.zip"]
