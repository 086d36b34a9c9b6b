"""`catena ssh`: a function, or a command as it stands, on hosts that have nothing of ours."""

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
from catena.cli.ssh_ahead import Ahead, load
from catena.cli.ssh_hosts import Hosts
from catena.cli.ssh_tasks import Answer, Task
from catena.cli.watch import JobPrinter
from catena.client.settings import master_settings
from catena.core.errors import CatenaError, UnreachableError, UsageError
from catena.core.frozen import dataclass
from catena.core.job import DEFAULT_DEADLINE_SECONDS, JobReturn, JobSpec

if TYPE_CHECKING:
    from catena.core.config.master import MasterSettings
    from catena.ssh.connect.client_config import ClientFiles
    from catena.ssh.connect.link import Connector, Watch
    from catena.ssh.connect.target import Target
    from catena.ssh.push.knock import Knocks
    from catena.ssh.push.ledger import Ledger

F = TypeVar("F", bound=Callable[..., Any])

#: (option, short, target type, help)
_TYPES = (
    ("--pcre", "-E", "pcre", "Target by a regular expression on the id."),
    ("--list", "-L", "list", "Target is a comma-separated list of ids."),
    ("--grain", "-G", "grain", "Target by a grain that the roster's minion_opts give."),
    ("--nodegroup", "-N", "nodegroup", "Target is a nodegroup of the master's configuration."),
    ("--compound", "-C", "compound", "Target by a compound expression of these."),
)
#: Modules whose functions have templates rendered here for each host: work for a process each.
#: Another function does so at most once, for a pillar that it looks at; a process for each host
#: would double what this command costs.
_RENDER = frozenset("jinja mgractionchains mgrcompat pillar slsutil state".split())
#: How long a return that nobody collected stays on its host.
KEPT_SECONDS = 7 * 86400.0
#: What is said when the user ends a command that follows hosts.
INTERRUPTED = "interrupted; what hosts have begun goes on there, and waits: catena ssh-run collect"


@dataclass(frozen=True)
class _Work:
    """What to do on each host."""

    settings: MasterSettings
    files: ClientFiles
    #: A shell's text, or "" for a function.
    raw: str
    function: str
    args: Tuple[Any, ...]
    kwargs: Mapping[str, Any]
    #: Seconds until a raw command must have ended; None: hours.
    timeout: Optional[float]
    deadline: Optional[int]
    #: Path of the roster where it is not the configured one, and the hosts of it.
    roster: str
    hosts: Mapping[str, Target]
    #: Whether to leave nothing of catena there.
    wipe: bool


def host_options(command: F) -> F:
    """Give *command* the options that say which hosts are meant; see `asked_hosts`."""
    command = click.option(
        "--askpass", is_flag=True, help="Ask for the password of login and sudo."
    )(command)
    for long, short, kind, text in reversed(_TYPES):
        command = click.option(short, long, f"by_{kind}", is_flag=True, help=text)(command)
    return click.option(
        "--roster", "--roster-file", default="", help="Roster file instead of the configured one."
    )(command)


def read_roster(settings: MasterSettings, path: str) -> Mapping[str, Target]:
    """Return the hosts of a roster; warn where others may see or change what is in it."""
    from catena.ssh.connect import roster

    found = roster.read(settings, path)
    warning = roster.exposed(settings, path, found)
    if warning:
        print(f"warning: {printable(warning)}", file=sys.stderr, flush=True)
    return found


def asked_hosts(
    hosts: Mapping[str, Target], settings: MasterSettings, target: str, options: Mapping[str, Any]
) -> List[Target]:
    """Return the hosts of a roster that a command line means.

    Raises:
        UsageError: it means none, or is malformed.
    """
    from catena.ssh.connect import roster

    kinds = [kind for _, _, kind, _ in _TYPES if options[f"by_{kind}"]]
    if len(kinds) > 1:
        raise UsageError(f"a target is of one type, not {' and '.join(kinds)}")
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
@click.option(
    "--raw", "-r", is_flag=True, help="WORDS are a command of a shell; no Python needed."
)
@host_options
@click.option("--max-procs", type=click.IntRange(1, 1000), help="Hosts at a time.")
@click.option("--out", type=click.Choice(sorted(OUTPUTS)), default=None, help="Form of answers.")
@click.option("--timeout", "-t", type=click.FloatRange(min=1), help="Seconds for a raw command.")
@click.option(
    "--deadline", type=click.IntRange(min=1), help="Seconds after which a host ends the job."
)
@click.option("--wipe", "-W", is_flag=True, help="Leave nothing of catena on the hosts.")
@hidden_options
@state_options
@click.pass_context
def ssh(ctx: click.Context, /, target: str, words: Tuple[str, ...], **options: Any) -> int:
    """Run a FUNCTION with its arguments (or, with -r, a command) on hosts that SSH reaches.

    TARGET is a glob on the ids of the roster, or user@host, host:port, user@host:port. The hosts
    need sshd and Python 3.9; with -r only sshd.
    """
    settings, _ = master_settings(ctx.find_root().obj)
    if not words:
        raise UsageError("say what to run: a function, or -r and a command")
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
        raise UsageError("a raw command takes no --kwargs-file, --stdin or --kwarg-env")
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
    """Return where the SSH files of the user that runs this command lie."""
    from catena.ssh.connect.client_config import files_of

    return files_of(settings, config_dir)


def with_password(hosts: List[Target], password: str) -> List[Target]:
    """Return the hosts with one password for all."""
    from catena.core.frozen import replace

    return [replace(host, password=password) for host in hosts]


def _on_all(hosts: List[Target], work: _Work, width: int, printer: JobPrinter) -> int:
    """Work on all hosts, so many at a time; print answers as they come."""
    from catena.ssh.push.knock import Knocks
    from catena.ssh.push.ledger import Ledger

    if work.raw:
        tasks = [Task(host.id, partial(_raw, host, work)) for host in hosts]
        return Hosts(tasks, printer, "interrupted", work.raw).run(width)
    spec, pages = _spec(work), Ledger(work.settings.state_dir)
    knocks = Knocks(work.settings, spec)
    tasks = [_function(host, work, spec, pages, knocks) for host in hosts]
    renders = work.function.partition(".")[0] in _RENDER
    if renders and len(tasks) > 1:
        # Before there are processes, each of which would do it again.
        load(work.settings)
    return Hosts(tasks, printer, INTERRUPTED, work.function).run(width, renders)


def _raw(host: Target, work: _Work, watch: Watch) -> Answer:
    from catena.ssh.connect.connection import open_connection
    from catena.ssh.connect.errors import Phase
    from catena.ssh.connect.raw import DEADLINE_SECONDS, run_raw

    watch(Phase.connect, host.host)
    connection = open_connection(host, work.files, work.settings.ssh_timeout)
    try:
        watch(Phase.run, work.raw)
        found = run_raw(connection, work.raw, work.timeout or DEADLINE_SECONDS)
    finally:
        connection.close()
    return {"value": found, "out": "", "code": found["retcode"]}


def _function(host: Target, work: _Work, spec: JobSpec, pages: Ledger, knocks: Knocks) -> Task:
    """Return the task of a function on one host, with a page on which it is kept."""
    from catena.ssh.push.ledger import Begun, named

    page = pages.page(Begun(host.id, named(host, work.hosts), work.roster, spec))

    def run(watch: Watch) -> Answer:
        from catena.ssh.connect.errors import Phase, SshError

        # Nothing is left of us where the last command was to leave nothing.
        short = not work.wipe and knocks.suit(host)
        connect = connector(work.files, work.settings, watch)
        link = Ahead(connect, host, work.settings, loads=not short)
        try:
            if short and knocks.answered(link.first):
                return {"value": True, "out": "", "code": 0}
            from catena.ssh.push import job

            return answer_of(
                job.run(host, link, spec, work.settings, watch, page.keep, page.begins)
            )
        except SshError as error:
            if error.phase is Phase.install and not error.waits:
                # It was refused before it began.
                page.close()
            if not page.is_written:
                raise
            advice = f"{error.advice}; catena ssh-run collect asks again"
            raise SshError(error.host, error.phase, error.what, advice, waits=True) from None
        finally:
            link.close()

    return Task(host.id, partial(_wiped, host, work, run) if work.wipe else run, page.close)


def _wiped(host: Target, work: _Work, run: Callable[[Watch], Answer], watch: Watch) -> Answer:
    """Do what *run* does, then remove catena from the host; the answer stands whatever fails."""
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
    """Return what connects to hosts, and tells of it."""
    from catena.ssh.connect.connection import SshConnection, open_connection
    from catena.ssh.connect.errors import Phase

    def connect(target: Target) -> SshConnection:
        watch(Phase.connect, target.host)
        return open_connection(target, files, settings.ssh_timeout)

    return connect


def answer_of(ret: JobReturn) -> Answer:
    """Return a return as it is shown."""
    code = ret.retcode or (0 if ret.success else 1)
    return {"value": ret.value, "out": ret.out, "code": code}


def _spec(work: _Work) -> JobSpec:
    import getpass

    from catena.core.clock import SystemClock
    from catena.core.ids import JidFactory
    from catena.core.records import encode

    clock = SystemClock()
    return JobSpec(
        JidFactory(clock.now)(),
        work.function,
        # As they would come from a master.
        tuple(encode(work.args)),
        encode(work.kwargs),
        user=getpass.getuser(),
        issued=clock.now().timestamp(),
        deadline_seconds=work.deadline or DEFAULT_DEADLINE_SECONDS,
    )
