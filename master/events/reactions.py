"""The reactor's connection to the master: rendering in workers, and actions as client requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar, assert_never

from catena.client.requests import jobs, keys, runners
from catena.client.requests.contract import Ask
from catena.client.requests.jobs import RunJob
from catena.client.requests.keys import KeyChange
from catena.client.requests.runners import RunnerCall
from catena.core import events
from catena.core.digest import sha256
from catena.core.errors import CatenaError, NotFoundError, TryLaterError
from catena.core.job import FunctionCall
from catena.core.records import decode, encode
from catena.core.redact import hide_arguments
from catena.core.suggest import unknown
from catena.master.events.bus import EventBus
from catena.master.workers.pool import WorkerDiedError, Workers
from catena.reactors.engine import USER
from catena.reactors.reaction import Reaction, ReactionKind

Q = TypeVar("Q")
A = TypeVar("A")

#: Salt's wheel functions -> action of key.change.
_WHEEL = {
    "key.accept": "accept",
    "key.accept_dict": "accept",
    "key.reject": "reject",
    "key.delete": "delete",
    "key.delete_dict": "delete",
}


class RequestAnswerer(Protocol):
    """Answers requests like the client does for other programs."""

    async def ask(self, ask: Ask[Q, A, Any], request: Q, key: str = "") -> A:
        """Return the reply; requests with the same key take effect once."""


class NotRenderedError(TryLaterError):
    """A worker process died or hung while rendering a reactor file, perhaps for another reason."""


class NotDoneError(TryLaterError):
    """A worker process died or hung during a call on the master's own host."""


class WorkerRenderer:
    """Renders reactor SLS files in worker processes."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers

    async def render(self, file: str, tag: str, data: Mapping[str, Any]) -> Sequence[Reaction]:
        """Return the reactions of *file* to an event.

        Each file has a queue of its own, so that the file that resumes chains waits for no other.

        Raises:
            TaskFailedError: the file cannot be rendered.
            TryLaterError: there was no time or memory for it, or its queue is full.
        """
        params = {"file": file, "tag": tag, "data": dict(data)}
        try:
            found = await self._workers.call("reactions", params, f"reactions {file}")
        except WorkerDiedError as error:
            raise NotRenderedError(str(error)) from error
        return [decode(Reaction, item) for item in found]


class ClientPerformer:
    """Performs reactions as requests of the user "Reactor".

    Args:
        master: authorises and handles a request like that of any other user.
        workers: for `caller` reactions, which run on the master's own host.
        bus: receives the events of wheel calls; jobs and runners fire their own.
        new_jid: makes the job id of each wheel call.
    """

    def __init__(
        self, master: RequestAnswerer, workers: Workers, bus: EventBus, new_jid: Callable[[], str]
    ) -> None:
        self._master = master
        self._workers = workers
        self._bus = bus
        self._new_jid = new_jid

    async def perform(self, reaction: Reaction, key: str) -> None:
        """Carry out *reaction*; what was already done under *key* is not repeated.

        Raises:
            TryLaterError: a worker process died, or the store is unavailable.
            CatenaError: the request is refused.
            AssertionError: no branch handles the reaction's kind.
        """
        if reaction.kind is ReactionKind.local:
            await self._master.ask(jobs.RUN, _job(reaction, key))
        elif reaction.kind is ReactionKind.runner:
            call = RunnerCall(reaction.fun, reaction.args, reaction.kwargs)
            await self._master.ask(runners.CALL, call, _request_key(reaction, key))
        elif reaction.kind is ReactionKind.wheel:
            await self._wheel(reaction, key)
        elif reaction.kind is ReactionKind.caller:
            await self._call(reaction)
        else:
            assert_never(reaction.kind)

    async def _call(self, reaction: Reaction) -> None:
        params = {"fun": reaction.fun, "args": reaction.args, "kwargs": reaction.kwargs}
        try:
            await self._workers.call("call", params)
        except WorkerDiedError as error:
            raise NotDoneError(str(error)) from error

    async def _wheel(self, reaction: Reaction, key: str) -> None:
        jid = self._new_jid()
        data: dict[str, Any] = {
            "fun": f"wheel.{reaction.fun}",
            "jid": jid,
            "user": USER,
            "fun_args": hide_arguments([*reaction.args, *filter(None, [reaction.kwargs])]),
        }
        await self._bus.fire(events.wheel_new(jid), data)
        try:
            change = wheel_change(reaction.fun, reaction.args, reaction.kwargs)
            changed = await self._master.ask(keys.CHANGE, change, _request_key(reaction, key))
        except CatenaError as error:
            data |= {"return": str(error), "success": False}
            await self._bus.fire(events.wheel_ret(jid), data)
            raise
        await self._bus.fire(
            events.wheel_ret(jid), {**data, "return": encode(changed), "success": True}
        )


def _request_key(reaction: Reaction, key: str) -> str:
    """Return *key* as a request's key; with other arguments it is another request."""
    text = f"{key}:{reaction.args!r}:{reaction.kwargs!r}"
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _job(reaction: Reaction, key: str) -> RunJob:
    return RunJob(**FunctionCall.of(reaction).fields(), idempotency_key=key)


def wheel_change(fun: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> KeyChange:
    """Return the change of keys that a wheel function means.

    Raises:
        NotFoundError: there is no such function, or it names no keys.
    """
    if fun not in _WHEEL:
        raise NotFoundError(unknown("wheel function", fun[:80], _WHEEL))
    match = kwargs.get("match", args[0] if args else None)
    if isinstance(match, Mapping):
        match = ",".join(str(name) for names in match.values() for name in names)
    if not isinstance(match, str) or not match:
        raise NotFoundError(f"wheel.{fun} needs the argument match: the ids of the keys")
    return KeyChange(_WHEEL[fun], match)
