"""One job on one host: connect, compile here, start there, follow, collect."""

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
from catena.runtime.executor import Outcome, execute
from catena.runtime.push.asking import Reply
from catena.runtime.push.protocol import (
    LowState,
    PushedJob,
    RunResult,
    Step,
    TargetError,
)
from catena.runtime.session import Session
from catena.ssh.connect.errors import Phase, one_line, refused
from catena.ssh.connect.link import Connector, Watch
from catena.ssh.connect.target import Target
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

#: Runs of one job of a chain: so often may its host, or its process there, die under it.
ATTEMPTS = 20

#: Told of a run before it begins: its id, its function, (engine, path) of templates that are code.
Begins = Callable[[str, str, frozenset[tuple[str, str]]], None]

#: Arguments of a state run that make its context.
_RUN_ARGUMENTS = ("test", "pillar", "saltenv", "pillarenv")


def run(
    target: Target,
    connect: Connector,
    spec: JobSpec,
    settings: MasterSettings,
    watch: Watch,
    keep: Callable[[JobReturn], None] | None = None,
    begins: Begins | None = None,
) -> JobReturn:
    """Run the function of *spec* on *target* and return what it came to.

    Called again with the same job id, after this process died, it finds the run that it began and
    goes on with it; so nothing runs twice as long as *keep* makes the return durable.

    Args:
        target: the host.
        connect: makes a connection to it; called again where one was lost.
        spec: the job: jid, function, arguments, deadline, output limit, user.
        settings: file roots, pillar roots and renderers of this master.
        watch: told of each step.
        keep: makes the return durable; the host forgets the run after that.
        begins: told of each run before it begins there.

    Raises:
        SshError: the host could not be reached or used; nothing was run, or it is unknown
            whether it ended (the text says which).
        CatenaError: what was asked makes no sense, or does not compile.
    """
    return outcome(target, connect, spec, settings, watch, keep, begins).ret


def outcome(
    target: Target,
    connect: Connector,
    spec: JobSpec,
    settings: MasterSettings,
    watch: Watch,
    keep: Callable[[JobReturn], None] | None = None,
    begins: Begins | None = None,
) -> Outcome:
    """Do the same; say also whether the value is the text of why there is none."""
    seat = seat_of(target, settings, str(spec.kwargs.get("saltenv") or ""))
    with _begun(Visit(seat, connect, watch), target.id) as visit:
        found = _Push(seat, visit, spec, watch, None, begins).run()
        if keep is not None:
            keep(found.ret)
        visit.forget()
        return found


def again(
    target: Target,
    connect: Connector,
    begun: Begun,
    settings: MasterSettings,
    watch: Watch,
    keep: Callable[[JobReturn], None],
    cancel: str = "",
) -> JobReturn | None:
    """Follow a run that somebody else began, to its end; nothing is begun, nothing of it is left.

    Args:
        target: the host.
        connect: makes a connection to it.
        begun: what is known of the run.
        settings: file roots, pillar roots and renderers of this master.
        watch: told of each step.
        keep: makes the return durable; the host forgets the run after that.
        cancel: why the run is to be killed, "": it is not.

    Returns:
        The return; None: there is no such run, it never began or was collected before.

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
    """Begin a visit and end it; what goes wrong with it names the host."""
    try:
        visit.begin()
        yield visit
    except TargetError as error:
        raise refused(host, str(error)) from None
    except OSError as error:
        raise CommandExecutionError(f"{host}: {error}") from error
    finally:
        visit.close()


def carry_out(
    seat: Seat, visit: Visit, spec: JobSpec, watch: Watch, told: Told | None = None
) -> Outcome:
    """Run the function of *spec* on a host that is reached (`Visit.begin`).

    Args:
        seat: the host.
        visit: of it; not closed here, and the host forgets nothing.
        spec: the job.
        watch: told of each step, for a live line.
        told: given the steps themselves. Their numbers grow over all runs of the job, and are the
            same when the job is found again.

    Raises:
        SshError, TargetError, CatenaError, OSError: as `run`.
    """
    return _Push(seat, visit, spec, watch, told).run()


def run_id(jid: str, host: str, number: int) -> str:
    """Return the id of a job's run on a host: the same when the job is found again.

    Args:
        jid: of the job.
        host: its id.
        number: of the job's runs there, counted from 1.
    """
    who = hashlib.sha256(host.encode()).hexdigest()[:8]
    return f"{jid}-{who}-{number}"


class RunFailedError(CommandExecutionError):
    """The run of the compiled states has no rows; its return says why."""


def _bound_here(low: Sequence[Low]) -> Iterator[str]:
    """Yield a text for each argument that is code of a `#!py` file, which can't travel."""
    for one in low:
        for name, value in one.args.items():
            if callable(value):
                yield (
                    f"'{name}' of state '{one.id}' of SLS '{one.sls}' is a Python function: it "
                    f"can't go to a host over SSH; write it as a custom module"
                    f"{at(one.line_of(name))}"
                )


class _Push:
    """One job on a host that is reached."""

    def __init__(
        self,
        seat: Seat,
        visit: Visit,
        spec: JobSpec,
        watch: Watch,
        steps: Told | None = None,
        begins: Begins | None = None,
    ) -> None:
        self._seat = seat
        self._visit = visit
        self._spec = spec
        self._watch = watch
        self._steps = steps
        self._begins = begins
        self._runs = 0
        #: Number of the last step of this run, and of all runs before it.
        self._last, self._before = 0, 0
        self._calls = TargetCalls(visit.program, self._function, spec)
        self._session = self._made()
        #: The run of the job's states that could not end well, where there was one.
        self._failed: RunResult | None = None
        #: Why a run could not begin, or nobody knows what it came to: no answer of a function.
        self._broken: CatenaError | None = None

    def run(self) -> Outcome:
        """Run the job: here on the target's behalf as far as that goes, else there."""
        functions = self._session.context.functions
        if self._spec.fun in functions:
            mark = functions[self._spec.fun].mark
            if not self._is_compiled(mark):
                self._watch(Phase.start, self._spec.fun)
                return self._own(self._function(self._session.context, self._spec), mark)
        self._watch(Phase.compile, self._spec.fun)
        answered = execute(self._session, self._spec)
        if self._broken is not None:
            raise self._broken
        if self._failed is not None:
            return self._own(self._failed, FunctionMark(out="highstate"))
        self._calls.check_compiled()
        return answered

    def follow(self, run: str, code: frozenset[tuple[str, str]]) -> Outcome:
        """Go on with the run of the job's own function that began before; see `again`."""
        context, mark = self._session.context, FunctionMark()
        if self._spec.fun in context.functions:
            mark = context.functions[self._spec.fun].mark
        if mark.out == "highstate":
            # The function itself was called here, and had these from its own arguments.
            given = {key: self._spec.kwargs.get(key) for key in _RUN_ARGUMENTS}
            from catena.states.functions.options import run_context, run_options

            context = run_context(context, run_options(given))
        answer = self._checked(Answers(context, self._send, code))
        return self._own(self._visit.follow(run, self._spec, answer, self._told), mark)

    def _own(self, result: RunResult, mark: Any) -> Outcome:
        """Return a return of the target under our own names: of its words, only its outcome."""
        ret = replace(
            result.ret, jid=self._spec.jid, fun=self._spec.fun, out=str(getattr(mark, "out", ""))
        )
        return Outcome(ret, None, result.raised)

    def _is_compiled(self, mark: Any) -> bool:
        """Return whether the job's function is ours to answer, or one short question."""
        if runs_here(self._spec.fun, mark):
            return True
        return isinstance(mark, FunctionMark) and mark.inline

    def _made(self) -> Session:
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
                self._watch(Phase.run, f"{number + 1}/{total}")
        elif kind == "note":
            self._watch(Phase.run, one_line(str(data.get("text", ""))))

    def _told(self, step: Step) -> None:
        self._last = step.seq
        if self._steps is not None:
            self._steps(replace(step, seq=self._before + step.seq))
        self._progress(step.kind, step.data)

    def _states(self, context: Context, low: Sequence[Low]) -> dict[str, Row]:
        """Run compiled states on the target (`core.context.Running`).

        Raises:
            StateArgumentsError: arguments don't fit their functions; nothing ran.
            RunFailedError: there are no rows; the return says why.
        """
        faults = [*argument_faults(Callees(context.states), low), *_bound_here(low)]
        if faults:
            raise StateArgumentsError("\n".join(faults))
        self._calls.check_compiled()
        if not low:
            return {}
        # What a state makes of its arguments is of no use to a call of one function.
        from catena.ssh.push.ahead import code_templates, rendered_ahead

        files = self._seat.custom.merged(referenced(context.files, low))
        keys, texts = rendered_ahead(context, low, lambda: self._calls.count)
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
        """Run one function on the target, which may ask for what it needs of us."""
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
        )
        return self._run(job, files.parts, Answers(context, self._send))

    def _run(self, job: PushedJob, parts: Mapping[str, Part], answers: Answers) -> RunResult:
        result = self._once(job, parts, answers)
        while result.interrupted and is_resumable(job.spec.fun) and self._runs < ATTEMPTS:
            # Its journal there knows what ended: it goes on from that, in a run of its own.
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

    def _checked(self, answers: Answers) -> Callable[[Any], Reply]:
        def answer(question: Any) -> Reply:
            reply = answers(question)
            self._calls.check()
            return reply

        return answer

    def _send(self, entry: FileEntry, local: Path) -> None:
        program = self._visit.program()
        if program.missing([entry.sha256]):
            program.put([Part(entry.sha256, entry.size, local)])
