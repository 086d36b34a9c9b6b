"""A fleet of real processes with failpoints, and a supervisor that restarts killed ones.

Each host has failpoints of its own, the master another set. A supervisor does what systemd does: a
daemon that has ended is started again. What a chain did is read from files outside the product.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import host
from fleet import Fleet, FleetError, wait_for

from catena.core.checkup import is_locked
from catena.core.failpoint_rules import FAILPOINTS
from catena.core.failpoints import LOG_VARIABLE, VARIABLE

#: How long a chain may take on a loaded machine, faults included.
PATIENCE_SECONDS = 250.0
_LOOK_SECONDS = 0.2
#: An agent without its lock for so many looks has ended, rather than become another version.
_GONE_LOOKS = 5


class Rig(Fleet):
    """A fleet whose daemons have failpoints.

    Args:
        folder: where everything lies.
        points: failpoints of each host, as the environment variable says them.
        master: those of the master.
    """

    def __init__(self, folder: Path, points: Mapping[str, str], master: str = "") -> None:
        names: dict[str, Mapping[str, Any]] = {name: {} for name in points}
        testing = {"testing": True}
        # The rate limit of one address would make many hosts wait, so their keys are accepted at
        # once. A master with failpoints decides about keys, because failpoints are there too.
        settings = {**testing, "ping_interval_seconds": 2, "auto_accept": not master}
        super().__init__(folder, names, settings, testing)
        self._points, self._master_points = dict(points), master
        self._stop = threading.Event()
        #: Held by whoever starts, stops or replaces the master.
        self._master_hands = threading.Lock()
        self._watch: threading.Thread | None = None
        self.restarts: Counter[str] = Counter()

    def hits(self, name: str = "master") -> Counter[str]:
        """Return how often each failpoint of a host, or the master's, was passed."""
        path = self.folder / f"hits.{name}"
        lines = path.read_text().splitlines() if path.exists() else []
        return Counter(line.split()[0] for line in lines)

    def environment(self, name: str) -> Mapping[str, str]:
        """Return the environment of a daemon, with its failpoints."""
        points = self._master_points if name == "master" else self._points[name]
        log = str(self.folder / f"hits.{name}")
        return {**os.environ, VARIABLE: points, LOG_VARIABLE: log}

    # -- the daemons ---------------------------------------------------------------------------

    @property
    def master_pid(self) -> int:
        """The master's process; 0 while there is none."""
        return self._master.pid if self._master is not None else 0

    def supervise(self) -> None:
        """From now on, start again what ends."""
        self._watch = threading.Thread(target=self._supervise)
        self._watch.start()

    def _supervise(self) -> None:
        gone: Counter[str] = Counter()
        while not self._stop.wait(_LOOK_SECONDS):
            with self._master_hands:
                if self._master is not None and self._master.poll() is not None:
                    self.restarts["master"] += 1
                    self._master = None
                    with contextlib.suppress(FleetError):
                        self.start_master()
            for name in self.minions:
                lock = self.home(name) / "var/cache/catena/minion/lock"
                gone[name] = 0 if is_locked(lock) or self._down(name) else gone[name] + 1
                if gone[name] >= _GONE_LOOKS:
                    gone[name] = 0
                    self.restarts[name] += 1
                    self.tell_host(name, "agent")

    @contextlib.contextmanager
    def without_master(self) -> Iterator[None]:
        """End the master for the time of the block, then start it again."""
        with self._master_hands:
            self.stop_master()
            try:
                yield
            finally:
                self.start_master()

    def _down(self, name: str) -> bool:
        """Return whether a host was not switched on yet, or its pretended reboot is under way.

        An agent that comes up there knows no boot, and takes no reboot for one of its own.
        """
        home = self.home(name)
        return (home / host.REBOOTING).exists() or not (home / "boot_id").exists()

    def close(self) -> None:
        """End the supervisor, then every process of the fleet."""
        self._stop.set()
        if self._watch is not None:
            self._watch.join()
        super().close()

    # -- an operator who does not give up --------------------------------------------------------

    def insist(self, *words: str, unless: Callable[[], bool] = lambda: False) -> str:
        """Run a command until it succeeds, or *unless* says that it has had its effect."""

        def attempt() -> str | None:
            done = self.catena(*words, check=False)
            if done.returncode == 0 or unless():
                return done.stdout or " "
            return None

        out: str = wait_for(f"catena {' '.join(words)}", attempt, PATIENCE_SECONDS)
        return out

    def accept(self) -> None:
        """Accept every host's key, whatever happens meanwhile."""
        wait_for("the keys", lambda: self._known() >= set(self.minions), PATIENCE_SECONDS)
        self.insist("key", "accept", "--all", unless=lambda: not self._rows("pending"))
        wait_for("the minions", lambda: self._up() >= set(self.minions), PATIENCE_SECONDS)

    def _rows(self, *states: str) -> set[str]:
        done = self.catena("key", "list", "--out", "json", check=False)
        found = json.loads(done.stdout) if done.returncode == 0 else {}
        return {r["id"] for state, rows in found.items() if state in states for r in rows}

    def _known(self) -> set[str]:
        return self._rows("pending", "accepted")

    def _up(self) -> set[str]:
        done = self.catena("minion", "list", "--out", "json", check=False)
        rows = json.loads(done.stdout) if done.returncode == 0 else []
        return {row["id"] for row in rows if row["up"]}

    def show(self, label: str) -> dict[str, Any]:
        """Return a chain; {"state": ""} while the master does not answer or does not know it."""
        done = self.catena("chain", "show", label, "--out", "json", check=False)
        found: dict[str, Any] = json.loads(done.stdout) if done.returncode == 0 else {"state": ""}
        return found

    def run_chain(self, label: str, document: str) -> dict[str, Any]:
        """Make a chain from a file, schedule it, and return how it ended.

        Raises:
            FleetError: it does not end; the message has the chain and every hit.
        """
        path = self.folder / f"{label}.yaml"
        path.write_text(document)

        def state() -> str:
            return str(self.show(label)["state"])

        self.insist("chain", "apply", str(path), unless=lambda: state() != "")
        self.insist("chain", "schedule", label, unless=lambda: state() not in ("", "draft"))
        ends = ("done", "failed", "cancelled")
        try:
            wait_for("the chain", lambda: state() in ends, PATIENCE_SECONDS)
        except FleetError as error:
            hits = {name: dict(self.hits(name)) for name in ("master", *self.minions)}
            text = json.dumps({"chain": self.show(label), "hits": hits}, indent=1)
            raise FleetError(f"{error}: {text}") from None
        return self.show(label)

    def note(self, word: str) -> str:
        """Return a command that writes its host and a word to a file outside the product."""
        return f"echo $CATENA_DEMO_HOST:{word} | sed 's,.*/,,' >> {self.folder}/witness"

    def witness(self) -> Counter[str]:
        """Return how often each word was written by a chain's commands."""
        path = self.folder / "witness"
        return Counter(path.read_text().split()) if path.exists() else Counter()


@contextlib.contextmanager
def rig(points: Mapping[str, str], master: str = "") -> Iterator[Rig]:
    """Yield a running, supervised rig whose minions are accepted and up."""
    folder = Path(tempfile.mkdtemp(prefix="cat-"))
    try:
        made = Rig(folder, points, master)
        with made:
            with contextlib.suppress(FleetError):
                made.start_master()
            made.supervise()
            made.start_minions()
            made.accept()
            yield made
    except BaseException:
        for log in sorted(folder.rglob("*.log")):
            print(f"--- {log}\n{log.read_text(errors='replace')[-3000:]}")
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)


#: A process that ends here may have been in the middle of a command, as far as anybody can tell.
#: Files and journal are written there, too; at which hit depends on who comes first.
INTERRUPTS = {
    "chain.begin.after", "chain.end.before",
    *(name for name in FAILPOINTS if name.startswith(("file.", "journal."))),
}  # fmt: skip
