"""Rows of one minion: latency of a ping from the shell and from a persistent client."""

from __future__ import annotations

import statistics
from pathlib import Path

from bench.equipment import shared
from bench.equipment.fleet import Fleet
from bench.equipment.shared import on_both
from bench.errors import BenchError
from bench.lab import Lab
from bench.measure import run
from bench.row import Limit, Row, Sample, Times
from bench.surroundings import environment

#: Number of calls of a persistent client in one batch.
CALLS = 100
QUICK_CALLS = 30


def whole(fleet: Fleet) -> Sample:
    """`catena run '*' test.ping`, `salt '*' test.ping`."""
    before = fleet.cpu()
    ran = fleet.cli("*", "test.ping")
    if "True" not in ran.out:
        raise BenchError(f"no minion answered: {ran.out}{ran.err}")
    return Sample(ran.wall, ran.cpu + fleet.cpu() - before)


def whole_ansible(lab: Lab) -> Sample:
    """`ansible localhost -c local -m ping`."""
    command = lab.tools.command("ansible", "ansible")
    ran = run([command, "localhost", "-c", "local", "-m", "ping"], environment())
    return Sample(ran.wall, ran.cpu)


def whole_pyinfra(lab: Lab) -> Sample:
    """`pyinfra @local exec -- true`."""
    command = lab.tools.command("pyinfra", "pyinfra")
    ran = run([command, "@local", "exec", "--", "true"], environment())
    return Sample(ran.wall, ran.cpu)


def kept_floor(lab: Lab) -> Sample:
    """The median of bare ZeroMQ round trips between two processes."""
    script = Path(__file__).parents[1] / "floors/zeromq.py"
    ran = run([lab.tools.python("catena"), script, str(_calls(lab))], environment())
    return Sample(float(ran.out) * 1e3)


def tail_catena(lab: Lab) -> Sample:
    """The ratio of the 99th percentile to the median."""
    seconds, _ = _batch(shared.catena(lab))
    return Sample(_percentile_99(seconds) / statistics.median(seconds))


def _calls(lab: Lab) -> int:
    return QUICK_CALLS if lab.quick else CALLS


def kept(fleet: Fleet) -> Sample:
    """The median of a batch."""
    seconds, cpu = _batch(fleet)
    return Sample(statistics.median(seconds) * 1e3, cpu / len(seconds))


def slowest(fleet: Fleet) -> Sample:
    """The 99th percentile of a batch."""
    seconds, _ = _batch(fleet)
    return Sample(_percentile_99(seconds) * 1e3)


def _percentile_99(seconds: list[float]) -> float:
    return statistics.quantiles(seconds, n=100)[98]


def _batch(fleet: Fleet) -> tuple[list[float], float]:
    client = fleet.client
    client.ask("test.ping", times=2)  # warm up
    before = fleet.cpu()
    answers = client.ask("test.ping", times=_calls(fleet.lab))
    if answers.minions != 1:
        raise BenchError(f"{answers.minions} minions answered the last call")
    return answers.seconds, answers.cpu + fleet.cpu() - before


ROWS = (
    Row(
        name="ping-cli",
        title="`run '*' test.ping`, one minion, whole process",
        unit="s",
        tools={
            **on_both(whole),
            "ansible": whole_ansible,
            "pyinfra": whole_pyinfra,
        },
        aim=Times(6),
        repeats=11,
        quick=5,
        note="Ansible and pyinfra: the same on this host, without a connection; CPU with daemons",
    ),
    Row(
        name="ping-kept",
        title="ping from a kept client",
        unit="ms",
        tools={**on_both(kept), "floor": kept_floor},
        aim=Times(40),
        repeats=3,
        quick=1,
        note=f"median of {CALLS} calls ({QUICK_CALLS} in a quick run); floor: bare ZeroMQ",
    ),
    Row(
        name="ping-kept-p99",
        title="the same, 99th percentile",
        unit="ms",
        tools=on_both(slowest),
        repeats=1,
        quick=1,
    ),
    Row(
        name="ping-kept-tail",
        title="the same, 99th percentile by median",
        unit="×",
        tools={"catena": tail_catena},
        aim=Limit(3),
        repeats=3,
        quick=1,
    ),
)
