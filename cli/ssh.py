"""`catena ssh`: run a function or a raw command on hosts without an agent."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, List, Mapping, Optional, Tuple, TypeVar

import click

from catena.cli.arguments import split
from catena.cli.function_command import FunctionCommand, check_function
from catena.cli.hidden_arguments import any_hidden, hidden_options, with_hidden
from catena.cli.output import OUTPUTS
from catena.cli.output.answers import state_options, style
from catena.cli.output.text import printable
from catena.cli.ssh_ahead import EagerConnector, load
from catena.cli.ssh_hosts import Hosts
from catena.cli.ssh_tasks import Answer, Task
from catena.cli.watch import JobPrinter
from catena.client.settings import master_settings
from catena.core.chain_calls import MODULE
from catena.core.errors import CatenaError, UnreachableError, UsageError
from catena.core.frozen import dataclass
from catena.core.job import DEFAULT_DEADLINE_SECONDS, FunctionCall, JobReturn, JobSpec

if TYPE_CHECKING:
    from catena.core.config.master import MasterSettings
    from catena.ssh.connect.client_config import ClientFiles
    from catena.ssh.connect.link import Connector, Watch
    from catena.ssh.connect.target import SshTarget
    from catena.ssh.push.fast_ping import FastPings
    from catena.ssh.push.ledger import PushLedger

F = TypeVar("F", bound=Callable[..., Any])

#: (option, short, target type, help)
_TYPES = (
    ("--pcre", "-E", "pcre", "Target by a regular expression on the id."),
    ("--list", "-L", "list", "Target is a comma-separated list of ids."),
    ("--grain", "-G", "grain", "Target by a grain in the roster's minion_opts."),
    ("--nodegroup", "-N", "nodegroup", "Target is a nodegroup of the master's configuration."),
    ("--compound", "-C", "compound", "Target by a compound expression of these."),
)
#: Modules whose functions render templates here for each host, which needs a process per host. Any
#: other function renders at most a pillar, and a process per host would double the command's cost.
_RENDER = frozenset({MODULE, *"jinja mgrcompat pillar slsutil state".split()})
#: Seconds for which an uncollected return stays on its host.
KEPT_SECONDS = 7 * 86400.0
#: Message when the user interrupts a command.
INTERRUPTED = "interrupted; runs continue on the hosts; collect them with: catena ssh-run collect"


@dataclass(frozen=True)
class _Work:
    """What to do on each host."""

    settings: MasterSettings
    files: ClientFiles
    #: Text of a shell command, or "" for a function.
    raw: str
    function: str
    args: Tuple[Any, ...]
    kwargs: Mapping[str, Any]
    #: Time limit of a raw command in seconds; None: several hours.
    timeout: Optional[float]
    deadline: Optional[int]
    #: Path of the roster if it is not the configured one, and its hosts.
    roster: str
    hosts: Mapping[str, SshTarget]
    #: Whether to remove everything of catena from the host afterwards.
    wipe: bool


def host_options(command: F) -> F:
    """Add to *command* the options that select hosts; see `asked_hosts`."""
    command = click.option(
        "--askpass", is_flag=True, help="Ask for the password for login and sudo."
    )(command)
    for long, short, kind, text in reversed(_TYPES):
        command = click.option(short, long, f"by_{kind}", is_flag=True, help=text)(command)
    return click.option(
        "--roster", "--roster-file", default="", help="Roster file instead of the configured one."
    )(command)


def read_roster(settings: MasterSettings, path: str) -> Mapping[str, SshTarget]:
    """Return the hosts of a roster; warn if other users can read or change it."""
    from catena.ssh.connect import roster

    found = roster.read(settings, path)
    warning = roster.exposed(settings, path, found)
    if warning:
        print(f"warning: {printable(warning)}", file=sys.stderr, flush=True)
    return found


def asked_hosts(
    hosts: Mapping[str, SshTarget],
    settings: MasterSettings,
    target: str,
    options: Mapping[str, Any],
) -> List[SshTarget]:
    """Return the hosts of a roster that a command line selects.

    Raises:
        UsageError: it selects none, or is malformed.
    """
    from catena.ssh.connect import roster

    kinds = [kind for _, _, kind, _ in _TYPES if options[f"by_{kind}"]]
    if len(kinds) > 1:
        raise UsageError(f"give one type of target, not {' and '.join(kinds)}")
    found = roster.targets(hosts, settings, target, (kinds or ["glob"])[0])
    if options["askpass"]:
        return with_password(found, click.prompt("password", hide_input=True, err=True))
    return found


@click.command(
    cls=FunctionCommand,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": True},
)
@click.argument("target")
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@click.option("--raw", "-r", is_flag=True, help="WORDS are a shell command; no Python is needed.")
@host_options
@click.option("--max-procs", type=click.IntRange(1, 1000), help="Number of hosts at a time.")
@click.option("--out", type=click.Choice(sorted(OUTPUTS)), default=None, help="Format of answers.")
@click.option("--timeout", "-t", type=click.FloatRange(min=1), help="Seconds for a raw command.")
@click.option(
    "--deadline", type=click.IntRange(min=1), help="Seconds after which a host kills the job."
)
@click.option("--wipe", "-W", is_flag=True, help="Leave nothing of catena on the hosts.")
@hidden_options
@state_options
@click.pass_context
def ssh(ctx: click.Context, /, target: str, words: Tuple[str, ...], **options: Any) -> int:
    """Run a FUNCTION with its arguments (or, with -r, a command) on hosts over SSH.

    TARGET is a glob on the ids in the roster, or user@host, host:port, user@host:port. The hosts
    need sshd and Python 3.9; with -r only sshd.
    """
    settings, _ = master_settings(ctx.find_root().obj)
    if not words:
        raise UsageError("give a function, or -r and a command")
    work = _work(ctx.find_root().obj, settings, words, options)
    if not work.raw:
        check_function(work.function, target)
    hosts = asked_hosts(work.hosts, settings, target, options)
    width = options["max_procs"] or settings.ssh_max_procs
    printer = JobPrinter(options["out"] or "", style(options))
    return _on_all(hosts, work, width, printer)


def _work(
    config_dir: str, settings: MasterSettings, words: Tuple[str, ...], options: Mapping[str, Any]
) -> _Work:
    if options["raw"] and any_hidden(options):
        raise UsageError("--kwargs-file, --stdin and --kwarg-env do not apply to a raw command")
    args, kwargs = ([], {}) if options["raw"] else split(words[1:])
    kwargs = with_hidden(kwargs, options)
    own = str(Path(options["roster"]).resolve()) if options["roster"] else ""
    return _Work(
        settings=settings,
        files=client_files(config_dir, settings),
        raw=" ".join(words) if options["raw"] else "",
        function="" if options["raw"] else words[0],
        args=tuple(args),
        kwargs=kwargs,
        timeout=options["timeout"],
        deadline=options["deadline"],
        roster=own,
        hosts=read_roster(settings, own),
        wipe=options["wipe"],
    )


def client_files(config_dir: str, settings: MasterSettings) -> ClientFiles:
    """Return the paths of the SSH files of the user who runs this command."""
    from catena.ssh.connect.client_config import files_of

    return files_of(settings, config_dir)


def with_password(hosts: List[SshTarget], password: str) -> List[SshTarget]:
    """Return the hosts with *password* for each."""
    from catena.core.frozen import replace

    return [replace(host, password=password) for host in hosts]


def _on_all(hosts: List[SshTarget], work: _Work, width: int, printer: JobPrinter) -> int:
    """Run the tasks on all hosts, *width* at a time; print answers as they arrive."""
    from catena.ssh.push.fast_ping import FastPings
    from catena.ssh.push.ledger import PushLedger

    if work.raw:
        tasks = [Task(host.id, partial(_raw, host, work)) for host in hosts]
        return Hosts(tasks, printer, "interrupted", work.raw).run(width)
    spec, pages = _spec(work), PushLedger(work.settings.state_dir)
    pings = FastPings(work.settings, spec)
    tasks = [_function(host, work, spec, pages, pings) for host in hosts]
    renders = work.function.partition(".")[0] in _RENDER
    if renders and len(tasks) > 1:
        # Load before worker processes are forked, each of which would load it again.
        load(work.settings)
    return Hosts(tasks, printer, INTERRUPTED, work.function).run(width, renders)


def _raw(host: SshTarget, work: _Work, watch: Watch) -> Answer:
    from catena.ssh.connect.connection import open_connection
    from catena.ssh.connect.errors import PushPhase
    from catena.ssh.connect.raw import DEADLINE_SECONDS, run_raw

    watch(PushPhase.connect, host.host)
    connection = open_connection(host, work.files, work.settings.ssh_timeout)
    try:
        watch(PushPhase.run, work.raw)
        found = run_raw(connection, work.raw, work.timeout or DEADLINE_SECONDS)
    finally:
        connection.close()
    return {"value": found, "out": "", "code": found["retcode"]}


def _function(
    host: SshTarget, work: _Work, spec: JobSpec, pages: PushLedger, pings: FastPings
) -> Task:
    """Return the task of a function on one host, with a page of the ledger that records it."""
    from catena.ssh.push.ledger import Begun, named

    page = pages.page(Begun(host.id, named(host, work.hosts), work.roster, spec))

    def run(watch: Watch) -> Answer:
        from catena.ssh.connect.errors import PushPhase, SshError

        # After a command with --wipe the host has no program of ours.
        short = not work.wipe and pings.applies_to(host)
        connect = connector(work.files, work.settings, watch)
        link = EagerConnector(connect, host, work.settings, loads=not short)
        try:
            if short and pings.succeeds(link.first):
                return {"value": True, "out": "", "code": 0}
            from catena.ssh.push import job

            return answer_of(
                job.run(host, link, spec, work.settings, watch, page.keep, page.begins)
            )
        except SshError as error:
            if error.phase is PushPhase.install and not error.waits:
                # The visit was refused before the run began.
                page.close()
            if not page.is_written:
                raise
            advice = f"{error.advice}; ask again with: catena ssh-run collect"
            raise SshError(error.host, error.phase, error.what, advice, waits=True) from None
        finally:
            link.close()

    return Task(host.id, partial(_wiped, host, work, run) if work.wipe else run, page.close)


def _wiped(host: SshTarget, work: _Work, run: Callable[[Watch], Answer], watch: Watch) -> Answer:
    """Call *run*, then remove catena from the host, without changing the answer if that fails."""
    from catena.ssh.push.clean import clean

    remove = partial(clean, host, connector(work.files, work.settings, watch), watch)
    try:
        found = run(watch)
    except UnreachableError:
        raise
    except CatenaError:
        remove(KEPT_SECONDS, True)
        raise
    try:
        remove(KEPT_SECONDS, True)
    except CatenaError as error:
        return {**found, "trouble": error}
    return found


def connector(files: ClientFiles, settings: MasterSettings, watch: Watch) -> Connector:
    """Return a function that connects to hosts and reports its progress to *watch*."""
    from catena.ssh.connect.connection import SshConnection, open_connection
    from catena.ssh.connect.errors import PushPhase

    def connect(target: SshTarget) -> SshConnection:
        watch(PushPhase.connect, target.host)
        return open_connection(target, files, settings.ssh_timeout)

    return connect


def answer_of(ret: JobReturn) -> Answer:
    """Return a job's return in the form in which it is shown."""
    code = ret.retcode or (0 if ret.success else 1)
    return {"value": ret.value, "out": ret.out, "code": code}


def _spec(work: _Work) -> JobSpec:
    import getpass

    from catena.core.clock import SystemClock
    from catena.core.ids import JidFactory

    clock = SystemClock()
    return JobSpec.asked_here(
        JidFactory(clock.now)(),
        FunctionCall(work.function, work.args, dict(work.kwargs)),
        getpass.getuser(),
        clock.now().timestamp(),
        deadline_seconds=work.deadline or DEFAULT_DEADLINE_SECONDS,
    )
