"""Carries out what minions ask the master to call, through the dispatcher."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from catena.client.replies.jobs import JobReturnItem
from catena.client.requests import jobs, keys, runners
from catena.client.requests.jobs import RunJob
from catena.client.requests.runners import RunnerCall
from catena.core.errors import NotAllowedError, UsageError
from catena.core.peer import LONGEST_SECONDS, PeerCall, PeerKind
from catena.core.records import encode
from catena.master.events.reactions import wheel_change
from catena.master.requests.dispatcher import Dispatcher
from catena.master.requests.peer_rights import PeerRules, refusal
from catena.master.requests.rights import Caller, Right
from catena.master.requests.verb import Aside
from catena.transport.messages import PeerReply, PeerRequest

log = logging.getLogger(__name__)

#: The one right that a call needs. A minion has it for this call only.
_RIGHT: Mapping[PeerKind, Right] = {
    PeerKind.publish: Right.run_jobs,
    PeerKind.runner: Right.call_runners,
    PeerKind.wheel: Right.decide_keys,
}


class PeerFrontEnd:
    """The front end of the dispatcher for minions.

    Args:
        rules: of the master's settings.
        dispatcher: returns the dispatcher, which is made after the gate.
    """

    def __init__(self, rules: PeerRules, dispatcher: Callable[[], Dispatcher]) -> None:
        self._rules = rules
        self._dispatcher = dispatcher

    async def call(self, minion: str, request: PeerRequest) -> PeerReply:
        """Return the reply to a request of *minion*.

        Raises:
            NotAllowedError: no rule allows the call.
            UsageError: the time to wait is no valid number of seconds.
            CatenaError: the call's own error.
        """
        call = request.call
        why = refusal(self._rules, minion, call)
        if why:
            raise NotAllowedError(why)
        log.info("%s calls %s %s", minion, call.kind.value, call.fun)
        caller = Caller(f"minion {minion}", frozenset({_RIGHT[call.kind]}))
        if call.kind is PeerKind.publish:
            return PeerReply(await self._publish(caller, call))
        if call.kind is PeerKind.runner:
            ask, body = runners.CALL.name, encode(RunnerCall(call.fun, call.args, call.kwargs))
        else:
            change = wheel_change(call.fun, call.args, call.kwargs)
            ask, body = keys.CHANGE.name, encode(change)
        answer = self._dispatcher().answer(caller, ask, body)
        if isinstance(answer, AsyncIterator):
            raise UsageError(f"{call.fun} streams; a minion takes no streams")
        return PeerReply(encode(await answer))

    async def _publish(self, caller: Caller, call: PeerCall) -> dict[str, Any]:
        """Return {minion: {"ret", "retcode", "jid", "out"}} of the returns that came in time."""
        if not 0 < call.seconds <= LONGEST_SECONDS:
            raise UsageError(f"timeout: between 0 and {LONGEST_SECONDS:g} seconds")
        job = RunJob(call.tgt, call.fun, call.tgt_type, call.args, call.kwargs, follow=True)
        stream = self._dispatcher().answer(caller, jobs.RUN.name, encode(job))
        if not isinstance(stream, AsyncIterator):
            raise UsageError("a followed job is no stream")
        found: dict[str, Any] = {}
        try:
            async with asyncio.timeout(call.seconds):
                async for item in stream:
                    value = item.value if isinstance(item, Aside) else item
                    if isinstance(value, JobReturnItem):
                        ret = value.ret
                        found[value.minion] = {
                            "ret": ret.value, "retcode": ret.retcode, "jid": ret.jid,
                            "out": ret.out, "success": ret.success,
                        }  # fmt: skip
        except TimeoutError:
            # The job goes on; who has not returned is missing, as in Salt.
            log.info("%s: %s of %s has open minions", caller.name, call.fun, call.tgt[:80])
        return found
