"""Rows of commands without a daemon."""

from __future__ import annotations

from bench.lab import Lab
from bench.measure import run
from bench.row import Row, Sample, Times
from bench.surroundings import environment


def version_catena(lab: Lab) -> Sample:
    """`catena --version`."""
    return _command(lab, "catena", "catena")


def version_salt(lab: Lab) -> Sample:
    """`salt --version`."""
    return _command(lab, "salt", "salt")


def version_ansible(lab: Lab) -> Sample:
    """`ansible --version`."""
    return _command(lab, "ansible", "ansible")


def version_pyinfra(lab: Lab) -> Sample:
    """`pyinfra --version`."""
    return _command(lab, "pyinfra", "pyinfra")


def version_floor(lab: Lab) -> Sample:
    """Python that does nothing."""
    ran = run([lab.tools.python("catena"), "-c", "pass"], environment())
    return Sample(ran.wall, ran.cpu)


def _command(lab: Lab, tool: str, command: str) -> Sample:
    ran = run([lab.tools.command(tool, command), "--version"], environment())
    return Sample(ran.wall, ran.cpu)


ROWS = (
    Row(
        name="version",
        title="`--version`",
        unit="s",
        tools={
            "catena": version_catena,
            "salt": version_salt,
            "ansible": version_ansible,
            "pyinfra": version_pyinfra,
            "floor": version_floor,
        },
        aim=Times(5),
        repeats=11,
        quick=5,
    ),
)
