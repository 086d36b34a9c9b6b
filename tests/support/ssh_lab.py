"""A master with hosts that are only reachable over SSH, and real minions, on this machine.

Each host is a port of one sshd with a room, a boot id and a reboot command of its own. A reboot
writes another boot id, and keeps the host down where the test says so (`stays`); the first one of
a `lazy` host does not happen.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import yaml
from fleet import Fleet, FleetError, wait_for

from catena.core.errors import CatenaError
from catena.core.failpoints import LOG_VARIABLE, VARIABLE
from tests.support.ssh_server import USER, SshServer

#: A login shell of a host: while it is down it says so, as pam_nologin does.
SHELL = """#!/bin/sh
if test -e "$(dirname "$0")/{name}/down"; then
  echo "System is going down. Unprivileged users are not permitted to log in anymore." >&2
  exit 1
fi
exec /bin/sh -c "$1"
"""
REBOOT = """#!/bin/sh
test -e {home}/lazy && rm {home}/lazy && exit 0
test -e {home}/stays && touch {home}/down
echo "$(cat {home}/boot_id)+" > {home}/next
mv {home}/next {home}/boot_id
"""
_DEADLINE = 200.0


class Lab(Fleet):
    """A fleet with hosts of a roster.

    Args:
        folder: where everything lies; short.
        server: the sshd, one kind a host.
        names: the hosts.
        minions: real minions beside them.
    """

    def __init__(
        self, folder: Path, server: SshServer, names: Sequence[str], minions: Sequence[str] = ()
    ) -> None:
        self.server = server
        self.points = ""
        states = folder / "states"
        states.mkdir(parents=True)
        settings = {
            "file_roots": {"base": [str(states)]},
            "ssh_known_hosts_file": str(server.known_hosts),
            "ssh_reboot_minutes": 0.02,
            "testing": True,
            "log_level": "debug",
        }
        super().__init__(folder, {name: {} for name in minions}, settings)
        roster = {}
        for name in names:
            home = self.host(name)
            home.mkdir()
            (home / "boot_id").write_text(f"{name}-boot\n")
            (home / "reboot").write_text(REBOOT.format(home=home))
            (home / "reboot").chmod(0o755)
            roster[name] = {
                "host": "127.0.0.1",
                "port": server.ports[name],
                "user": USER,
                "thin_dir": str(home / "room"),
                "minion_opts": {
                    "boot_id_file": str(home / "boot_id"),
                    "reboot_command": [str(home / "reboot")],
                    "machine_id": f"machine-{name}",
                },
            }
        (self.config / "roster").write_text(yaml.safe_dump(roster))

    def host(self, name: str) -> Path:
        """Return the folder of one host."""
        return self.server.folder / name

    def environment(self, name: str) -> Mapping[str, str]:
        """Return the environment of a daemon: the client's home, and the master's failpoints."""
        own = {**os.environ, "HOME": str(self.server.home)}
        own.pop("SSH_AUTH_SOCK", None)
        if name == "master" and self.points:
            own |= {VARIABLE: self.points, LOG_VARIABLE: str(self.folder / "hits")}
        return own

    # -- chains --------------------------------------------------------------------------------

    def chain(self, label: str, *steps: tuple[str, ...]) -> None:
        """Make a chain of actions, each (target, option, …), and schedule it."""
        self.catena("chain", "create", label)
        for target, *words in steps:
            self.catena("chain", "add", label, "-t", target, *words)
        self.catena("chain", "schedule", label)

    def statuses(self, label: str) -> dict[str, list[str]]:
        """Return the statuses of a chain's actions, by host."""
        minions = self.shown(label)["minions"]
        return {m["minion"]: [a["status"] for a in m["actions"]] for m in minions}

    def note(self, label: str, host: str) -> str:
        """Return what is said of a chain on one host."""
        return next(str(m["note"]) for m in self.shown(label)["minions"] if m["minion"] == host)

    def await_end(self, label: str, state: str = "done") -> None:
        """Wait until a chain has ended, as *state*."""
        found: str = wait_for(f"the end of {label}", lambda: self.ended(label), _DEADLINE)
        assert found == state, self.catena("chain", "show", label).stdout

    def ended(self, label: str) -> str:
        """Return as what a chain has ended; "": it has not, or the master does not say."""
        state = ""
        with contextlib.suppress(CatenaError):
            state = str(self.shown(label)["state"])
        return state if state in ("done", "failed", "cancelled") else ""

    def await_note(self, label: str, host: str, text: str) -> str:
        """Wait until *text* is said of a chain on a host; return all of it."""

        def found() -> str:
            said = self.note(label, host)
            return said if text in said else ""

        said: str = wait_for(f"{text!r} of {host}", found, _DEADLINE)
        return said

    # -- effects -------------------------------------------------------------------------------

    def mark(self, file: str, word: str) -> str:
        """Return a command that leaves a word outside the product."""
        return f"echo {word} >> {self.folder / file}"

    def marks(self, file: str) -> Counter[str]:
        """Return how often each word was left."""
        path = self.folder / file
        return Counter(path.read_text().split()) if path.exists() else Counter()

    def await_mark(self, file: str) -> None:
        """Wait until a file is there."""
        wait_for(file, (self.folder / file).exists, _DEADLINE)

    def runs(self, name: str) -> list[Path]:
        """Return the folders of the runs that lie on a host."""
        return sorted((self.host(name) / "room" / "runs").glob("[0-9]*"))

    def kill_run(self, name: str, *whom: str) -> None:
        """Kill processes of the newest run on a host: "runner", "worker"."""
        run = self.runs(name)[-1]
        for each in whom:
            os.kill(json.loads((run / each).read_text())["pid"], signal.SIGKILL)

    def alive(self) -> bool:
        """Start the master again where a failpoint has killed it; return whether it lived."""
        if self._master is not None and self._master.poll() is None:
            return True
        self.stop_master()
        with contextlib.suppress(FleetError):
            self.start_master()
        return False


@contextmanager
def lab(names: Sequence[str], minions: Sequence[str] = ()) -> Iterator[Lab]:
    """Give a lab whose master runs, and clean up after it."""
    folder = Path(tempfile.mkdtemp(prefix="cat-"))
    try:
        shells = {name: SHELL.format(name=name) for name in names}
        with SshServer(shells) as server:
            found = Lab(folder, server, names, minions)
            with found:
                found.start_master()
                if minions:
                    found.start_minions()
                    found.accept_all()
                yield found
    finally:
        shutil.rmtree(folder, ignore_errors=True)
