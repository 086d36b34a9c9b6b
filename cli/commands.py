"""The commands of `catena`: a table of names, each imported only when it is called."""

from __future__ import annotations

import errno
import sys
from importlib import import_module
from typing import Any, List, Mapping, Optional, Tuple

import click

from catena import __version__
from catena.cli import common_options
from catena.cli.groups import CommandGroup
from catena.cli.streams import unwritten
from catena.core.errors import CatenaError, UsageError

#: Command -> (module, attribute, one line for --help). The help is here so that `catena --help`
#: imports no command.
COMMANDS: Mapping[str, Tuple[str, str, str]] = {
    "call": ("catena.cli.call", "call", "Run a function on this host."),
    "chain": ("catena.cli.chain", "chain", "Create, schedule and watch action chains."),
    "completion": ("catena.cli.completion", "completion", "Complete words in your shell."),
    "config": ("catena.cli.config", "config", "Check the configuration."),
    "debug": ("catena.cli.debug", "debug", "List the failpoints for tests of catena itself."),
    "doc": ("catena.cli.doc", "doc", "Show a function's arguments and description."),
    "doctor": ("catena.cli.doctor", "doctor", "Check this host's master and minion."),
    "event": ("catena.cli.event", "event", "Watch and send events."),
    "job": ("catena.cli.job", "job", "List, show, watch and cancel jobs."),
    "key": ("catena.cli.key", "key", "Accept, reject and delete minion keys."),
    "master": ("catena.cli.daemons", "master", "Run the master."),
    "minion": ("catena.cli.daemons", "minion", "Run the minion daemon; list and show minions."),
    "run": ("catena.cli.run", "run", "Run a function on minions."),
    "ssh": ("catena.cli.ssh", "ssh", "Run a function or command on hosts by SSH, without agent."),
    "ssh-run": ("catena.cli.ssh_run", "ssh_run", "List, collect and end runs left on SSH hosts."),
    "ssh-key": ("catena.cli.ssh_key", "ssh_key", "Trust, list and forget host keys for SSH."),
    "store": ("catena.cli.store", "store", "Back up, restore and prune the master's database."),
    "scaffold": ("catena.cli.scaffold", "scaffold", "Write a first state, module or formula."),
    "test": ("catena.cli.testing.command", "test", "Test states and formulas of your own."),
    "runner": ("catena.cli.runner", "runner", "Run a function on the master."),
}

#: Options of `catena` itself, which users often put after the command, and their values.
_OWN = {"-c": "DIR", "--config-dir": "DIR", "--request-key": "NAME"}


class LazyGroup(CommandGroup):
    """A group whose commands are imported at first use."""

    def list_commands(self, ctx: click.Context) -> List[str]:
        """Return the names, sorted."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> Optional[click.Command]:
        """Return the command of that name, or None."""
        if cmd_name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(import_module(module), attribute)
        return common_options.add_to(command)

    def resolve_command(
        self, ctx: click.Context, args: List[str]
    ) -> Tuple[Optional[str], Optional[click.Command], List[str]]:
        """Start the log that the options ask for; return the command."""
        if args and args[0] in COMMANDS:
            common_options.start_log(ctx, args[0])
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][2]) for name in sorted(COMMANDS)])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="catena")
@click.option(
    "--config-dir",
    "-c",
    envvar="CATENA_CONFIG_DIR",
    default="/etc/catena",
    show_default=True,
    help="Folder with the configuration files of master and minion.",
)
@click.option(
    "--request-key",
    envvar="CATENA_REQUEST_KEY",
    default="",
    help="Name for this command's requests. A command repeated with the same name within a day "
    "takes effect only once.",
)
@click.pass_context
def cli(ctx: click.Context, config_dir: str, request_key: str) -> None:
    """Action chains, states and remote execution for fleets of hosts."""
    ctx.obj = config_dir
    if request_key:
        from catena.cli.connection import REQUEST_KEY, checked_key

        ctx.meta[REQUEST_KEY] = checked_key(request_key)


common_options.add_to(cli)

#: Errors of writing the output to a full file system.
_OUTPUT_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def _explain(option: str) -> None:
    """Print what to use instead of an option that the command does not have, if it is known."""
    from catena.cli.function_command import REFUSED

    if option in _OWN:
        what = f"catena {option} {_OWN[option]} …"
        print(f"{option} comes before the command: {what}", file=sys.stderr)
    elif option in REFUSED:
        print(f"{option}: {REFUSED[option]}", file=sys.stderr)


def run(arguments: List[str]) -> int:
    """Run one command line; return its exit code (design §4)."""
    try:
        result: Any = cli.main(args=arguments, prog_name="catena", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        if isinstance(error, click.NoSuchOption):
            _explain(error.option_name)
        return UsageError.exit_code
    except click.Abort:
        print("aborted", file=sys.stderr)
        return 130
    except CatenaError as error:
        print(f"catena: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        # The reader of our output has closed the pipe (`catena … | head`).
        sys.stderr.close()
        return 0
    except OSError as error:
        if error.filename is None:
            if error.errno in _OUTPUT_FULL:
                return unwritten(error)
            raise
        hint = "; are you root here?" if isinstance(error, PermissionError) else ""
        print(f"catena: {error.filename}: {error.strerror}{hint}", file=sys.stderr)
        return UsageError.exit_code if hint else CatenaError.exit_code
    return result if isinstance(result, int) else 0
