"""A real OpenSSH server on loopback, with a client's home beside it; for tests of SSH push.

It needs no root and changes nothing outside its folder. Each port of it is a host of its own kind:
what stands between sshd and a command (a noisy profile, an odd shell) is a script of the test's.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest
from fleet import free_ports

from catena.core.ids import minion_id
from catena.ssh.connect.client_config import ClientFiles
from catena.ssh.connect.connection import SshConnection, open_connection
from catena.ssh.connect.host_keys import lookup_name
from catena.ssh.connect.target import SshTarget

USER = pwd.getpwuid(os.geteuid()).pw_name


def find_sshd() -> str:
    """Return the path of sshd; skip the test where there is none."""
    found = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if found is None:
        pytest.skip("there is no sshd here")
    return found


def make_key(path: Path, kind: str = "ed25519", password: str = "") -> str:
    """Make a key pair at *path*; return the public line without its comment."""
    argv = ["ssh-keygen", "-q", "-t", kind, "-N", password, "-C", "test", "-f", str(path)]
    subprocess.run(argv, check=True, timeout=60, stdin=subprocess.DEVNULL)
    return " ".join(path.with_name(f"{path.name}.pub").read_text().split()[:2])


class SshServer:
    """sshd in a folder of its own; a context manager.

    Args:
        shells: kind of host -> script that stands in place of the login shell; it gets the
            command as $1. Each kind has its own port; "plain" is always there.
        path: folders before the PATH of what runs there.
        options: more lines of sshd_config, before the Match blocks.
    """

    def __init__(
        self, shells: Mapping[str, str] | None = None, path: str = "", options: Sequence[str] = ()
    ) -> None:
        self._sshd = find_sshd()
        self.folder = Path(tempfile.mkdtemp(prefix="cat-ssh-"))
        self.home = self.folder / "home"
        self._shells = {"plain": "", **(shells or {})}
        first = free_ports(len(self._shells))
        self.ports = {kind: port for port, kind in enumerate(self._shells, first)}
        self._path = path
        self._options = options
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> SshServer:
        (self.home / ".ssh").mkdir(parents=True, mode=0o700)
        key = make_key(self.home / ".ssh" / "id_ed25519")
        self.authorized_keys.write_text(f"{key}\n")
        self.host_key = make_key(self.folder / "host_ed25519")
        self.know(*self.ports)
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def authorized_keys(self) -> Path:
        """Whose keys may log in."""
        return self.folder / "authorized_keys"

    @property
    def known_hosts(self) -> Path:
        """catena's own file."""
        return self.home / "catena_known_hosts"

    def know(self, *kinds: str) -> None:
        """Have the client know the host keys of *kinds*."""
        lines = [f"{lookup_name('127.0.0.1', self.ports[kind])} {self.host_key}" for kind in kinds]
        self.known_hosts.write_text("".join(f"{line}\n" for line in lines))

    def start(self) -> None:
        """Start sshd; return when it listens."""
        config = self.folder / "sshd_config"
        config.write_text("\n".join(self._config()) + "\n")
        # Only root's sshd separates privileges, and insists on this folder.
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        self._process = subprocess.Popen(
            [self._sshd, "-D", "-e", "-f", str(config)],
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stderr is not None
        said = []
        for line in self._process.stderr:
            said.append(line)
            if sum("Server listening on" in text for text in said) == len(self.ports):
                break
        else:
            raise RuntimeError(f"sshd does not start: {''.join(said)}")
        self._log = subprocess.Popen(
            [sys.executable, "-c", "import sys; [None for _ in sys.stdin]"],
            stdin=self._process.stderr,
        )
        self._process.stderr.close()

    def stop(self) -> None:
        """End sshd and the sessions of its that are open."""
        if self._process is None:
            return
        for child in self._children():
            child_pid = int(child)
            try:
                os.kill(child_pid, 15)
            except ProcessLookupError:
                continue
        self._process.terminate()
        self._process.wait(60)
        self._log.wait(60)
        self._process = None

    def cut(self) -> None:
        """End every open connection, as a network does that goes away; sshd goes on."""
        for child in self._children():
            try:
                os.kill(int(child), 9)
            except ProcessLookupError:
                continue

    def _children(self) -> list[str]:
        assert self._process is not None
        pid = self._process.pid
        return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()

    def _config(self) -> list[str]:
        path = ":".join(filter(None, [self._path, "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"]))
        lines = [
            *(f"ListenAddress 127.0.0.1:{port}" for port in self.ports.values()),
            f"HostKey {self.folder / 'host_ed25519'}",
            f"PidFile {self.folder / 'pid'}",
            f"AuthorizedKeysFile {self.authorized_keys}",
            "StrictModes no",
            "UsePAM no",
            "PermitRootLogin yes",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "PrintMotd no",
            "PrintLastLog no",
            # A bash that thinks it is nested reads no .bashrc, whoever runs the tests.
            f"SetEnv PATH={path} SHLVL=2",
            "Subsystem sftp internal-sftp",
            *self._options,
        ]
        for kind, script in self._shells.items():
            if script:
                shell = self.folder / f"shell-{kind}"
                shell.write_text(script)
                shell.chmod(0o755)
                lines += [
                    f"Match LocalPort {self.ports[kind]}",
                    f'    ForceCommand {shell} "$SSH_ORIGINAL_COMMAND"',
                ]
        return lines

    def files(self, config: str = "", agent: str = "") -> ClientFiles:
        """Return the files of the client in its own home."""
        path = self.home / ".ssh" / "config"
        if config:
            path.write_text(config)
            path.chmod(0o600)
        return ClientFiles(self.home, (path,), self.known_hosts, agent)

    def target(self, kind: str = "plain", **fields: Any) -> SshTarget:
        """Return a target of one kind of host."""
        given: dict[str, Any] = {"user": USER, "timeout_seconds": 20, **fields}
        return SshTarget(minion_id(kind), "127.0.0.1", self.ports[kind], **given)

    def connect(self, kind: str = "plain", **fields: Any) -> SshConnection:
        """Return a connection to one kind of host."""
        return open_connection(self.target(kind, **fields), self.files())
