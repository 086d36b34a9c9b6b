"""Rows of states that look at the system: nothing is to be changed, so queries are what counts.

The states see a system of their own. Where they look at fixed places (apt's sources, packet
filters), the command runs in its own namespaces, which needs root or user namespaces.
"""

from __future__ import annotations

import base64
import getpass
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from bench import trees
from bench.errors import BenchError, NotHereError
from bench.lab import Lab
from bench.measure import run
from bench.row import Measure, Row, Sample, Times
from bench.surroundings import environment

STATES = 100
RULES = 50
#: Seconds for one run: Salt runs `pip list` for each pip.installed.
_PATIENCE = 1200.0
_APT = Path("/etc/apt/sources.list.d")


def _measured(tool: str, name: str, count: int, before: Sequence[str], kinds: str = "") -> Measure:
    """Return a measurement of `state.apply NAME`, in which nothing changes.

    Args:
        tool: catena or salt.
        name: of the SLS file; its text comes from TREES.
        count: number of its states.
        before: commands of a shell that prepare the namespaces; {folder} is the lab's folder.
        kinds: namespaces as unshare names them, "" for none.
    """

    def measured(lab: Lab) -> Sample:
        folder = lab.folder(f"system-{name}")
        _prepare(folder, name)
        words = [str(word) for word in _command(lab, tool, folder, name)]
        if kinds:
            steps = [step.format(folder=shlex.quote(str(folder))) for step in before]
            script = " && ".join([*steps, f"exec {shlex.join(words)}"])
            words = ["unshare", kinds, *(["-r"] if os.geteuid() else []), "sh", "-c", script]
        ran = run(words, environment(), _PATIENCE, check=False)
        trees.check_run(ran.out or ran.err, count, 0)
        return Sample(ran.cpu)

    return measured


def _prepare(folder: Path, name: str) -> None:
    """Write the tree and the files that it finds in place."""
    if (folder / "states").exists():
        return
    if name == "pip":
        run([sys.executable, "-m", "venv", folder / "venv"], environment())
    (folder / "states").mkdir()
    files, sls = TREES[name](folder)
    for path, text in files.items():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o600 if name == "ssh_auth" else 0o644)
    (folder / "states" / f"{name}.sls").write_text(yaml.safe_dump(sls), encoding="utf-8")


def _command(lab: Lab, tool: str, folder: Path, name: str) -> list[str | Path]:
    config = folder / tool
    config.mkdir(exist_ok=True)
    settings: dict[str, object] = {
        "id": "bench",
        "file_client": "local",
        "root_dir": str(config),
        "file_roots": {"base": [str(folder / "states")]},
    }
    command: list[str | Path] = [lab.tools.command("catena", "catena"), "call"]
    if tool == "salt":
        settings |= {
            "enable_gpu_grains": False,
            "enable_fqdns_grains": False,
            "pki_dir": str(config / "pki"),
            "cachedir": str(config / "cache"),
            "log_file": str(config / "log"),
        }
        command = [lab.tools.command("salt", "salt-call")]
    (config / "minion").write_text(yaml.safe_dump(settings), encoding="utf-8")
    tail: list[str | Path] = ["state.apply", name, "--out", "json"]
    return [*command, "--local", "--config-dir", config, *tail]


# -- trees: files in place, and the states ------------------------------------------------------

Tree = tuple[dict[Path, str], dict[str, object]]


def _repositories(folder: Path) -> Tree:
    if not _APT.is_dir():
        raise NotHereError("this machine has no apt")
    lines = [f"deb http://mirror.example/r{number:03d} stable main" for number in range(STATES)]
    place = str(_APT / "bench.list")
    sls: dict[str, object] = {
        line: {"pkgrepo.managed": [{"file": place}, {"refresh": False}]} for line in lines
    }
    return {folder / "apt" / "bench.list": "".join(f"{line}\n" for line in lines)}, sls


def _keys(folder: Path) -> Tree:
    place = folder / "ssh" / "authorized_keys"
    keys = [_key(number) for number in range(STATES)]
    options = [{"user": getpass.getuser()}, {"enc": "ssh-ed25519"}, {"config": str(place)}]
    sls: dict[str, object] = {
        key: {"ssh_auth.present": [*options, {"comment": f"key{number}"}]}
        for number, key in enumerate(keys)
    }
    text = "".join(f"ssh-ed25519 {key} key{number}\n" for number, key in enumerate(keys))
    return {place: text}, sls


def _key(number: int) -> str:
    """Return a public key of Ed25519 in the form of RFC 8709."""
    head = b"\0\0\0\x0bssh-ed25519\0\0\0\x20"
    return base64.b64encode(head + number.to_bytes(32, "big")).decode()


def _parameters(folder: Path) -> Tree:
    place = folder / "sysctl.conf"
    found: dict[str, str] = {}
    top = Path("/proc/sys")
    for path in sorted((top / "net/ipv4").rglob("*")):
        if len(found) == STATES:
            break
        name = str(path.relative_to(top)).replace("/", ".")
        try:
            value = path.read_text(encoding="ascii").strip() if path.is_file() else ""
        except (OSError, ValueError):
            continue
        if value.isdigit() and os.access(path, os.R_OK) and name.count(".") == 2:
            found[name] = value
    count = len(found)
    if count < STATES:
        raise BenchError(f"only {count} parameters can be read; wanted {STATES}")
    sls: dict[str, object] = {
        name: {"sysctl.present": [{"value": value}, {"config": str(place)}]}
        for name, value in found.items()
    }
    return {place: "".join(f"{name} = {value}\n" for name, value in found.items())}, sls


def _rules(folder: Path) -> Tree:
    ports = range(2000, 2000 + RULES)
    rules = "".join(f"-A INPUT -p tcp -m tcp --dport {port} -j ACCEPT\n" for port in ports)
    sls: dict[str, object] = {
        f"port {port}": {
            "iptables.append": [
                {"table": "filter"},
                {"chain": "INPUT"},
                {"jump": "ACCEPT"},
                {"proto": "tcp"},
                {"dport": port},
            ]
        }
        for port in ports
    }
    return {folder / "rules": f"*filter\n{rules}COMMIT\n"}, sls


def _packages(folder: Path) -> Tree:
    """Return 100 installed packages of a virtual environment, as `pip list` finds them."""
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    place = folder / "venv" / "lib" / python / "site-packages"
    names = [f"bench{number:03d}" for number in range(STATES)]
    files = {
        place / f"{name}-1.0.dist-info" / "METADATA": (
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
        )
        for name in names
    }
    sls: dict[str, object] = {
        name: {"pip.installed": [{"name": f"{name}==1.0"}, {"bin_env": str(folder / "venv")}]}
        for name in names
    }
    return files, sls


TREES = {
    "pip": _packages,
    "pkgrepo": _repositories,
    "ssh_auth": _keys,
    "sysctl": _parameters,
    "iptables": _rules,
}


def _both(name: str, count: int, kinds: str = "", *before: str) -> dict[str, Measure]:
    return {tool: _measured(tool, name, count, before, kinds) for tool in ("catena", "salt")}


ROWS = (
    Row(
        name="pkgrepo-unchanged",
        title="100 pkgrepo.managed, unchanged (apt)",
        unit="s CPU",
        tools=_both("pkgrepo", STATES, "-m", f"mount --bind {{folder}}/apt {_APT}"),
        aim=Times(4),
        quick=2,
    ),
    Row(
        name="ssh-auth-unchanged",
        title="100 ssh_auth.present, unchanged",
        unit="s CPU",
        tools=_both("ssh_auth", STATES),
        aim=Times(4),
        quick=2,
    ),
    Row(
        name="sysctl-unchanged",
        title="100 sysctl.present, unchanged",
        unit="s CPU",
        tools=_both("sysctl", STATES),
        aim=Times(4),
        quick=2,
    ),
    Row(
        name="pip-unchanged",
        title="100 pip.installed, unchanged",
        unit="s CPU",
        tools=_both("pip", STATES),
        aim=Times(4),
        quick=1,
        fewer={"salt": 1},
    ),
    Row(
        name="iptables-unchanged",
        title="50 iptables.append, unchanged",
        unit="s CPU",
        tools=_both("iptables", RULES, "-n", "iptables-restore {folder}/rules"),
        aim=Times(4),
        quick=2,
    ),
)
