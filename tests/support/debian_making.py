"""Build the Debian roots that tests need, before any test runs and outside its time limit.

A root is built in a folder of its own and gets its name when it is complete, so what has the name
can be used. What is mounted for it is mounted in a namespace that ends with the build, however
that ends. One process at a time makes a root; who wants the same one waits.

    python -m tests.support.debian_making bookworm bookworm-ssh
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

CACHE = Path(os.environ.get("CATENA_TEST_CACHE", "/var/cache/catena-tests"))
#: What a host needs that boots and runs an agent.
HOST = ("systemd", "systemd-sysv", "dbus", "python3", "procps")
#: What is inside the root of each suite; the tests of package and service providers use bookworm.
PACKAGES: Mapping[str, Sequence[str]] = {
    "bullseye": HOST,
    "bookworm": (*HOST, "cron", "rpm", "createrepo-c", "dnf", "zypper", "dpkg-dev"),
    "trixie": HOST,
}
#: More packages, kept as a layer over the root of a suite: the root SUITE-LAYER.
LAYERS: Mapping[str, Sequence[str]] = {
    "ssh": ("openssh-server", "sudo", "cron"),
    "venv": ("python3-venv",),
    "disks": (
        *("lvm2", "parted", "e2fsprogs", "xfsprogs", "quota", "acl", "util-linux", "mount"),
        *("at", "logrotate", "augeas-tools", "dmidecode"),
    ),
    "selinux": (
        *("policycoreutils", "policycoreutils-python-utils", "selinux-policy-default"),
        "netbase",
    ),
    "trees": (
        *("ca-certificates", "curl", "debconf-utils", "gnupg", "iproute2", "less", "locales"),
        *("lsb-release", "openssl", "sudo", "tzdata", "unzip", "wget", "xz-utils"),
    ),
}
#: Seconds between two lines about a build.
PROGRESS_SECONDS = 5.0
#: A new mount namespace, whose processes end with this one: nothing stays mounted or running.
_ALONE = (
    "setpriv", "--pdeathsig", "KILL",
    "unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child=KILL",
)  # fmt: skip
#: Installs packages ($4 …) on top of the root $1; what is new lies in $2/upper then. Services
#: are not started: nothing runs there.
_INSTALL = """\
set -e
below=$1; scratch=$2; shift 2
mkdir "$scratch/upper" "$scratch/work" "$scratch/root"
cd "$scratch/root"
mount -t overlay overlay -o "lowerdir=$below,upperdir=$scratch/upper,workdir=$scratch/work" .
cd "$scratch/root"
mount -t proc proc proc
mount --bind /dev dev
printf '#!/bin/sh\\nexit 101\\n' > usr/sbin/policy-rc.d
chmod 755 usr/sbin/policy-rc.d
rm -f etc/resolv.conf
cp -L /etc/resolv.conf etc/resolv.conf
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin
chroot . apt-get -q update
chroot . apt-get -q -y --no-install-recommends install "$@"
chroot . apt-get clean
rm -f etc/resolv.conf usr/sbin/policy-rc.d etc/ssh/ssh_host_*
"""


class UnmadeRootError(Exception):
    """A root can't be made; the message says why."""


def missing() -> str:
    """Return what this machine lacks for Debian roots; "" where nothing is missing."""
    if os.geteuid() != 0:
        return "needs root to make and enter a Debian root"
    lacking = [name for name in ("debootstrap", "unshare", "setpriv") if not shutil.which(name)]
    return f"needs {' and '.join(lacking)} to make a Debian root" if lacking else ""


def place(name: str) -> Path:
    """Return where the root *name* is, made or not: another list of packages is another place."""
    suite, _, layer = name.partition("-")
    packages = [*PACKAGES[suite], *(("", *LAYERS[layer]) if layer else ())]
    digest = hashlib.sha256(" ".join(packages).encode()).hexdigest()[:8]
    return CACHE / f"{name}.{digest}"


def archive() -> str:
    """Return the address of the Debian archive that this machine's apt uses.

    $CATENA_TEST_MIRROR names another one.

    Raises:
        UnmadeRootError: apt names none.
    """
    chosen = os.environ.get("CATENA_TEST_MIRROR")
    if chosen:
        return chosen
    argv = ("apt-get", "indextargets", "--no-release-info",
            "--format", "$(COMPONENT) $(RELEASE) $(REPO_URI)", "Created-By: Packages")  # fmt: skip
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    for line in done.stdout.splitlines():
        component, _, rest = line.partition(" ")
        release, _, address = rest.partition(" ")
        if component == "main" and release.partition("/")[0].isalpha():
            return address.rstrip("/")
    raise UnmadeRootError(
        "apt on this machine names no Debian archive; set CATENA_TEST_MIRROR to the address of one"
    )


def make(names: Sequence[str], say: Callable[[str], None]) -> None:
    """Make the roots *names* that are not there yet.

    Raises:
        UnmadeRootError: one can't be made; the message ends with what its tool said.
    """
    for name in names:
        suite, _, layer = name.partition("-")
        _once(suite, say, _bootstrap)
        if layer:
            _once(name, say, _install)


def _once(
    name: str, say: Callable[[str], None], build: Callable[[str, Path, _Report], Path]
) -> None:
    target = place(name)
    if target.exists():
        return
    CACHE.mkdir(parents=True, exist_ok=True)
    with _locked(name, say):
        if target.exists():
            return
        _sweep(name)
        # Only who holds the lock makes or removes folders of this name.
        scratch = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=CACHE))
        report = _Report(name, say, CACHE / f"{name}.log")
        try:
            build(name, scratch, report).rename(target)
            report.end()
        finally:
            remove(scratch)


@contextmanager
def _locked(name: str, say: Callable[[str], None]) -> Iterator[None]:
    with (CACHE / f".{name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"Debian root {name}: another process makes it; waiting")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _sweep(name: str) -> None:
    """Remove what builds of *name* left that were killed, those of older versions too."""
    for path in CACHE.glob(f".{name}.*"):
        if path.is_dir():
            remove(path)
    for path in CACHE.glob(f"{name}.*"):
        # Once a layer was built under its name and eight random characters.
        if (path / "work").is_dir():
            remove(path)
    old = CACHE / name
    if old.is_dir() and not (old / ".complete").exists() and name in PACKAGES:
        remove(old)


def _bootstrap(suite: str, scratch: Path, report: _Report) -> Path:
    root = scratch / "root"
    include = f"--include={','.join(PACKAGES[suite])}"
    address = archive()
    report.run("debootstrap", "--variant=minbase", include, suite, str(root), address)
    return root


def _install(name: str, scratch: Path, report: _Report) -> Path:
    suite, _, layer = name.partition("-")
    script = ("sh", "-c", _INSTALL, "install")
    report.run(*script, str(place(suite)), str(scratch), *LAYERS[layer])
    return scratch / "upper"


class _Report:
    """Runs the tools of one build and tells how far it is.

    Args:
        name: of the root.
        say: gets a line for people.
        log: gets all that the tools print.
    """

    def __init__(self, name: str, say: Callable[[str], None], log: Path) -> None:
        self._name, self._say, self._log = name, say, log
        self._began = time.monotonic()

    def run(self, *argv: str) -> None:
        """Run a tool in namespaces of its own.

        Raises:
            UnmadeRootError: it failed.
        """
        self._say(f"Debian root {self._name}: being made, once; takes a minute or a few")
        told = time.monotonic()
        with self._log.open("w") as log, subprocess.Popen(
            [*_ALONE, *argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace",
        ) as tool:  # fmt: skip
            assert tool.stdout is not None
            for line in tool.stdout:
                log.write(line)
                if time.monotonic() - told >= PROGRESS_SECONDS:
                    told = time.monotonic()
                    self._say(f"Debian root {self._name}: {self._age()} s: {line.strip()[:80]}")
        if tool.returncode:
            tail = "".join(self._log.read_text(errors="replace").splitlines(keepends=True)[-15:])
            raise UnmadeRootError(
                f"the Debian root {self._name} can't be made: {argv[0]} exit {tool.returncode}; "
                f"all of it is in {self._log}:\n{tail}"
            )

    def end(self) -> None:
        """Tell that the root is there."""
        self._say(f"Debian root {self._name}: made in {self._age()} s")

    def _age(self) -> int:
        return round(time.monotonic() - self._began)


def remove(folder: Path) -> None:
    """Remove a folder and nothing that is mounted in it.

    Raises:
        UnmadeRootError: something stays mounted there, or a file can't be removed.
    """
    for place_ in mounts_in(folder):
        subprocess.run(["umount", "--lazy", str(place_)], check=False, capture_output=True)
    left = mounts_in(folder)
    if left:
        raise UnmadeRootError(f"{left[0]} is mounted; unmount it, then remove {folder}")
    argv = ("rm", "--recursive", "--force", "--one-file-system", "--", str(folder))
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UnmadeRootError(f"{folder} can't be removed: {done.stderr.strip()[:500]}")


def mounts_in(folder: Path) -> list[Path]:
    """Return what is mounted on or below *folder*, the innermost first."""
    top = folder.resolve()
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        # Blanks and backslashes are written as octal numbers.
        where = Path(line.split()[4].encode().decode("unicode_escape"))
        if where == top or top in where.parents:
            found.append(where)
    return found[::-1]


def main(names: Sequence[str]) -> int:
    """Make the roots that the command line names; return the exit code."""
    reason = missing()
    if reason:
        print(reason, file=sys.stderr)
        return 2
    try:
        make(names or list(PACKAGES), lambda line: print(line, file=sys.stderr, flush=True))
    except UnmadeRootError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
