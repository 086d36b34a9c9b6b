"""Modes of files, secrets and tampered state on the hosts of a master and a minion."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from fleet import Fleet

from catena.client.connection import MasterClient
from catena.client.requests import events
from catena.client.requests import jobs as job_asks
from catena.client.requests.events import EventSend, EventWatch
from catena.client.requests.jobs import JobList, JobShow
from catena.transport import wire
from catena.transport.framing import frame
from catena.transport.messages import ClientRequest

CANARY = "canary-7f3a"
#: Nobody's user: neither root nor the daemons' own.
OTHER_UID = 65534
#: Written by the fleet itself, as an administrator or the init system would, and public keys.
OPEN = {"master", "minion", "boot_id", "minion.log", "curve.pub"}

STATES = {
    "secret.sls": (
        "failing:\n  cmd.run:\n  - name: 'exit 3'\n  - env:\n    - KEY: {{ pillar['password'] }}\n"
        "kept:\n  file.managed:\n  - name: {{ opts['root_dir'] }}/kept\n  - mode: '0600'\n"
        "  - contents_pillar: password\n  - show_changes: false\n"
    ),
    "broken.sls": "a: {{ pillar['password'] }}\nb: [\n",
    "tags.sls": "a: !!python/object/apply:os.system ['touch {{ opts['root_dir'] }}/owned']\n",
    "escape.sls": "a: {{ cycler.__init__.__globals__.os.system('touch /tmp/owned') }}\n",
    "escape2.sls": "a: {{ ''.__class__.__mro__[1].__subclasses__() }}\n",
    "escape3.sls": "a: {{ salt.__class__ }}{{ salt.test.ping.__globals__ }}\n",
    "escape4.sls": "a: {{ '{0.__class__.__init__.__globals__}'.format(salt) }}\n",
    "data.sls": (
        "said:\n  file.managed:\n  - name: {{ opts['root_dir'] }}/said\n"
        "  - contents: {{ grains['said'] | json }}\n"
    ),
}
PILLAR = {
    "top.sls": "base:\n  '*':\n  - secret\n  'G@break:broken':\n  - broken\n  'G@break:tags':\n"
    "  - tags\n  'G@break:jinja':\n  - jinja\n",
    "secret.sls": f"password: {CANARY}-pillar\n",
    "broken.sls": f"password: {CANARY}-pillar\nb: [\n",
    "tags.sls": "a: !!python/object/apply:os.system ['true']\n",
    "jinja.sls": "a: {{ cycler.__init__.__globals__.os.system('true') }}\n",
}


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    folder = Path(tempfile.mkdtemp(prefix="cat-"))
    for name, files in (("states", STATES), ("pillar", PILLAR)):
        (folder / name).mkdir()
        for file, text in files.items():
            (folder / name / file).write_text(text)
    master = {
        "file_roots": {"base": [str(folder / "states")]},
        "pillar_roots": {"base": [str(folder / "pillar")]},
        "log_level": "debug",
    }
    grains = {"said": "{{ 7*7 }}{% raw %}\x1b[2J"}
    old = os.umask(0o022)
    fleet = Fleet(folder, {"m1": grains}, master, {"log_level": "debug"})
    try:
        with fleet:
            fleet.start_master()
            fleet.start_minions()
            fleet.accept_all()
            # So that a user without rights meets our modes and not those of the folder above.
            folder.chmod(0o755)
            yield fleet
    finally:
        os.umask(old)
        shutil.rmtree(folder, ignore_errors=True)


def logs(fleet: Fleet) -> str:
    files = [fleet.folder / "master.log", fleet.home("m1") / "minion.log"]
    return "".join(file.read_text(errors="replace") for file in files)


def everything(fleet: Fleet) -> list[Path]:
    tops = [fleet.folder / "master", fleet.home("m1")]
    return [path for top in tops for path in top.rglob("*") if not path.is_symlink()]


SECRET_WORK = [
    ["run", "m1", "state.apply", "secret"],
    ["run", "m1", "state.apply", "broken"],
    ["run", "m1", "cmd.run", "cat >/dev/null; exit 3", f"stdin={CANARY}-stdin"],
    ["run", "m1", "cmd.run", "no-such-command", f"env={{KEY: {CANARY}-env}}"],
    ["run", "m1", "cmd.run", "true", f"runas_password={CANARY}-kwarg"],
    ["run", "m1", "no.such", f"password={CANARY}-kwarg"],
    ["run", "m1", "user.add", f"password={CANARY}-kwarg"],
    ["run", "m1", "pillar.items"],
    ["run", "m1", "pillar.get", "password"],
]


def test_secrets_appear_in_no_log_event_or_list(fleet: Fleet) -> None:
    for words in SECRET_WORK:
        fleet.catena(*words, check=False)
    token = fleet.catena("key", "token").stdout.split()[0]
    seen = [logs(fleet)]
    client = MasterClient(fleet.folder / "master/run/catena/master/master.sock")
    end = client.request(events.SEND, EventSend(tag="end/of/look"))["seq"]
    watch = EventWatch(tag="*", after=0, count=end)
    seen += [str(event) for event in client.stream(events.WATCH, watch, 10.0)]
    jobs = client.request(job_asks.LIST, JobList())
    seen += [str(client.request(job_asks.SHOW, JobShow(job["jid"]))) for job in jobs]
    # What a state itself prints where its file is wrong is for who may read the file.
    found = [text for text in seen if CANARY in text and "broken" not in text]
    assert not found
    assert token not in "".join(seen)


def test_secrets_appear_in_no_process_arguments(fleet: Fleet) -> None:
    mark = f"CATENA_DEMO_HOST={fleet.home('m1')}"
    script = (
        f"for p in /proc/[0-9]*; do grep -qsz '^{mark}$' $p/environ && "
        "tr '\\0' ' ' <$p/cmdline && echo; done; true"
    )
    given = (f"stdin={CANARY}-stdin", f"env={{KEY: {CANARY}-env}}")
    shown = fleet.catena("run", "m1", "cmd.run", script, *given).stdout
    assert "catena.minion.daemon" in shown
    assert CANARY not in shown


def test_written_files_are_private(fleet: Fleet) -> None:
    fleet.catena("run", "m1", "state.apply", "secret", check=False)
    fleet.catena("chain", "create", "modes")
    fleet.catena("chain", "add", "modes", "-t", "m1", "--cmd", f"echo {CANARY}")
    fleet.catena("chain", "schedule", "modes", "--at", "now")
    fleet.catena("chain", "watch", "modes")
    found = []
    for path in everything(fleet):
        try:
            mode = path.lstat().st_mode & 0o777
        except FileNotFoundError:
            # The daemons work on: a chunk file of the ended chain may go while we look.
            continue
        if path.is_dir():
            found += [f"{path}: {mode:o}"] if mode & 0o022 else []
        elif mode & 0o077 and path.name not in OPEN and reachable(path, fleet.folder):
            found.append(f"{path}: {mode:o}")
    assert not found


def reachable(path: Path, top: Path) -> bool:
    """Return whether others can enter every folder between *top* and *path*."""
    between = [folder for folder in path.parents if top in folder.parents]
    return all(folder.stat().st_mode & 0o001 for folder in between)


def test_folders_with_secrets_are_private(fleet: Fleet) -> None:
    for folder in (
        fleet.folder / "master/var/lib/catena/master",
        fleet.folder / "master/etc/catena/pki/master",
        fleet.folder / "master/run/catena/master",
        fleet.home("m1") / "var/cache/catena/minion",
        fleet.home("m1") / "etc/catena/pki/minion",
        fleet.home("m1") / "run/catena/minion",
    ):
        assert folder.stat().st_mode & 0o777 == 0o700, folder


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
@pytest.mark.parametrize("whose", ["master", "minion"])
def test_other_user_cannot_use_the_sockets(fleet: Fleet, whose: str) -> None:
    home = fleet.folder / "master" if whose == "master" else fleet.home("m1")
    path = home / f"run/catena/{whose}/{whose}.sock"
    text = (
        "import os, socket, sys\n"
        f"os.setgroups([]); os.setgid({OTHER_UID}); os.setuid({OTHER_UID})\n"
        "s = socket.socket(socket.AF_UNIX)\n"
        "try:\n    s.connect(sys.argv[1])\nexcept PermissionError:\n    sys.exit(13)\n"
    )
    done = subprocess.run([sys.executable, "-c", text, str(path)], check=False)
    assert done.returncode == 13


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
@pytest.mark.parametrize("whose", ["master", "minion"])
def test_other_user_is_refused_although_the_socket_modes_allow_it(
    fleet: Fleet, whose: str
) -> None:
    home = fleet.folder / "master" if whose == "master" else fleet.home("m1")
    path = home / f"run/catena/{whose}/{whose}.sock"
    verb = "key.list" if whose == "master" else "status"
    request = frame(wire.pack(ClientRequest(verb, {})))
    text = (
        "import os, socket, sys\n"
        f"os.setgroups([]); os.setgid({OTHER_UID}); os.setuid({OTHER_UID})\n"
        "s = socket.socket(socket.AF_UNIX)\ns.settimeout(60)\ns.connect(sys.argv[1])\n"
        f"try:\n    s.sendall({request!r})\nexcept OSError:\n    pass\n"
        "data = b''\n"
        "while (more := s.recv(65536)):\n    data += more\n"
        "sys.stdout.buffer.write(data)\n"
    )
    path.parent.chmod(0o711)
    path.chmod(0o666)
    try:
        done = subprocess.run(
            [sys.executable, "-c", text, str(path)], check=False, capture_output=True
        )
    finally:
        path.chmod(0o600)
        path.parent.chmod(0o700)
    assert b"m1" not in done.stdout
    assert b"NotAllowedError" in done.stdout or b"ConnectionResetError" in done.stderr


@pytest.mark.parametrize("name", ["tags", "escape", "escape2", "escape3", "escape4"])
def test_sls_file_cannot_escape_the_renderer(fleet: Fleet, name: str) -> None:
    done = fleet.catena("run", "m1", "state.apply", name, check=False)
    assert done.returncode == 1
    assert "failed" in done.stdout
    assert "built-in" not in done.stdout and "__globals__'" not in done.stdout
    assert not (fleet.home("m1") / "owned").exists()
    assert not Path("/tmp/owned").exists()


@pytest.mark.parametrize("kind", ["tags", "jinja", "broken"])
def test_broken_pillar_stops_the_run_without_showing_secrets(fleet: Fleet, kind: str) -> None:
    fleet.catena("run", "m1", "grains.setval", "break", kind)
    try:
        done = fleet.catena("run", "m1", "state.apply", "secret", check=False)
        assert done.returncode == 1
        assert f"{kind}.sls" in done.stdout
        assert CANARY not in done.stdout + done.stderr + logs(fleet)
    finally:
        fleet.catena("run", "m1", "grains.delkey", "break")


def test_text_of_a_minion_is_neither_rendered_nor_sent_raw_to_the_terminal(fleet: Fleet) -> None:
    done = fleet.catena("run", "m1", "state.apply", "data")
    said = (fleet.home("m1") / "said").read_text()
    assert said.startswith("{{ 7*7 }}{% raw %}\x1b[2J")
    shown = [done.stdout, fleet.catena("run", "m1", "grains.get", "said").stdout]
    shown.append(fleet.catena("run", "m1", "cmd.run", "printf '\\033]52;c;eA==\\007\\r'").stdout)
    shown.append(fleet.catena("minion", "show", "m1").stdout)
    assert "\x1b" not in "".join(shown) and "\x07" not in "".join(shown)
    assert "\x1b" not in logs(fleet)
