"""Steps that tests of chains on a fleet share: schedule, kill, cut the power, look, wait."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import host
from fleet import Fleet, wait_for

from catena.core.errors import CatenaError

#: Maximum time for the end of a chain, in seconds.
CHAIN_SECONDS = 200.0

#: Kills are at random moments; a failure says which seed it had.
SEED = int(os.environ.get("CATENA_TEST_SEED", str(random.randrange(10**6))))


def note(fleet: Fleet, chain: str, word: str) -> str:
    """Return a command that writes chain, host and a word to a witness file."""
    return f"echo {chain}:$CATENA_DEMO_HOST:{word} >> {fleet.folder / 'witness'}"


def witness(fleet: Fleet, chain: str) -> Counter[str]:
    """Return how often each word of a chain was written, as `host:word`."""
    path = fleet.folder / "witness"
    lines = path.read_text().split() if path.exists() else []
    return Counter(
        line.removeprefix(f"{chain}:{fleet.folder}/hosts/")
        for line in lines
        if line.startswith(f"{chain}:")
    )


def view(fleet: Fleet, label: str) -> dict[str, Any]:
    """Return a chain; {} while the master is away."""
    with contextlib.suppress(CatenaError):
        return fleet.shown(label)
    return {}


def ended(fleet: Fleet, label: str, patience: float = CHAIN_SECONDS) -> dict[str, Any]:
    """Return a chain once it has ended; wait *patience* seconds at most."""

    def over() -> dict[str, Any]:
        shown = view(fleet, label)
        return shown if shown.get("state") in ("done", "failed", "cancelled") else {}

    shown: dict[str, Any] = wait_for(f"the end of {label} (seed {SEED})", over, patience)
    return shown


def with_reboot(fleet: Fleet, label: str, target: str) -> None:
    """Make a chain of two commands with a reboot between them."""
    fleet.catena("chain", "create", label)
    for action in (
        ["--cmd", note(fleet, label, "first") + "; sleep 0.2"],
        ["--reboot"],
        ["--cmd", "sleep 0.2; " + note(fleet, label, "second")],
    ):
        fleet.catena("chain", "add", label, "-L", "-t", target, *action)


def agent_of(fleet: Fleet, name: str) -> int:
    """Return the pid of a host's daemon."""
    for pid in host.processes(fleet.home(name)):
        line = (Path("/proc") / str(pid) / "cmdline").read_bytes()
        if b"catena.minion.daemon" in line:
            return pid
    return 0


def resume_file(fleet: Fleet, name: str) -> Path:
    """Return the path of a host's resume file."""
    return fleet.home(name) / "etc/catena/minion.d/_mgractionchains.conf"


def wait_for_moment(seconds: float) -> None:
    """Let *seconds* go by."""
    subprocess.run(["sleep", f"{seconds:.3f}"], check=True)


def cut_power(fleet: Fleet, name: str) -> None:
    """End every process of a host at once, then start the host again."""
    while pids := list(host.processes(fleet.home(name))):
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
    fleet.tell_host(name, "start")


def commands(fleet: Fleet, name: str) -> str:
    """Return the command lines of all processes of a host."""
    found = []
    for pid in host.processes(fleet.home(name)):
        try:
            found.append((Path("/proc") / str(pid) / "cmdline").read_bytes().replace(b"\0", b" "))
        except OSError:
            continue
    return b"\n".join(found).decode(errors="replace")


def wait_for_reboot_state(fleet: Fleet, label: str) -> None:
    """Wait until the minion of a chain waits for its boot."""
    wait_for(f"{label} at its reboot", lambda: "waits for the boot" in str(view(fleet, label)))


def schedule(fleet: Fleet, label: str) -> None:
    """Make and schedule a chain with a reboot for the host `one`."""
    with_reboot(fleet, label, "one")
    fleet.catena("chain", "schedule", label)


def note_of(fleet: Fleet, label: str) -> str:
    """Return the note of a chain about its only host."""
    (minion,) = view(fleet, label)["minions"]
    return str(minion["note"])


def run_plain_chain(fleet: Fleet, label: str) -> None:
    """Run a chain of one command on the host `one`; fail if it does not end well."""
    fleet.catena("chain", "create", label)
    fleet.catena("chain", "add", label, "-t", "one", "--cmd", note(fleet, label, "ran"))
    fleet.catena("chain", "schedule", label)
    shown: dict[str, Any] = ended(fleet, label)
    assert shown["state"] == "done", shown
    assert witness(fleet, label) == {"one:ran": 1}
