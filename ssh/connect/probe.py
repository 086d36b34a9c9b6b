"""Find an interpreter, the home folder and disk space on a host, with one command."""

from __future__ import annotations

import json
import re
from typing import Any, Protocol

from catena.core.ids import BadNameError
from catena.ssh.connect.errors import PushPhase, SshError
from catena.ssh.connect.link import Completed, Probed
from catena.ssh.connect.target import SshTarget, SshTargetError, python_path, remote_path

OLDEST = (3, 9)
#: Minimum free disk space in bytes.
ROOM_BYTES = 16 * 1024 * 1024
_PYTHONS = (
    "python3",
    "/usr/libexec/platform-python",
    *(f"python3.{minor}" for minor in range(15, 8, -1)),
    "/usr/bin/python3",
    "/usr/local/bin/python3",
    "/opt/bin/python3",
)

#: Runs on any Python since 2.7: prints one line of JSON, exits with 3 if Python is too old.
_LOOK = r"""
import json, os, sys
found = {"python": sys.executable, "version": list(sys.version_info[:3]), "euid": os.geteuid()}
if sys.version_info < (3, 9):
    sys.stdout.write("old " + json.dumps(found) + "\n")
    sys.exit(3)
import pwd
def line(path):
    try:
        with open(path) as stream:
            return stream.read(200).strip()
    except (IOError, OSError):
        return ""
def above(path):
    while path != "/" and not os.path.lexists(path):
        path = os.path.dirname(path)
    return path
def state(path):
    at = above(path)
    try:
        disk = os.statvfs(at)
    except OSError as error:
        return {"at": at, "fault": str(error)}
    return {
        "at": at, "writable": os.path.isdir(at) and os.access(at, os.W_OK | os.X_OK),
        "readonly": bool(disk.f_flag & os.ST_RDONLY), "noexec": bool(disk.f_flag & os.ST_NOEXEC),
        "free": disk.f_bavail * disk.f_frsize, "inodes": disk.f_favail if disk.f_files else 1000,
        "blocks": disk.f_blocks,
    }
def own(folder):
    try:
        names = sorted(name for name in os.listdir(folder) if name.startswith(".catena-"))
    except OSError:
        return ""
    for name in names:
        path = os.path.join(folder, name)
        try:
            seen = os.lstat(path)
        except OSError:
            continue
        if seen.st_mode == 0o040700 and seen.st_uid == os.geteuid():
            return path
    return ""
try:
    home = pwd.getpwuid(os.geteuid()).pw_dir
except KeyError:
    home = os.environ.get("HOME", "/")
rooms = sys.argv[1:] or [os.path.join(home, ".cache", "catena")]
if not sys.argv[1:]:
    for folder in ("/var/tmp", "/tmp"):
        name = ".catena-" + "".join("%02x" % byte for byte in bytearray(os.urandom(8)))
        rooms.append(own(folder) or os.path.join(folder, name))
found["home"] = home
found["boot_id"] = line("/proc/sys/kernel/random/boot_id")
found["rooms"] = [dict(state(room), path=room) for room in rooms]
sys.stdout.write("found " + json.dumps(found) + "\n")
"""

#: Shell script that tries interpreters until one is new enough.
_SCRIPT = """
look=$1; room=$2; shift 2
for name in "$@"; do
    path=$(command -v "$name" 2>/dev/null) || continue
    if [ -n "$room" ]; then "$path" -c "$look" "$room"; else "$path" -c "$look"; fi && exit 0
done
exit 3
"""


class ProbeConnection(Protocol):
    """The part of a `Connection` that the probe uses."""

    @property
    def target(self) -> SshTarget:
        """The host."""

    def run(self, argv: list[str], *, timeout: float, phase: PushPhase) -> Completed:
        """Run a command."""


def probe(connection: ProbeConnection, seconds: float) -> Probed:
    """Probe the host.

    Raises:
        SshError: no Python is new enough, no folder is writable, or the output is malformed.
    """
    target = connection.target
    names = [target.python] if target.python else list(_PYTHONS)
    argv = ["/bin/sh", "-c", _SCRIPT, "sh", _LOOK, target.thin_dir, *names]
    done = connection.run(argv, timeout=seconds, phase=PushPhase.probe)
    return understood(target, done)


def understood(target: SshTarget, done: Completed) -> Probed:
    """Parse the output of the probe.

    Raises:
        SshError: as `probe`.
    """
    old: list[str] = []
    for line in done.stdout.decode("utf-8", "replace").splitlines():
        word, _, text = line.partition(" ")
        if word == "found":
            return _probed(target, _parsed(target, text))
        if word == "old":
            answer = _parsed(target, text)
            old.append(f"{answer.get('python')} is {_dotted(answer.get('version'))}")
    raise _no_python(target, done, old)


def _no_python(target: SshTarget, done: Completed, old: list[str]) -> SshError:
    wanted = ".".join(map(str, OLDEST))
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    if old:
        what = f"no Python of at least {wanted}: {', '.join(dict.fromkeys(old))}"
    elif done.code == 3:
        looked = f"{target.python} is not there" if target.python else "looked for python3"
        what = f"no Python of at least {wanted}: {looked}"
        what += f"; {said[-1]}" if said else ""
    else:
        what = f"looking for Python ended with code {done.code}" + (
            f": {said[-1]}" if said else ""
        )
    advice = "install one, or name one as python: in the roster (catena ssh -r needs none)"
    return SshError(target.id, PushPhase.probe, what, advice)


def _parsed(target: SshTarget, text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise SshError(target.id, PushPhase.probe, f"an answer that is none: {text[:100]}")
    return found


def _dotted(version: Any) -> str:
    parts = version if isinstance(version, list) else []
    return ".".join(str(part) for part in parts[:3])


def _probed(target: SshTarget, found: dict[str, Any]) -> Probed:
    try:
        version = tuple(int(part) for part in found["version"])
        if len(version) != 3 or version < OLDEST:
            raise ValueError(f"version {_dotted(found['version'])}")
        room, notes = _room(target, found)
        return Probed(
            python=python_path(str(found["python"])),
            version=(version[0], version[1], version[2]),
            euid=int(found["euid"]),
            home=str(found["home"])[:1024],
            room=room,
            boot_id=_boot_id(str(found["boot_id"])),
            notes=notes,
        )
    except (
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        SshTargetError,
        BadNameError,
    ) as error:
        what = f"an answer that makes no sense ({error})"
        raise SshError(target.id, PushPhase.probe, what) from None


def _boot_id(text: str) -> str:
    return text if re.match(r"[0-9a-f-]{0,36}\Z", text) else ""


def _room(target: SshTarget, found: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
    """Return the first writable folder, and notes on the unusable ones before it."""
    notes: list[str] = []
    for room in found["rooms"][:3]:
        path, why = remote_path(str(room["path"])), _unfit(room)
        if not why:
            if room["noexec"]:
                notes.append(
                    f"{room['at']} is mounted noexec: scripts are run by their interpreter"
                )
            return path, tuple(notes)
        notes.append(why)
    advice = "set thin_dir: in the roster to a folder that this user can write to"
    raise SshError(target.id, PushPhase.probe, f"nowhere to write: {'; '.join(notes)}", advice)


def _unfit(room: dict[str, Any]) -> str:
    at = str(room["at"])
    if room.get("fault"):
        return f"{at}: {room['fault']}"
    if room["readonly"]:
        return f"{at} is read-only"
    if not room["writable"]:
        return f"{at} can't be written to"
    if not int(room.get("blocks", 1)):
        return f"{at} is no place for files"
    if int(room["free"]) < ROOM_BYTES:
        return f"the disk of {at} is full ({int(room['free']) // 1024} KiB free)"
    if int(room["inodes"]) < 100:
        return f"the disk of {at} has no inodes left"
    return ""
