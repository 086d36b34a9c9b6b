"""`catena ssh-run`: runs that commands left on SSH hosts."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Tuple

import click

from catena.cli.groups import CommandGroup
from catena.cli.output import OUTPUTS
from catena.cli.output.answers import state_options, style
from catena.cli.output.plain import document
from catena.cli.output.table import clock, table
from catena.cli.output.text import printable
from catena.cli.ssh import (
    INTERRUPTED,
    answer_of,
    asked_hosts,
    client_files,
    connector,
    host_options,
    read_roster,
    with_password,
)
from catena.cli.ssh_hosts import Hosts
from catena.cli.ssh_tasks import Answer, Task
from catena.cli.watch import JobPrinter
from catena.client.settings import master_settings
from catena.core.errors import CatenaError, NotFoundError
from catena.core.frozen import dataclass

if TYPE_CHECKING:
    from catena.core.config.master import MasterSettings
    from catena.ssh.connect.client_config import ClientFiles
    from catena.ssh.connect.link import Watch
    from catena.ssh.connect.target import SshTarget
    from catena.ssh.push.ledger import Begun, PushLedger

_DAY_SECONDS = 86400.0
_ASKPASS = click.option("--askpass", is_flag=True, help="Ask for the password for login and sudo.")


@click.group("ssh-run", cls=CommandGroup)
def ssh_run() -> None:
    """List, collect and end runs that commands left on hosts; clean hosts.

    A run continues when the command that started it is killed. Its return stays on the host for a
    week.
    """


@ssh_run.command("list")
@click.option("--out", type=click.Choice(["table", "json"]), default="table")
@click.pass_context
def list_runs(ctx: click.Context, out: str) -> None:
    """List the runs started from here whose returns have not been shown."""
    from catena.ssh.push.ledger import PushLedger

    settings, _ = master_settings(ctx.find_root().obj)
    rows: List[Dict[str, str]] = [
        {
            "jid": one.spec.jid,
            "host": one.host,
            "fun": one.spec.fun,
            "user": one.spec.user,
            "began": clock(one.spec.issued, with_date=True),
            "state": _state(one),
        }
        for one in PushLedger(settings.state_dir).every()
    ]
    print(
        document(rows)
        if out == "json"
        else table(("jid", "host", "fun", "user", "began", "state"), rows)
    )


def _state(one: Begun) -> str:
    if one.is_followed and one.follower is not None:
        return f"followed by process {one.follower.pid}"
    return "return has arrived" if one.ret is not None else "left on the host"


@dataclass(frozen=True)
class _Access:
    """Settings and files with which `collect` and `cancel` reach hosts and their runs."""

    settings: MasterSettings
    files: ClientFiles
    ledger: PushLedger
    password: Optional[str]


@ssh_run.command()
@click.argument("jids", nargs=-1)
@_ASKPASS
@click.option("--out", type=click.Choice(sorted(OUTPUTS)), default=None, help="Format of answers.")
@state_options
@click.pass_context
def collect(ctx: click.Context, /, jids: Tuple[str, ...], **options: Any) -> int:
    """Fetch and show the returns of runs left on hosts, of all jobs or of JIDS.

    A run that still continues is followed to its end. Nothing is started.
    """
    return _collect(ctx, jids, "", options)


@ssh_run.command()
@click.argument("jids", nargs=-1, required=True)
@_ASKPASS
@click.option("--out", type=click.Choice(sorted(OUTPUTS)), default=None, help="Format of answers.")
@state_options
@click.pass_context
def cancel(ctx: click.Context, /, jids: Tuple[str, ...], **options: Any) -> int:
    """Kill the runs of JIDS left on hosts, with all their processes; show their returns."""
    return _collect(ctx, jids, "by catena ssh-run", options)


@ssh_run.command()
@click.argument("jids", nargs=-1, required=True)
@click.pass_context
def forget(ctx: click.Context, jids: Tuple[str, ...]) -> None:
    """Remove runs of JIDS from the list without connecting, for hosts that no longer exist."""
    from catena.ssh.push.ledger import PushLedger

    settings, _ = master_settings(ctx.find_root().obj)
    ledger = PushLedger(settings.state_dir)
    with ledger.alone():
        for one in _left(ledger, jids):
            ledger.page(one).close()
            print(f"{one.spec.jid}  {one.host}  {one.spec.fun}")


def _left(ledger: PushLedger, jids: Tuple[str, ...]) -> List[Begun]:
    """Return the runs of some or all jobs that no process follows; report the others."""
    found = [one for one in ledger.every() if not jids or one.spec.jid in jids]
    for jid in jids:
        if all(one.spec.jid != jid for one in found):
            raise NotFoundError(
                f"no run of job {jid} was left on a host; see: catena ssh-run list"
            )
    for one in found:
        if one.is_followed:
            print(f"{one.host}: job {one.spec.jid}: {_state(one)}", file=sys.stderr)
    return [one for one in found if not one.is_followed]


def _collect(
    ctx: click.Context, jids: Tuple[str, ...], cancelled: str, options: Mapping[str, Any]
) -> int:
    from catena.ssh.push.ledger import PushLedger

    settings, _ = master_settings(ctx.find_root().obj)
    ledger = PushLedger(settings.state_dir)
    password = click.prompt("password", hide_input=True, err=True) if options["askpass"] else None
    access = _Access(settings, client_files(ctx.find_root().obj, settings), ledger, password)
    with ledger.alone():
        left = _left(ledger, jids)
        if not left:
            print("no run was left on a host", file=sys.stderr)
            return 0
        tasks = [_task(one, access, cancelled, _label(one, left)) for one in left]
        printer = JobPrinter(options["out"] or "", style(options))
        hosts = Hosts(tasks, printer, INTERRUPTED, "collect")
        return hosts.run(settings.ssh_max_procs, renders=True)


def _label(one: Begun, left: List[Begun]) -> str:
    several = sum(other.host == one.host for other in left) > 1
    return f"{one.host} ({one.spec.jid})" if several else one.host


def _task(one: Begun, access: _Access, cancelled: str, label: str) -> Task:
    page = access.ledger.page(one)

    def work(watch: Watch) -> Optional[Answer]:
        try:
            return followed(watch)
        except CatenaError as error:
            if one.ret is None:
                raise
            # The host deletes the run by itself later.
            return {**answer_of(one.ret), "trouble": error}

    def followed(watch: Watch) -> Optional[Answer]:
        from catena.ssh.push import job

        page.take_over()
        ret = job.again(
            _target(one, access),
            connector(access.files, access.settings, watch),
            one,
            access.settings,
            watch,
            page.keep,
            cancelled,
        )
        if ret is None or (one.fun != one.spec.fun and one.ret is None):
            page.close()
            why = f"job {one.spec.jid} ({one.spec.fun}) never began, or its return was collected"
            print(printable(f"{one.host}: {why}"), file=sys.stderr, flush=True)
            return None
        return answer_of(ret)

    return Task(label, work, page.close)


def _target(one: Begun, access: _Access) -> SshTarget:
    from catena.ssh.connect import roster

    hosts = roster.read(access.settings, one.roster)
    (target,) = roster.targets(hosts, access.settings, one.named, "glob")
    return target if access.password is None else with_password([target], access.password)[0]


# -- hosts ---------------------------------------------------------------------------------------


@ssh_run.command("clean")
@click.argument("target")
@host_options
@click.option(
    "--days",
    type=click.FloatRange(min=0),
    default=7.0,
    show_default=True,
    help="Minimum age of runs.",
)
@click.option("--wipe", "-W", is_flag=True, help="Remove everything of catena.")
@click.pass_context
def clean_hosts(
    ctx: click.Context, /, target: str, days: float, wipe: bool, **options: Any
) -> int:
    """Remove from the hosts of TARGET what is no longer needed: uncollected returns, old files.

    Hosts do this by themselves once a day. A host with a running job or a waiting chain is not
    wiped.
    """
    settings, _ = master_settings(ctx.find_root().obj)
    files = client_files(ctx.find_root().obj, settings)
    hosts = asked_hosts(read_roster(settings, options["roster"]), settings, target, options)
    tasks = [Task(host.id, partial(_clean, host, settings, files, days, wipe)) for host in hosts]
    title = f"{'wipe' if wipe else 'clean'} {target}"
    return Hosts(tasks, JobPrinter(""), "interrupted", title).run(settings.ssh_max_procs)


def _clean(
    host: SshTarget,
    settings: MasterSettings,
    files: ClientFiles,
    days: float,
    wipe: bool,
    watch: Watch,
) -> Answer:
    from catena.ssh.push.clean import clean

    removed = clean(host, connector(files, settings, watch), watch, days * _DAY_SECONDS, wipe)
    value: Any = "wiped" if removed is None else removed
    return {"value": value, "out": "", "code": 0}
