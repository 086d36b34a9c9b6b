"""`catena ssh`: a function, or a command as it stands, on hosts that have nothing of ours."""

from __future__ import annotations

import sys
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Tuple

import click

from catena.cli.arguments import split
from catena.cli.function_command import FunctionCommand, check_function
from catena.cli.output import OUTPUTS
from catena.cli.output.answers import state_options, style
from catena.cli.output.live import LiveLines
from catena.cli.output.text import printable
from catena.cli.settings import master_settings
from catena.cli.watch import JobPrinter
from catena.core.config.folders import CONFIG_DIR
from catena.core.errors import CatenaError, UnreachableError, UsageError
from catena.core.frozen import dataclass
from catena.core.own_code import told

if TYPE_CHECKING:
    from catena.core.config.master import MasterSettings
    from catena.ssh.client_config import ClientFiles
    from catena.ssh.link import Watch
    from catena.ssh.target import Target

#: (option, short, target type, help)
_TYPES = (
    ("--pcre", "-E", "pcre", "Target by a regular expression on the id."),
    ("--list", "-L", "list", "Target is a comma-separated list of ids."),
    ("--nodegroup", "-N", "nodegroup", "Target is a nodegroup of the master's configuration."),
)


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


def _types(command: Callable[..., Any]) -> Callable[..., Any]:
    for long, short, kind, text in reversed(_TYPES):
        command = click.option(short, long, f"by_{kind}", is_flag=True, help=text)(command)
    return command


@click.command(
    cls=FunctionCommand,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": True},
)
@click.argument("target")
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--raw", "-r", is_flag=True, help="WORDS are a command of a shell; no Python needed."
)
@click.option("--roster", default="", help="Roster file instead of the configured one.")
@_types
@click.option("--askpass", is_flag=True, help="Ask for the password of login and sudo.")
@click.option("--max-procs", type=click.IntRange(1, 1000), help="Hosts at a time.")
@click.option("--out", type=click.Choice(sorted(OUTPUTS)), default=None, help="Form of answers.")
@click.option("--timeout", "-t", type=click.FloatRange(min=1), help="Seconds for a raw command.")
@click.option(
    "--deadline", type=click.IntRange(min=1), help="Seconds after which a host ends the job."
)
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
    from catena.ssh import roster

    kinds = [kind for _, _, kind, _ in _TYPES if options[f"by_{kind}"]]
    if len(kinds) > 1:
        raise UsageError(f"a target is of one type, not {' and '.join(kinds)}")
    hosts = roster.targets(
        roster.read(settings, options["roster"]), settings, target, (kinds or ["glob"])[0]
    )
    if options["askpass"]:
        hosts = _with_password(hosts, click.prompt("password", hide_input=True, err=True))
    width = options["max_procs"] or settings.ssh_max_procs
    printer = JobPrinter(options["out"] or "", style(options))
    return _on_all(hosts, work, width, printer)


def _work(
    config_dir: str, settings: MasterSettings, words: Tuple[str, ...], options: Mapping[str, Any]
) -> _Work:
    args, kwargs = ([], {}) if options["raw"] else split(words[1:])
    return _Work(
        settings=settings,
        files=client_files(config_dir, settings),
        raw=" ".join(words) if options["raw"] else "",
        function="" if options["raw"] else words[0],
        args=tuple(args),
        kwargs=kwargs,
        timeout=options["timeout"],
        deadline=options["deadline"],
    )


def client_files(config_dir: str, settings: MasterSettings) -> ClientFiles:
    """Return where the SSH files of the user that runs this command lie."""
    from catena.ssh.client_config import user_files

    own = Path(settings.ssh_known_hosts_file)
    usual = Path(config_dir) == Path(CONFIG_DIR)
    trust = "" if usual else f"catena -c {config_dir} ssh-key trust"
    return user_files(own, settings.ssh_config_file, trust)


def _with_password(hosts: List[Target], password: str) -> List[Target]:
    from catena.core.frozen import replace

    return [replace(host, password=password) for host in hosts]


def _on_all(hosts: List[Target], work: _Work, width: int, printer: JobPrinter) -> int:
    """Work on all hosts, so many at a time; print answers as they come."""
    live = LiveLines()
    failed: Dict[str, str] = {}
    unreached: Dict[str, str] = {}
    pool = ThreadPoolExecutor(max_workers=min(width, len(hosts)))
    futures = {pool.submit(_on_one, host, work, live): host for host in hosts}
    try:
        for future in as_completed(futures):
            host = futures[future].id
            live.hide()
            try:
                _show(host, future, printer, failed)
            except UnreachableError as error:
                unreached[host] = str(error)
                print(printable(str(error)), file=sys.stderr, flush=True)
            except CatenaError as error:
                failed[host] = "error"
                text = str(error)
                prefix = "" if text.startswith(f"{host}: ") else f"{host}: "
                print(printable(prefix + text), file=sys.stderr, flush=True)
            except Exception as error:  # noqa: BLE001  # one host makes nothing go wrong for others
                failed[host] = "error"
                print(printable(f"{host}: {told(error)}"), file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        pool.shutdown(wait=False, cancel_futures=True)
        print("interrupted; what hosts have begun goes on there", file=sys.stderr)
        return 130
    pool.shutdown(wait=False)
    printer.finish()
    if failed:
        return CatenaError.exit_code
    return UnreachableError.exit_code if unreached else 0


def _show(
    host: str, future: Future[Mapping[str, Any]], printer: JobPrinter, failed: Dict[str, str]
) -> None:
    ret = future.result()
    printer.show(host, ret)
    if ret["code"]:
        failed[host] = f"code {ret['code']}"


def _on_one(host: Target, work: _Work, live: LiveLines) -> Mapping[str, Any]:
    """Return the answer of one host: its value, the output that suits it, its code."""

    def watch(phase: Any, text: str) -> None:
        live.say(host.id, f"{phase.value}: {text}" if text else str(phase.value))

    try:
        return _raw(host, work, watch) if work.raw else _function(host, work, watch)
    finally:
        live.end(host.id)


def _raw(host: Target, work: _Work, watch: Watch) -> Mapping[str, Any]:
    from catena.ssh.connection import open_connection
    from catena.ssh.errors import Phase
    from catena.ssh.raw import DEADLINE_SECONDS, run_raw

    watch(Phase.connect, host.host)
    connection = open_connection(host, work.files, work.settings.ssh_timeout)
    try:
        watch(Phase.run, work.raw)
        found = run_raw(connection, work.raw, work.timeout or DEADLINE_SECONDS)
    finally:
        connection.close()
    return {"value": found, "out": "", "code": found["retcode"]}


def _function(host: Target, work: _Work, watch: Watch) -> Mapping[str, Any]:
    from catena.ssh import push
    from catena.ssh.connection import SshConnection, open_connection
    from catena.ssh.errors import Phase

    def connect(target: Target) -> SshConnection:
        watch(Phase.connect, target.host)
        return open_connection(target, work.files, work.settings.ssh_timeout)

    ret = push.run(host, connect, _spec(work), work.settings, watch)
    code = ret.retcode or (0 if ret.success else 1)
    return {"value": ret.value, "out": ret.out, "code": code}


def _spec(work: _Work) -> Any:
    import getpass

    from catena.core.clock import SystemClock
    from catena.core.ids import JidFactory
    from catena.core.job import DEFAULT_DEADLINE_SECONDS, JobSpec

    clock = SystemClock()
    return JobSpec(
        JidFactory(clock.now)(),
        work.function,
        work.args,
        dict(work.kwargs),
        user=getpass.getuser(),
        issued=clock.now().timestamp(),
        deadline_seconds=work.deadline or DEFAULT_DEADLINE_SECONDS,
    )
