"""Hosts that are only reachable over SSH: Debian with systemd, sshd and users, without catena.

Every host is in the roster three times: as root by key (its name), as a user whose sudo asks
nothing (`NAME-free`), and as one who logs in by a password that sudo asks for (`NAME-asks`).
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml
from fleet import FleetError

from tests.reboot.machines import BOOT_SECONDS, Installation, Site, run
from tests.support.debian_roots import Root
from tests.support.ssh_server import make_key

CATENA = str(Path(sys.executable).with_name("catena"))
PASSWORD = "pass word$1'"
#: Users -> the line of sudoers that each has.
USERS = {"free": "free ALL=(ALL) NOPASSWD: ALL", "asks": "asks ALL=(ALL) ALL"}
_SSHD = """\
HostKey /etc/ssh/ssh_host_ed25519_key
PermitRootLogin prohibit-password
PasswordAuthentication yes
KbdInteractiveAuthentication no
UsePAM yes
PrintMotd no
Subsystem sftp internal-sftp
"""


class SshSite(Site):
    """A master, hosts that only SSH reaches, and minions beside them.

    Args:
        folder: where everything lies; short, for the master's socket.
        installation: what the minions have installed.
    """

    def __init__(self, folder: Path, installation: Installation) -> None:
        super().__init__(folder, installation)
        self.roster: dict[str, dict[str, Any]] = {}
        self.tree = folder / "tree"
        for part in ("states", "pillar"):
            (self.tree / part).mkdir(parents=True)
        self._key = folder / "id_ed25519"
        self._public = make_key(self._key)
        (folder / "ssh_config").write_text("")
        self.configure()

    def configure(self, **settings: Any) -> None:
        """Write the master's configuration; *settings* over those of every test."""
        given = {
            "log_file": "-",
            "auto_accept": True,
            "file_roots": {"base": [str(self.tree / "states")]},
            "pillar_roots": {"base": [str(self.tree / "pillar")]},
            "ssh_config_file": str(self.folder / "ssh_config"),
            "ssh_timeout": 20,
            **settings,
        }
        (self.config / "master").write_text(yaml.safe_dump(given))

    def add_bare(self, name: str, suite: str, binds: Sequence[str] = ()) -> Root:
        """Make a host with sshd and no agent; it is off. Return its disk."""
        witness = f"--bind={self.folder / 'witness'}:/witness"
        machine, master = self.plug_in(name, suite, [witness, *binds], packages="ssh")
        root = machine.root
        root.write("/etc/hosts", f"127.0.0.1 localhost\n127.0.1.1 {name}\n")
        root.write("/etc/ssh/sshd_config", _SSHD)
        self.new_host_key(name)
        self._keys(root, "/root")
        hashed = run("openssl", "passwd", "-6", PASSWORD).strip()
        for user, rule in USERS.items():
            root.run("useradd", "--create-home", "--shell", "/bin/bash", "-p", hashed, user)
            root.write(f"/etc/sudoers.d/{user}", f"{rule}\n", 0o440)
        self._keys(root, "/home/free")
        root.run("chown", "-R", "free:", "/home/free/.ssh")
        address = master.rpartition(".")[0] + ".2"
        key = {"host": address, "priv": str(self._key), "identities_only": True}
        self.roster |= {
            name: {**key, "user": "root"},
            f"{name}-free": {**key, "user": "free", "sudo": True},
            f"{name}-asks": {"host": address, "user": "asks", "passwd": PASSWORD, "sudo": True},
        }
        (self.config / "roster").write_text(yaml.safe_dump(self.roster))
        (self.config / "roster").chmod(0o600)
        return root

    def _keys(self, root: Root, home: str) -> None:
        root.write(f"{home}/.ssh/authorized_keys", f"{self._public}\n", 0o600)
        (root.path / f"{home.lstrip('/')}/.ssh").chmod(0o700)

    def new_host_key(self, name: str) -> None:
        """Give a host another key; sshd reads it for each connection."""
        path = self.machines[name].root.path / "etc/ssh/ssh_host_ed25519_key"
        path.unlink(missing_ok=True)
        path.with_name(f"{path.name}.pub").unlink(missing_ok=True)
        make_key(path)

    def power_on(self) -> None:
        """Boot every host; return when each is there, its host key trusted."""
        for machine in self.machines.values():
            machine.power_on()
        for name in self.bare():
            self.wait_sshd(name)
            self.catena("ssh-key", "trust", name, "--yes")

    def bare(self) -> list[str]:
        """Return the names of the hosts without an agent."""
        return [name for name in self.machines if name not in self.minions]

    def wait_sshd(self, name: str) -> None:
        """Wait until a host takes connections, and logins of anybody."""

        def takes() -> bool:
            with contextlib.suppress(FleetError):
                disk = Path(f"/proc/{self.machines[name].init()}/root")
                return self._listens(name) and not (disk / "run/nologin").exists()
            return False

        try:
            self.wait_for(f"sshd of {name}", takes, BOOT_SECONDS)
        except FleetError as error:
            raise FleetError(f"{error}\n{self._units(name)}") from error

    def _units(self, name: str) -> str:
        """Return what a host's systemd has done, for a failed test."""
        look = "systemctl list-jobs; systemctl --failed; journalctl --no-pager -n 60"
        try:
            return self.inside(name, "sh", "-c", look)
        except (FleetError, OSError, subprocess.SubprocessError) as error:
            return f"{name} can't be asked: {error}"

    def _listens(self, name: str) -> bool:
        probe = f"exec 3<>/dev/tcp/{self.roster[name]['host']}/22 && read -t 5 -u 3 line"
        argv = ["ip", "netns", "exec", self.network.master, "timeout", "5", "bash", "-c", probe]
        return subprocess.run(argv, capture_output=True, check=False).returncode == 0

    def catena(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run the installed command where the master is: only from there a host is reached."""
        done = subprocess.run(
            self._command(words),
            capture_output=True, text=True, timeout=240, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        if check and done.returncode:
            said = f"{done.stdout[-4000:]}{done.stderr[-4000:]}"
            raise FleetError(f"catena {' '.join(words)}: exit {done.returncode}\n{said}")
        return done

    @contextlib.contextmanager
    def catena_beside(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """Run the installed command while the test goes on."""
        with subprocess.Popen(
            self._command(words), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        ) as process:  # fmt: skip
            try:
                yield process
            finally:
                process.kill()

    def _command(self, words: Sequence[str]) -> list[str]:
        # `ip netns exec` becomes the command: it is one process.
        return ["ip", "netns", "exec", self.network.master, CATENA, "-c", str(self.config), *words]

    def answers(self, *words: str, check: bool = True) -> dict[str, Any]:
        """Return what `catena ssh` says, by host."""
        done = self.catena("ssh", *words, "--out", "json", check=check)
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def seen(self) -> list[tuple[str, ...]]:
        """Return what hosts noted outside themselves, a tuple of words for each line."""
        path = self.folder / "witness/seen"
        return (
            [tuple(line.split()) for line in path.read_text().splitlines()]
            if path.exists()
            else []
        )

    def forget_seen(self) -> None:
        """Forget what hosts noted."""
        (self.folder / "witness/seen").unlink(missing_ok=True)

    def inside(self, name: str, *argv: str) -> str:
        """Run a command in a running host, past its sshd; return what it printed."""
        return run("nsenter", "--all", f"--target={self.machines[name].init()}", "--", *argv)


@contextlib.contextmanager
def ssh_site(
    folder: Path, installation: Installation, fill: Callable[[SshSite], None]
) -> Iterator[SshSite]:
    """Yield a site with the hosts that *fill* makes, booted."""
    made = SshSite(folder, installation)
    try:
        fill(made)
        try:
            made.power_on()
        except FleetError as error:
            raise FleetError(f"{error}\n{made.logs()}") from error
        yield made
    finally:
        made.close()
