"""Call functions of a target over its channel while a job is compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from catena.core.context import Context
from catena.core.errors import CommandExecutionError
from catena.core.frozen import replace
from catena.core.job import JobSpec
from catena.runtime.push.asking import NeedsMasterError
from catena.runtime.push.protocol import Call, Called, RunResult
from catena.ssh.connect.errors import PushPhase, SshError
from catena.ssh.push.compile import raised
from catena.ssh.push.functions import addresses
from catena.ssh.push.program import Program

_NEEDS_MASTER = NeedsMasterError.__name__
#: Maximum seconds for a function that a template calls; a shorter deadline of the job wins.
CALL_SECONDS = 300.0

#: Runs one function as a separate run, which can request files and templates from the master.
RunFunction = Callable[[Context, JobSpec], RunResult]


class TargetCalls:
    """Calls functions of one target (`ssh.push.functions.RemoteFunctions`).

    Args:
        program: returns the program; called each time, because the connection may change.
        run: runs a function that needs more than its arguments.
        spec: the job.
    """

    def __init__(self, program: Callable[[], Program], run: RunFunction, spec: JobSpec) -> None:
        self._program = program
        self._run = run
        self._spec = spec
        self._known: dict[tuple[str, str], bool] = {}
        #: The program to which a pillar was sent, and the pillar; a new program has none.
        self._told: tuple[Program, Any] | None = None
        #: Names of functions that were not called while calls are refused; None: they are made.
        self._refused: list[str] | None = None
        #: The error of a call without a reply. Templates convert every error, so it is stored
        #: here;
        #: results that were compiled afterwards must not be used.
        self.lost: SshError | None = None

    def call(
        self, context: Context, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        """Call a function on the target and return its value, or raise its error.

        Raises:
            CommandExecutionError: calls are refused now.
            SshError: the host gave no reply.
        """
        if self._refused is not None:
            self._refused.append(name)
            raise CommandExecutionError(f"{name} is not called in advance")
        try:
            if next(addresses([*args, dict(kwargs)]), None) is not None:
                return self._as_run(context, name, args, kwargs)
            call = Call(
                name,
                args,
                dict(kwargs),
                min(CALL_SECONDS, float(self._spec.deadline_seconds)),
                context.saltenv,
                context.test,
            )
            called = self._called(context, call)
            if called.fault is not None and called.fault.kind == _NEEDS_MASTER:
                return self._as_run(context, name, args, kwargs)
        except SshError as error:
            self.lost = error
            raise
        if called.fault is not None:
            raise raised(called.fault)
        if called.retcode:
            context.scratch["retcode"] = called.retcode
        return called.value

    @contextmanager
    def refused(self) -> Iterator[Sequence[str]]:
        """Refuse calls while the block runs; yield the names of the functions that it called."""
        refused: list[str] = []
        self._refused = refused
        try:
            yield refused
        finally:
            self._refused = None

    def _called(self, context: Context, call: Call) -> Called:
        program = self._program()
        known = self._told[1] if self._told and self._told[0] is program else None
        if known is not None and known is not context.pillar:
            self._tell(program, context)
        called = program.call(call)
        told = self._told is not None and self._told[0] is program
        if called.fault is not None and called.fault.kind == _NEEDS_MASTER and not told:
            self._tell(program, context)
            called = program.call(call)
        return called

    def _tell(self, program: Program, context: Context) -> None:
        """Send the pillar to the target for functions that read it; it may be broken."""
        program.pillar(dict(context.pillar))
        self._told = (program, context.pillar)

    def _as_run(
        self, context: Context, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        spec = replace(self._spec, fun=name, args=args, kwargs=dict(kwargs))
        result = self._run(context, spec)
        if result.raised or result.interrupted:
            raise CommandExecutionError(str(result.ret.value).removeprefix("ERROR: "))
        return result.ret.value

    def knows(self, name: str, kind: str) -> bool:
        """Return whether a function ("function") or state ("state") exists on the target.

        Raises:
            SshError: the host gave no reply.
        """
        key = (name, kind)
        if key not in self._known:
            try:
                self._known[key] = name in self._program().known([name], kind)
            except SshError as error:
                self.lost = error
                raise
        return self._known[key]

    def refusal(self, name: str) -> str:
        """Return why a missing function does not exist on the target, or ""."""
        called = self._program().call(Call(name))
        return called.fault.text if called.fault is not None and called.fault.unavailable else ""

    def check(self) -> None:
        """Raise the stored error of a call without a reply, once.

        Raises:
            SshError: results that were compiled meanwhile must not be used.
        """
        lost, self.lost = self.lost, None
        if lost is not None:
            raise lost

    def check_compiled(self) -> None:
        """Raise the stored error of a call without a reply as an error of the phase compile.

        Raises:
            SshError: nothing was run.
        """
        try:
            self.check()
        except SshError as error:
            what = f"{error.what}; nothing was run"
            raise SshError(error.host, PushPhase.compile, what, waits=error.waits) from None
