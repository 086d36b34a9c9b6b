"""One job on one host: connect, compile on the master, start on the host, follow, collect."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from catena.core.config.master import MasterSettings
from catena.core.context import Context, FileEntry
from catena.core.errors import CatenaError, CommandExecutionError
from catena.core.frozen import replace
from catena.core.job import JobReturn, JobSpec
from catena.core.marks import is_resumable
from catena.core.plugins import FunctionMark
from catena.runtime.executor import FinishedJob, execute
from catena.runtime.push.asking import MasterReply
from catena.runtime.push.protocol import (
    LowState,
    ProgramError,
    PushedJob,
    RunResult,
    RunStep,
)
from catena.runtime.session import JobSession
from catena.ssh.connect.errors import PushPhase, one_line, refused
from catena.ssh.connect.link import Connector, Watch
from catena.ssh.connect.target import SshTarget
from catena.ssh.push.answers import Answers
from catena.ssh.push.calls import TargetCalls
from catena.ssh.push.compile import Seat, seat_of, session_for
from catena.ssh.push.functions import addresses, runs_here
from catena.ssh.push.ledger import Begun
from catena.ssh.push.program import Part
from catena.ssh.push.roots import add_address, referenced
from catena.ssh.push.visit import Told, Visit
from catena.states.compiler.call import Callees, argument_faults
from catena.states.compiler.faults import StateArgumentsError, at
from catena.states.compiler.model import Low, Row

#: Maximum number of runs of one job of a chain, if its host or process dies repeatedly.
ATTEMPTS = 20

#: Receives each run before it starts: its id, its function, (engine, path) of code templates.
Begins = Callable[[str, str, frozenset[tuple[str, str]]], None]

#: Arguments of a state run that determine its context.
_RUN_ARGUMENTS = ("test", "pillar", "saltenv", "pillarenv")


def run(
    target: SshTarget,
    connect: Connector,
    spec: JobSpec,
    settings: MasterSettings,
    watch: Watch,
    keep: Callable[[JobReturn], None] | None = None,
    begins: Begins | None = None,
) -> JobReturn:
    """Run the function of *spec* on *target* and return its outcome.

    A second call with the same job id, after this process died, finds the started run and
    continues it. Nothing runs twice as long as *keep* makes the return durable.

    Args:
        target: the host.
        connect: opens a connection to it; called again after a connection was lost.
        spec: the job: jid, function, arguments, deadline, output limit, user.
        settings: file roots, pillar roots and renderers of this master.
        watch: told of each step.
        keep: makes the return durable; the host forgets the run after that.
        begins: receives each run before it starts on the host.

    Raises:
        SshError: the host could not be reached or used; either nothing ran, or the result is
            unknown (the text says which).
        CatenaError: the job is invalid or can't be compiled.
    """
    return outcome(target, connect, spec, settings, watch, keep, begins).ret


def outcome(
    target: SshTarget,
    connect: Connector,
    spec: JobSpec,
    settings: MasterSettings,
    watch: Watch,
    keep: Callable[[JobReturn], None] | None = None,
    begins: Begins | None = None,
) -> FinishedJob:
    """Run the job as `run` does; return also whether the value is an error text."""
    seat = seat_of(target, settings, str(spec.kwargs.get("saltenv") or ""))
    with _begun(Visit(seat, connect, watch), target.id) as visit:
        found = _Push(seat, visit, spec, watch, None, begins).run()
        if keep is not None:
            keep(found.ret)
        visit.forget()
        return found


def again(
    target: SshTarget,
    connect: Connector,
    begun: Begun,
    settings: MasterSettings,
    watch: Watch,
    keep: Callable[[JobReturn], None],
    cancel: str = "",
) -> JobReturn | None:
    """Follow a run of another process to its end and remove it from the host; start nothing.

    Args:
        target: the host.
        connect: makes a connection to it.
        begun: the record of the run.
        settings: file roots, pillar roots and renderers of this master.
        watch: told of each step.
        keep: makes the return durable; the host forgets the run after that.
        cancel: reason to kill the run; "": do not kill it.

    Returns:
        The return; None: the run never started or was collected before.

    Raises:
        As `run`.
    """
    seat = seat_of(target, settings, str(begun.spec.kwargs.get("saltenv") or ""))
    called_off = (lambda: cancel) if cancel else None
    with _begun(Visit(seat, connect, watch, called_off), target.id) as visit:
        ret = begun.ret
        if ret is None and any(one.run_id == begun.run_id for one in visit.welcome.runs):
            push = _Push(seat, visit, begun.spec, watch)
            ret = push.follow(begun.run_id, frozenset(begun.code)).ret
            keep(ret)
        job = begun.run_id.rpartition("-")[0]
        visit.forget(one.run_id for one in visit.welcome.runs if one.run_id.startswith(job))
        return ret


@contextmanager
def _begun(visit: Visit, host: str) -> Iterator[Visit]:
    """Open and close a visit; errors in it name the host."""
    try:
        visit.begin()
        yield visit
    except ProgramError as error:
        raise refused(host, str(error)) from None
    except OSError as error:
        raise CommandExecutionError(f"{host}: {error}") from error
    finally:
        visit.close()


def carry_out(
    seat: Seat,
    visit: Visit,
    spec: JobSpec,
    watch: Watch,
    told: Told | None = None,
    output_bytes: int = 0,
) -> FinishedJob:
    """Run the function of *spec* on a connected host (`Visit.begin`).

    Args:
        seat: the host.
        visit: of the host; it stays open, and the host keeps the run.
        spec: the job.
        watch: receives each step as text, for a progress display.
        told: receives the steps themselves. Their numbers increase over all runs of the job and
            stay the same if the job is found again.
        output_bytes: maximum bytes of command output in the steps of *told*; 0: no output. Such a
            step has "at", "size", "stream", "text", and "attempt", the number of earlier runs.

    Raises:
        SshError, ProgramError, CatenaError, OSError: as `run`.
    """
    return _Push(seat, visit, spec, watch, told, output_bytes=output_bytes).run()


def run_id(jid: str, host: str, number: int) -> str:
    """Return the id of a job's run on a host, which is the same in every call.

    Args:
        jid: of the job.
        host: its id.
        number: of the job's runs on the host, from 1.
    """
    who = hashlib.sha256(host.encode()).hexdigest()[:8]
    return f"{jid}-{who}-{number}"


class RunFailedError(CommandExecutionError):
    """The run of the compiled states has no rows; its return contains the reason."""


def _bound_here(low: Sequence[Low]) -> Iterator[str]:
    """Yield an error per argument that is a function of a `#!py` file, which can't be sent."""
    for one in low:
        for name, value in one.args.items():
            if callable(value):
                yield (
                    f"'{name}' of state '{one.id}' of SLS '{one.sls}' is a Python function: it "
                    f"can't go to a host over SSH; write it as a custom module"
                    f"{at(one.line_of(name))}"
                )


class _Push:
    """One job on a connected host."""

    def __init__(
        self,
        seat: Seat,
        visit: Visit,
        spec: JobSpec,
        watch: Watch,
        steps: Told | None = None,
        begins: Begins | None = None,
        output_bytes: int = 0,
    ) -> None:
        self._seat = seat
        self._output_bytes = output_bytes
        self._visit = visit
        self._spec = spec
        self._watch = watch
        self._steps = steps
        self._begins = begins
        self._runs = 0
        #: Number of the last step of this run, and of all earlier runs.
        self._last, self._before = 0, 0
        self._calls = TargetCalls(visit.program, self._function, spec)
        self._session = self._made()
        #: The result of the job's state run that failed, if any.
        self._failed: RunResult | None = None
        #: The error of a run that could not start or whose result is unknown; no function's
        #: result.
        self._broken: CatenaError | None = None

    def run(self) -> FinishedJob:
        """Run the job: on the master if possible, otherwise on the target."""
        functions = self._session.context.functions
        if self._spec.fun in functions:
            mark = functions[self._spec.fun].mark
            if not self._is_compiled(mark):
                self._watch(PushPhase.start, self._spec.fun)
                return self._own(self._function(self._session.context, self._spec), mark)
        self._watch(PushPhase.compile, self._spec.fun)
        answered = execute(self._session, self._spec)
        if self._broken is not None:
            raise self._broken
        if self._failed is not None:
            return self._own(self._failed, FunctionMark(out="highstate"))
        self._calls.check_compiled()
        return answered

    def follow(self, run: str, code: frozenset[tuple[str, str]]) -> FinishedJob:
        """Continue a started run of the job's own function; see `again`."""
        context, mark = self._session.context, FunctionMark()
        if self._spec.fun in context.functions:
            mark = context.functions[self._spec.fun].mark
        if mark.out == "highstate":
            # The function itself ran on the master and got these from its own arguments.
            given = {key: self._spec.kwargs.get(key) for key in _RUN_ARGUMENTS}
            from catena.states.functions.options import run_context, run_options

            context = run_context(context, run_options(given))
        answer = self._checked(Answers(context, self._send, code))
        return self._own(self._visit.follow(run, self._spec, answer, self._told), mark)

    def _own(self, result: RunResult, mark: Any) -> FinishedJob:
        """Return the target's outcome in a return with the job's own id and function."""
        ret = replace(
            result.ret, jid=self._spec.jid, fun=self._spec.fun, out=str(getattr(mark, "out", ""))
        )
        return FinishedJob(ret, None, result.raised)

    def _is_compiled(self, mark: Any) -> bool:
        """Return whether the job's function runs on the master or is one short request."""
        if runs_here(self._spec.fun, mark):
            return True
        return isinstance(mark, FunctionMark) and mark.inline

    def _made(self) -> JobSession:
        visit = self._visit
        return session_for(
            self._seat,
            visit.welcome,
            visit.grains,
            self._calls,
            self._states,
            spec=self._spec,
            watch=self._progress,
            collect=visit.collected,
        )

    def _progress(self, kind: str, data: Mapping[str, Any]) -> None:
        if kind == "state":
            number, total = data.get("run_num"), data.get("total")
            if isinstance(number, int) and isinstance(total, int):
                self._watch(PushPhase.run, f"{number + 1}/{total}")
        elif kind == "note":
            self._watch(PushPhase.run, one_line(str(data.get("text", ""))))

    def _told(self, step: RunStep) -> None:
        self._last = step.seq
        if self._steps is not None:
            own = {"attempt": self._runs - 1} if step.kind == "output" else {}
            data = {**step.data, **own}
            self._steps(replace(step, seq=self._before + step.seq, data=data))
        self._progress(step.kind, step.data)

    def _states(self, context: Context, low: Sequence[Low]) -> dict[str, Row]:
        """Run compiled states on the target (implements `core.context.Running`).

        Raises:
            StateArgumentsError: arguments don't fit their functions; nothing ran.
            RunFailedError: there are no rows; the return contains the reason.
        """
        faults = [*argument_faults(Callees(context.states), low), *_bound_here(low)]
        if faults:
            raise StateArgumentsError("\n".join(faults))
        self._calls.check_compiled()
        if not low:
            return {}
        # Imported here: a call of a single function does not need the code of states.
        from catena.ssh.push.ahead import code_templates, rendered_ahead

        files = self._seat.custom.merged(referenced(context.files, low))
        keys, texts = rendered_ahead(context, low, self._calls)
        self._calls.check_compiled()
        job = PushedJob(
            spec=context.job or self._spec,
            identity=self._seat.identity,
            grains=dict(context.grains),
            pillar=dict(context.pillar),
            files=files.trees(),
            rendered=keys,
            low=tuple(LowState.of(one) for one in low),
            test=context.test,
            saltenv=context.saltenv,
            mock=bool(context.opts.get("mock")),
            output_bytes=self._output_bytes,
        )
        answers = Answers(context, self._send, code_templates(context, low))
        result = self._run(job, {**files.parts, **texts}, answers)
        if isinstance(result.ret.value, list):
            raise StateArgumentsError("\n".join(str(line) for line in result.ret.value))
        if result.raised or result.interrupted or not isinstance(result.ret.value, dict):
            self._failed = result
            raise RunFailedError(str(result.ret.value))
        rows: dict[str, Row] = result.ret.value
        return rows

    def _function(self, context: Context, spec: JobSpec) -> RunResult:
        """Run one function on the target; the run may send requests to the master."""
        files = self._seat.ahead.merged(self._seat.custom)
        saltenv = str(spec.kwargs.get("saltenv") or context.saltenv)
        for address in addresses([list(spec.args), spec.kwargs]):
            add_address(files, context.files, address, saltenv)
        job = PushedJob(
            spec=spec,
            identity=self._seat.identity,
            grains=dict(context.grains),
            pillar=None,
            files=files.trees(),
            test=context.test,
            saltenv=context.saltenv,
            output_bytes=self._output_bytes,
        )
        return self._run(job, files.parts, Answers(context, self._send))

    def _run(self, job: PushedJob, parts: Mapping[str, Part], answers: Answers) -> RunResult:
        result = self._once(job, parts, answers)
        while result.interrupted and is_resumable(job.spec.fun) and self._runs < ATTEMPTS:
            # The journal on the host knows which actions ended; a new run continues from there.
            result = self._once(job, parts, answers)
        return result

    def _once(self, job: PushedJob, parts: Mapping[str, Part], answers: Answers) -> RunResult:
        self._runs += 1
        self._before, self._last = self._before + self._last, 0

        found = run_id(self._spec.jid, self._seat.target.id, self._runs)
        try:
            if self._begins is not None:
                self._begins(found, job.spec.fun, answers.code)
            return self._visit.run(found, job, parts, self._checked(answers), self._told)
        except CatenaError as error:
            self._broken = error
            raise

    def _checked(self, answers: Answers) -> Callable[[Any], MasterReply]:
        def answer(question: Any) -> MasterReply:
            reply = answers(question)
            self._calls.check()
            return reply

        return answer

    def _send(self, entry: FileEntry, local: Path) -> None:
        program = self._visit.program()
        if program.missing([entry.sha256]):
            program.put([Part(entry.sha256, entry.size, local)])
