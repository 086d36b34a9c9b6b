"""Rows of hosts over SSH; salt-ssh, Ansible and pyinfra use the same sshd."""

from __future__ import annotations

from collections.abc import Callable

from bench.equipment.ssh_hosts import FILES, HOSTS, SshHosts
from bench.errors import BenchError
from bench.lab import Lab
from bench.row import Row, Sample, Times

ONE = HOSTS[0]
EVERY = "h*"
_NOTE = (
    "Twenty hosts are twenty names of one sshd on this machine: tool and hosts share its cores."
)


def _hosts(lab: Lab) -> SshHosts:
    return lab.keep("ssh", lambda: SshHosts(lab))


def _warm(lab: Lab, name: str, work: Callable[[SshHosts], Sample]) -> Sample:
    """Return the sample of *work*, done three times before it is first measured."""
    hosts = _hosts(lab)
    # The first visit sends the program, the second compiles it.
    lab.once(f"ssh warm {name}", lambda: [work(hosts) for _ in range(3)])
    return work(hosts)


def _ping_catena(hosts: SshHosts) -> Sample:
    return hosts.catena(ONE, "test.ping")


def _ping_salt(hosts: SshHosts) -> Sample:
    return hosts.salt(ONE, "test.ping")


def _ping_ansible(hosts: SshHosts) -> Sample:
    return hosts.ansible(ONE, "-m", "ping")


def _ping_pyinfra(hosts: SshHosts) -> Sample:
    return hosts.pyinfra("one", "exec", "--", "true")


def _all_catena(hosts: SshHosts) -> Sample:
    return hosts.catena(EVERY, "test.ping")


def _all_salt(hosts: SshHosts) -> Sample:
    return hosts.salt(EVERY, "test.ping")


def _all_ansible(hosts: SshHosts) -> Sample:
    return hosts.ansible("all", "-m", "ping")


def _all_pyinfra(hosts: SshHosts) -> Sample:
    return hosts.pyinfra("all", "exec", "--", "true")


def _files_catena(hosts: SshHosts) -> Sample:
    return _checked(hosts, hosts.catena(ONE, "state.apply", "fifty"))


def _files_salt(hosts: SshHosts) -> Sample:
    return _checked(hosts, hosts.salt(ONE, "state.apply", "fifty"))


def _files_ansible(hosts: SshHosts) -> Sample:
    hosts.out.mkdir(exist_ok=True)
    return _checked(hosts, hosts.ansible(str(hosts.folder / "play.json")))


def _files_pyinfra(hosts: SshHosts) -> Sample:
    return _checked(hosts, hosts.pyinfra("one", str(hosts.folder / "deploy.py")))


def _checked(hosts: SshHosts, sample: Sample) -> Sample:
    made = len(list(hosts.out.iterdir())) if hosts.out.is_dir() else 0
    if made != FILES:
        raise BenchError(f"{made} of {FILES} files are there")
    return sample


def _applied(lab: Lab, work: Callable[[SshHosts], Sample]) -> Sample:
    hosts = _hosts(lab)
    hosts.clean(hosts.out)
    return work(hosts)


def _met(lab: Lab, work: Callable[[SshHosts], Sample]) -> Sample:
    hosts = _hosts(lab)
    hosts.clean(hosts.rooms)
    return work(hosts)


def first_catena(lab: Lab) -> Sample:
    """A host without files of catena."""
    return _met(lab, _ping_catena)


def first_salt(lab: Lab) -> Sample:
    """A host without files of Salt; the package to send was built before."""
    lab.once("ssh thin", lambda: _ping_salt(_hosts(lab)))
    return _met(lab, _ping_salt)


def floor(lab: Lab) -> Sample:
    """OpenSSH's client."""
    return _hosts(lab).openssh()


def _tools(
    how: Callable[[Lab, str, Callable[[SshHosts], Sample]], Sample],
    **works: Callable[[SshHosts], Sample],
) -> dict[str, Callable[[Lab], Sample]]:
    def measure(tool: str, work: Callable[[SshHosts], Sample]) -> Callable[[Lab], Sample]:
        return lambda lab: how(lab, f"{tool} {work.__name__}", work)

    return {tool: measure(tool, work) for tool, work in works.items()}


def _applied_as(lab: Lab, _: str, work: Callable[[SshHosts], Sample]) -> Sample:
    return _applied(lab, work)


_FILES = {
    "catena": _files_catena,
    "salt": _files_salt,
    "ansible": _files_ansible,
    "pyinfra": _files_pyinfra,
}

ROWS = (
    Row(
        name="ssh-ping",
        title="SSH: ping, warm, whole process",
        unit="s",
        tools={
            **_tools(
                _warm,
                catena=_ping_catena,
                salt=_ping_salt,
                ansible=_ping_ansible,
                pyinfra=_ping_pyinfra,
            ),
            "floor": floor,
        },
        aim=Times(5),
        repeats=11,
        quick=3,
        note=(
            "pyinfra has no ping: it runs `true` in a shell of the host. catena starts Python "
            "there, and looks whether its program is in place. " + _NOTE
        ),
    ),
    Row(
        name="ssh-20",
        title="SSH: ping 20 hosts, warm",
        unit="s",
        tools=_tools(
            _warm, catena=_all_catena, salt=_all_salt, ansible=_all_ansible, pyinfra=_all_pyinfra
        ),
        aim=Times(6),
        repeats=5,
        quick=1,
        fewer={"salt": 3, "ansible": 3},
    ),
    Row(
        name="ssh-50-files-first",
        title="SSH: 50 file states applied",
        unit="s",
        tools=_tools(_applied_as, **_FILES),
        aim=Times(6),
        repeats=5,
        quick=0,
        fewer={"salt": 3, "ansible": 1, "pyinfra": 3},
    ),
    Row(
        name="ssh-50-files-again",
        title="SSH: the same 50 file states again",
        unit="s",
        tools=_tools(_warm, **_FILES),
        aim=Times(6),
        repeats=5,
        quick=0,
        fewer={"salt": 3, "ansible": 0, "pyinfra": 3},
    ),
    Row(
        name="ssh-first",
        title="SSH: first contact with a host",
        unit="s",
        tools={"catena": first_catena, "salt": first_salt},
        aim=Times(4),
        repeats=5,
        quick=1,
        fewer={"salt": 3},
    ),
)
