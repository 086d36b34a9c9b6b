"""The soak test: real daemons, mixed load, random faults; then all faults end and all is checked.

    python -m tests.soak --minutes 30 --minions 50 --seed 1

Each host reaches the master through a cable of its own that can be cut; some hosts have a small
disk that is filled. What chains did is read from files outside the product. Prints every fault,
the verdicts, and the slopes of memory and descriptors; exits with 1 when an invariant does not
hold.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import host
from fleet import FleetError, free_ports, wait_for

from tests.failpoints.rig import Rig
from tests.soak.cables import Cables
from tests.soak.damage import Damage, doctor, job_counts
from tests.soak.figures import Sample, look, slope

DISK_MIB = 48
HEAL_SECONDS = 240.0
SAMPLE_SECONDS = 10.0
#: Figures are compared from here on: before it caches fill.
WARM_SECONDS = 300.0
ENDS = ("done", "failed", "cancelled")
WORDS = ("one", "two")


#: Jobs of chains that one chain may need on one minion, faults and repeats included.
JOBS_PER_RUN = 15


class Plan(NamedTuple):
    """Which load and faults a run has."""

    #: Most chains; 0: as many as the time allows.
    chains: int = 0
    #: Whether files of the daemons are damaged, and the store is restored.
    damage: bool = False


class Soak:
    """One run.

    Args:
        fleet: running, supervised.
        cables: of its hosts.
        disks: names of the hosts whose disk is small.
        seed: of everything that is random.
        plan: which load and faults there are.
    """

    def __init__(self, fleet: Rig, cables: Cables, disks: set[str], seed: int, plan: Plan) -> None:
        self.fleet, self.cables, self.disks, self.plan = fleet, cables, disks, plan
        self._random = random.Random(seed)
        self.damage = Damage(fleet, self._random)
        self._began = time.monotonic()
        self._stop = threading.Event()
        self.chains: list[str] = []
        self._labels = itertools.count()
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.master: list[Sample] = []
        self.agents: dict[str, list[Sample]] = {name: [] for name in fleet.minions}

    def run(self, minutes: float) -> None:
        """Make load and faults for so long."""
        # Several of each: load and faults of all kinds overlap.
        works = (*[self._load] * 2, *[self._faults] * 3, self._samples)
        threads = [threading.Thread(target=work, name=work.__name__) for work in works]
        for thread in threads:
            thread.start()
        self._stop.wait(minutes * 60)
        self._stop.set()
        for thread in threads:
            thread.join()

    def _say(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:7.1f} s  {text}", flush=True)

    # -- load ----------------------------------------------------------------------------------

    def _load(self) -> None:
        kinds: list[Callable[[], None]] = [self._ping, self._command, self._event, self._chain]
        while not self._stop.wait(self._random.uniform(0.1, 1.5)):
            self._random.choices(kinds, (4, 3, 3, 2))[0]()

    def _some(self, most: int = 5) -> str:
        names = sorted(self.fleet.minions)
        return ",".join(self._random.sample(names, self._random.randint(1, min(most, len(names)))))

    def _ask(self, kind: str, *words: str) -> None:
        done = self.fleet.catena(*words, check=False)
        self.counts[f"{kind}: exit {done.returncode}"] += 1

    def _ping(self) -> None:
        self._ask("ping", "run", "-L", self._some(20), "test.ping", "--timeout", "5")

    def _command(self) -> None:
        self._ask("command", "run", "-L", self._some(), "cmd.run", "uname", "--timeout", "5")

    def _event(self) -> None:
        self._ask("event", "event", "send", "soak/hello")

    def _chain(self) -> None:
        if self.plan.chains and len(self.chains) >= self.plan.chains:
            return
        label = f"soak{next(self._labels)}"
        one, two = (f'- cmd: "{self.fleet.note(f"{label}.{word}")}"' for word in WORDS)
        target = f"target: [{self._some(8)}]"
        text = "\n".join((f"label: {label}", target, "actions:", one, "- reboot", two))
        path = self.fleet.folder / f"{label}.yaml"
        path.write_text(text)
        if self.fleet.catena(
            "chain", "apply", str(path), "--schedule", "now", check=False
        ).returncode:
            self.counts["chain: not taken"] += 1
            return
        self.chains.append(label)
        if self._random.random() < 0.1:
            self._ask("cancel", "chain", "cancel", label)
        if self.plan.damage and self._random.random() < 0.2:
            # An older chain, ended or not, whose leftovers are on the same minions.
            self._ask("retry", "chain", "retry", self._random.choice(self.chains))

    # -- faults --------------------------------------------------------------------------------

    def _faults(self) -> None:
        kinds: list[Callable[[str], None]] = [
            self._kill_agent, self._freeze, self._cut, self._power, self._fill, self._kill_master,
        ]  # fmt: skip
        while not self._stop.wait(self._random.uniform(2.0, 12.0)):
            if self.plan.damage and self._random.random() < 0.4:
                self._damage()
                continue
            name = self._random.choice(sorted(self.fleet.minions))
            fault = self._random.choices(kinds, (4, 3, 4, 2, 2, 2))[0]
            self.counts[f"fault: {fault.__name__[1:]}"] += 1
            with contextlib.suppress(OSError, subprocess.CalledProcessError):
                fault(name)

    def _damage(self) -> None:
        kinds = self.damage.kinds()
        kind = self._random.choices(list(kinds), list(kinds.values()))[0]
        name = self._random.choice(sorted(self.fleet.minions))
        with contextlib.suppress(FleetError):
            what = kind(name)
            if what:
                self.counts[f"damage: {kind.__name__}"] += 1
                self._say(f"{name}: {what}")

    def _kill_agent(self, name: str) -> None:
        self._say(f"kill -9 agent {name}")
        self._signal(name, signal.SIGKILL)

    def _freeze(self, name: str) -> None:
        self._say(f"stop {name}")
        self._signal(name, signal.SIGSTOP)
        self._stop.wait(self._random.uniform(1.0, 15.0))
        self._signal(name, signal.SIGCONT)

    def _cut(self, name: str) -> None:
        self._say(f"cut {name}")
        self.cables.cut(name)
        self._stop.wait(self._random.uniform(1.0, 30.0))
        self.cables.mend(name)

    def _power(self, name: str) -> None:
        self._say(f"power cut {name}")
        for pid in host.processes(self.fleet.home(name)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.fleet.tell_host(name, "start")

    def _fill(self, name: str) -> None:
        name = self._random.choice(sorted(self.disks)) if self.disks else name
        if name not in self.disks:
            return
        self._say(f"disk full {name}")
        ballast = self.fleet.home(name) / "ballast"
        with contextlib.suppress(OSError), ballast.open("wb") as stream:
            while True:
                stream.write(bytes(65536))
                stream.flush()
        self._stop.wait(self._random.uniform(2.0, 15.0))
        ballast.unlink(missing_ok=True)

    def _kill_master(self, _name: str) -> None:
        self._say("kill -9 master")
        pid = self.fleet.master_pid
        if pid:
            os.kill(pid, signal.SIGKILL)

    def _signal(self, name: str, number: int) -> None:
        pid = self._agent(name)
        if pid:
            os.kill(pid, number)

    def _agent(self, name: str) -> int:
        for pid in host.processes(self.fleet.home(name)):
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes()
                if b"catena.minion.daemon" in words:
                    return pid
        return 0

    # -- figures -------------------------------------------------------------------------------

    def _samples(self) -> None:
        watched = sorted(self.fleet.minions)[:3]
        while not self._stop.wait(SAMPLE_SECONDS):
            at = time.monotonic() - self._began
            found = look(self.fleet.master_pid, at) if self.fleet.master_pid else None
            if found:
                self.master.append(found)
            for name in watched:
                seen = look(self._agent(name), at)
                if seen:
                    self.agents[name].append(seen)

    # -- the end -------------------------------------------------------------------------------

    def heal(self) -> None:
        """Take every fault back."""
        for name in self.fleet.minions:
            self.cables.mend(name)
            self._signal(name, signal.SIGCONT)
            (self.fleet.home(name) / "ballast").unlink(missing_ok=True)
        self.wrong = self.damage.heal() if self.plan.damage else []

    def verdicts(self) -> list[str]:
        """Wait until everything has ended; return what is not as promised."""
        wrong = list(self.wrong)
        try:
            wait_for("the chains", lambda: not self._open_chains(), HEAL_SECONDS)
        except FleetError as error:
            wrong.append(f"{error}: {self._open_chains()}")
            said = doctor(self.fleet)
            wrong += [
                f"{label} waits, and doctor does not name it"
                for label in self._open_chains()
                if label not in said
            ]
        wrong += self._storm()
        for label in self.chains:
            wrong += self._judge(label)
        wrong += self._left_over()
        return wrong

    def _open_chains(self) -> list[str]:
        ends = (*ENDS, "") if self.damage.restored else ENDS
        return [label for label in self.chains if self.fleet.show(label)["state"] not in ends]

    def _storm(self) -> Iterator[str]:
        """Yield that there are more jobs than the chains can have needed."""
        jobs = {fun: n for fun, n in job_counts(self.fleet).items() if fun.startswith("mgraction")}
        runs = sum(len(self.fleet.show(label).get("minions", ())) for label in self.chains)
        self.counts.update({f"jobs {fun}": number for fun, number in jobs.items()})
        if sum(jobs.values()) > JOBS_PER_RUN * (runs + len(self.fleet.minions)):
            yield f"a storm of jobs: {jobs} for {runs} runs of chains"

    def _judge(self, label: str) -> Iterator[str]:
        shown, ran = self.fleet.show(label), self.fleet.witness()
        self.counts[f"chains {shown['state']}"] += 1
        for minion in shown.get("minions", ()):
            commands = [action for action in minion["actions"] if action["kind"] == "cmd"]
            for word, action in zip(WORDS, commands, strict=True):
                count = ran[f"{minion['minion']}:{label}.{word}"]
                place = f"{label} {minion['minion']} {word}: {action['state']}, ran {count} times"
                if count > 1 or (action["state"] == "DONE" and count != 1):
                    yield place
                if action["state"] == "FAILED" and not action["reason"] and not action["comment"]:
                    yield f"{place}, and says nothing"

    def _left_over(self) -> Iterator[str]:
        def waiting() -> list[str]:
            cache = "var/cache/catena/minion"
            homes = [self.fleet.home(name) / cache for name in self.fleet.minions]
            parts = [*(h / "outbox" for h in homes), *(h / "jobs" for h in homes)]
            return [str(p) for part in parts if part.is_dir() for p in part.iterdir()]

        try:
            wait_for("empty outboxes", lambda: not waiting(), HEAL_SECONDS)
        except FleetError:
            yield f"still waits: {waiting()[:5]}"


def report(soak: Soak) -> None:
    """Print counts and slopes."""
    for name, count in sorted(soak.counts.items()):
        print(f"{count:7d}  {name}")
    for name, samples in (("master", soak.master), *soak.agents.items()):
        late = [s for s in samples if s.at >= min(WARM_SECONDS, samples[-1].at / 3)] if (
            samples
        ) else []  # fmt: skip
        if len(late) < 3:
            continue
        memory = slope([(s.at, s.pss_kib / 1024) for s in late])
        handles = slope([(s.at, float(s.descriptors)) for s in late])
        last = late[-1]
        print(
            f"{name:8} {last.pss_kib / 1024:6.1f} MiB, {memory:+.1f} MiB/h; "
            f"{last.descriptors} descriptors, {handles:+.1f}/h"
        )


def small_disks(fleet: Rig) -> set[str]:
    """Give every tenth host a disk of its own that is soon full; none without root."""
    names = sorted(fleet.minions)[::10]
    if os.geteuid() != 0:
        return set()
    for name in names:
        home = fleet.home(name)
        config = (home / "etc/catena/minion").read_text()
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", str(home)], check=True
        )
        (home / "etc/catena").mkdir(parents=True)
        (home / "etc/catena/minion").write_text(config)
    return set(names)


def main() -> int:
    """Run, heal, judge."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--minions", type=int, default=50)
    parser.add_argument("--chains", type=int, default=0, help="most chains; 0: no limit")
    parser.add_argument("--damage", action="store_true", help="damage files, restore the store")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    given = parser.parse_args()
    print(f"seed {given.seed}")
    folder = Path(tempfile.mkdtemp(prefix="cat-"))
    ports = {f"h{number:02d}": free_ports() for number in range(given.minions)}
    fleet = Rig(folder, dict.fromkeys(ports, ""))
    for name, port in ports.items():
        fleet.add(name, {"master_port": port, "testing": True})
    disks = small_disks(fleet)
    try:
        with Cables(ports, fleet.port) as cables, fleet:
            fleet.start_master()
            fleet.supervise()
            fleet.start_minions()
            fleet.accept()
            plan = Plan(given.chains, given.damage)
            soak = Soak(fleet, cables, disks, given.seed, plan)
            soak.run(given.minutes)
            soak.heal()
            wrong = soak.verdicts()
            report(soak)
    finally:
        for name in disks:
            subprocess.run(["umount", "--lazy", str(fleet.home(name))], check=False)
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(wrong, indent=1) if wrong else "every invariant holds")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
