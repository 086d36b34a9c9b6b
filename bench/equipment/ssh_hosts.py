"""Fixture: an sshd on the loopback device that stands for many hosts, with tools' inventories."""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from bench.equipment.fleet import Daemon
from bench.errors import NotHereError
from bench.lab import Lab
from bench.measure import Ran, run
from bench.row import Sample
from bench.surroundings import environment, free_ports, wait_for

#: Names of the hosts in rows.
HOSTS = tuple(f"h{number:02d}" for number in range(20))
FILES = 50
#: The interpreter of the hosts, for all tools.
_PYTHON = "/usr/bin/python3"
_QUIET = ("-o", "BatchMode=yes", "-o", "LogLevel=ERROR")


class SshHosts:
    """Twenty names of one sshd, with a folder per tool and host.

    Attributes:
        out: where the 50 files go on a host.
    """

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.folder = lab.folder("ssh")
        self.port = free_ports(1)
        self.out = self.folder / "out"
        self.rooms = self.folder / "rooms"
        self._sshd = shutil.which("sshd", path=f"{os.defpath}:/usr/sbin:/usr/local/sbin")
        if self._sshd is None:
            raise NotHereError("there is no sshd here")
        self._keys()
        self._tree()
        self._lists()
        self._daemon = self._start()

    # -- what the hosts are --

    def _keys(self) -> None:
        for name in ("host", "user"):
            words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "bench"]
            subprocess.run(
                [*words, "-f", str(self.folder / name)], check=True, stdin=subprocess.DEVNULL
            )
        key = " ".join((self.folder / "host.pub").read_text().split()[:2])
        self.known = self.folder / "known_hosts"
        self.known.write_text(f"[127.0.0.1]:{self.port} {key}\n", encoding="utf-8")

    def _start(self) -> Daemon:
        config = self.folder / "sshd_config"
        config.write_text(
            f"""ListenAddress 127.0.0.1:{self.port}
HostKey {self.folder / "host"}
PidFile none
AuthorizedKeysFile {self.folder / "user.pub"}
StrictModes no
UsePAM no
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication no
PrintMotd no
PrintLastLog no
MaxStartups 200
# A bash that thinks it is nested reads no .bashrc, whoever measures.
SetEnv PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin SHLVL=2
Subsystem sftp internal-sftp
""",
            encoding="utf-8",
        )
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        reaper = Path(__file__).parents[1] / "reaper.py"
        words: list[str | Path] = [
            sys.executable,
            reaper,
            str(self._sshd),
            "-D",
            "-e",
            "-f",
            config,
        ]
        daemon = Daemon(words, str(self.folder), self.folder / "sshd.log")
        return daemon.until("sshd", self._listens)

    def _listens(self) -> bool:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.connect(("127.0.0.1", self.port))
            return True
        return False

    # -- what the tools are told --

    def _tree(self) -> None:
        self.states = self.folder / "states"
        (self.states / "files").mkdir(parents=True)
        wanted = {}
        for number in range(FILES):
            name = f"f{number:02d}.txt"
            (self.states / "files" / name).write_text(f"file {number}\n" * 20, encoding="utf-8")
            source = {"source": f"salt://files/{name}"}
            wanted[str(self.out / name)] = {"file.managed": [source, {"makedirs": True}]}
        (self.states / "fifty.sls").write_text(yaml.safe_dump(wanted), encoding="utf-8")

    def _lists(self) -> None:
        user = getpass.getuser()
        for tool in ("catena", "salt"):
            config = self.folder / tool
            config.mkdir()
            roster = {name: self._host(tool, name, user) for name in HOSTS}
            (config / "roster").write_text(yaml.safe_dump(roster), encoding="utf-8")
        nothing = self.folder / "ssh_config"
        nothing.write_text("", encoding="utf-8")
        common = {"file_roots": {"base": [str(self.states)]}}
        catena = {
            "ssh_known_hosts_file": str(self.known),
            "ssh_config_file": str(self.folder / "ssh_config"),
        }
        self._write("catena/master", {**common, **catena, "root_dir": str(self.folder / "c")})
        salt = self.folder / "salt"
        places = {"root_dir": str(salt), "cachedir": str(salt / "cache"), "log_file": "log"}
        self._write("salt/master", {**common, **places, "pki_dir": str(salt / "pki")})
        self._pyinfra(user)
        self._ansible(user)

    def _host(self, tool: str, name: str, user: str) -> dict[str, object]:
        host: dict[str, object] = {
            "host": "127.0.0.1",
            "port": self.port,
            "user": user,
            "priv": str(self.folder / "user"),
            "thin_dir": str(self.rooms / f"{tool}-{name}"),
        }
        if tool == "salt":
            host["ssh_options"] = [f"UserKnownHostsFile={self.known}"]
        return host

    def _pyinfra(self, user: str) -> None:
        data = {
            "ssh_hostname": "127.0.0.1",
            "ssh_port": self.port,
            "ssh_user": user,
            "ssh_key": str(self.folder / "user"),
            "ssh_known_hosts_file": str(self.known),
        }
        for label, names in (("one", HOSTS[:1]), ("all", HOSTS)):
            text = f"hosts = {[(name, data) for name in names]!r}\n"
            (self.folder / f"inventory_{label}.py").write_text(text, encoding="utf-8")
        (self.folder / "deploy.py").write_text(
            f"""from pyinfra.operations import files

for number in range({FILES}):
    name = f"f{{number:02d}}.txt"
    files.put(src={str(self.states / "files")!r} + "/" + name, dest={str(self.out)!r} + "/" + name)
""",
            encoding="utf-8",
        )

    def _ansible(self, user: str) -> None:
        common = {
            "ansible_host": "127.0.0.1",
            "ansible_port": self.port,
            "ansible_user": user,
            "ansible_ssh_private_key_file": str(self.folder / "user"),
            "ansible_python_interpreter": _PYTHON,
            "ansible_ssh_common_args": f"-o UserKnownHostsFile={self.known}",
        }
        inventory = {"all": {"hosts": {name: {} for name in HOSTS}, "vars": common}}
        self._write("inventory.yml", inventory)
        tasks = [
            {
                "ansible.builtin.copy": {
                    "src": str(self.states / "files" / f"f{number:02d}.txt"),
                    "dest": f"{self.out}/f{number:02d}.txt",
                }
            }
            for number in range(FILES)
        ]
        play = [{"hosts": HOSTS[0], "gather_facts": False, "tasks": tasks}]
        (self.folder / "play.json").write_text(json.dumps(play), encoding="utf-8")

    def _write(self, name: str, data: object) -> None:
        (self.folder / name).write_text(yaml.safe_dump(data), encoding="utf-8")

    # -- measured commands --

    def catena(self, *words: str) -> Sample:
        """Run `catena ssh WORDS`."""
        command = self.lab.tools.command("catena", "catena")
        return self._measured([command, "-c", self.folder / "catena", "ssh", *words])

    def salt(self, *words: str) -> Sample:
        """Run `salt-ssh WORDS`."""
        command = self.lab.tools.command("salt", "salt-ssh")
        own: list[str | Path] = [
            "-c",
            self.folder / "salt",
            "--roster-file",
            self.folder / "salt/roster",
        ]
        return self._measured([command, *own, *words])

    def ansible(self, *words: str) -> Sample:
        """Run `ansible WORDS`, or `ansible-playbook` with a play alone."""
        name = "ansible-playbook" if len(words) == 1 else "ansible"
        command = self.lab.tools.command("ansible", name)
        return self._measured([command, "-i", self.folder / "inventory.yml", *words])

    def pyinfra(self, hosts: str, *words: str) -> Sample:
        """Run `pyinfra` on "one" host or "all"."""
        command = self.lab.tools.command("pyinfra", "pyinfra")
        return self._measured([command, "-y", self.folder / f"inventory_{hosts}.py", *words])

    def openssh(self) -> Sample:
        """Run `ssh HOST true`, the cost of a connection."""
        own: list[str | Path] = [
            "-i",
            self.folder / "user",
            "-p",
            str(self.port),
            "-F",
            "/dev/null",
            *_QUIET,
        ]
        known = ["-o", f"UserKnownHostsFile={self.known}"]
        return self._measured(["ssh", *own, *known, f"{getpass.getuser()}@127.0.0.1", "true"])

    def _measured(self, words: Sequence[str | Path]) -> Sample:
        before = self._daemon.tree.cpu()
        ran = self._ran(words)
        # Work after the answer counts too.
        wait_for("an idle sshd", self._is_idle, 120)
        return Sample(ran.wall, ran.cpu + self._daemon.tree.cpu() - before)

    def _ran(self, words: Sequence[str | Path]) -> Ran:
        settings = {
            "ANSIBLE_PIPELINING": "True",
            "ANSIBLE_FORKS": "20",
            "ANSIBLE_HOME": str(self.folder / "ansible"),
            "ANSIBLE_SSH_ARGS": "-o ControlMaster=auto -o ControlPersist=60s",
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(self.folder / "cp"),
            # A separate home hides the user's configuration, keys and caches.
            "HOME": str(self.folder),
        }
        return run(words, {**environment(), **settings})

    def _is_idle(self) -> bool:
        # The reaper and the listener remain; Ansible keeps one connection per host.
        return len(self._daemon.tree.pids()) <= 2 or (self.folder / "cp").exists()

    def clean(self, path: Path) -> None:
        """Remove a folder of the hosts."""
        shutil.rmtree(path, ignore_errors=True)

    def close(self) -> None:
        """End sshd and all its children."""
        self._daemon.close()
