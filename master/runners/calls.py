"""Calls a runner by name, and fires its events."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from catena.client.requests import runners
from catena.client.requests.runners import RunnerCall
from catena.core import events
from catena.core.errors import CatenaError, NotFoundError, UsageError
from catena.core.plugins import Plugin
from catena.core.redact import hide_arguments
from catena.core.suggest import unknown
from catena.master.events.bus import EventBus
from catena.master.gate.views import MinionViews
from catena.master.jobs.service import Jobs
from catena.master.jobs.views import JobViews
from catena.master.requests.once import UNKEYED, Once
from catena.master.requests.rights import Caller, Right
from catena.master.requests.verb import verb
from catena.master.runners import event_runner, job_runner, manage_runner, reactor_runner
from catena.master.runners.dependencies import RunnerParts
from catena.reactors.engine import Reactor

Runner = Callable[..., Awaitable[Any]]

#: Name -> function; RunnerParts is its first argument.
INDEX: Mapping[str, Runner] = {
    "jobs.active": job_runner.active,
    "jobs.exit_success": job_runner.exit_success,
    "jobs.last_run": job_runner.last_run,
    "jobs.list_job": job_runner.list_job,
    "jobs.list_jobs": job_runner.list_jobs,
    "jobs.list_jobs_filter": job_runner.list_jobs_filter,
    "jobs.lookup_jid": job_runner.lookup_jid,
    "jobs.print_job": job_runner.print_job,
    "manage.alived": manage_runner.present,
    "manage.allowed": manage_runner.present,
    "manage.down": manage_runner.down,
    "manage.joined": manage_runner.present,
    "manage.not_alived": manage_runner.not_present,
    "manage.not_present": manage_runner.not_present,
    "manage.present": manage_runner.present,
    "manage.status": manage_runner.status,
    "manage.up": manage_runner.up,
    "manage.versions": manage_runner.versions,
    "event.send": event_runner.send,
    "reactor.discard": reactor_runner.discard,
    "reactor.list": reactor_runner.list_,
    "reactor.retry": reactor_runner.retry,
    "reactor.status": reactor_runner.status,
    "reactor.waiting": reactor_runner.waiting,
}


@dataclass(frozen=True, slots=True)
class Runners:
    """The runners and the objects that they use."""

    jobs: Jobs
    bus: EventBus
    views: JobViews
    minions: MinionViews
    #: Called late, because the reactor is made after the dispatcher that calls runners.
    reactor: Callable[[], Reactor]

    @verb(runners.CALL, Right.call_runners)
    async def handle(self, caller: Caller, asked: RunnerCall) -> object:
        """Run a function on the master."""
        return await self.call(caller.name, asked, caller.once)

    async def call(self, user: str, asked: RunnerCall, once: Once = UNKEYED) -> Any:
        """Run a function on the master and return its value.

        Args:
            user: who asks.
            asked: the function and its arguments.
            once: the request, for functions that change something.

        Raises:
            NotFoundError: no such runner; the nearest is offered.
            UsageError: the arguments don't fit; the message shows its signature.
        """
        if asked.fun not in INDEX:
            raise NotFoundError(unknown("runner", asked.fun[:80], INDEX))
        parts = RunnerParts(self.bus, self.views, self.minions, self.reactor(), user, once)
        runner = INDEX[asked.fun]
        signature = inspect.signature(runner)
        try:
            bound = signature.bind(parts, *asked.args, **asked.kwargs)
        except TypeError as error:
            shown = Plugin(asked.fun, runner, None).usage()
            raise UsageError(f"{asked.fun}{shown}: {error}") from None
        jid = self.jobs.new_jid()
        data: dict[str, Any] = {
            "fun": f"runner.{asked.fun}",
            "jid": jid,
            "user": user,
            "fun_args": _shown(asked),
        }
        await self.bus.fire(events.run_new(jid), data)
        try:
            value = await runner(*bound.args, **bound.kwargs)
        except CatenaError as error:
            data |= {"return": str(error), "success": False}
            await self.bus.fire(events.run_ret(jid), data)
            raise
        await self.bus.fire(events.run_ret(jid), {**data, "return": value, "success": True})
        return value


def _shown(asked: RunnerCall) -> list[Any]:
    return hide_arguments([*asked.args, *([asked.kwargs] if asked.kwargs else ())])
