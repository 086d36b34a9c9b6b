"""How a chain advances on this host: start, continue after a crash, resume after a boundary.

For the agent, in addition to the functions of `mgractionchains`:

- `open_chain(place)` returns the chain that stands between two chunks; other chains wait for it.
- `pending_resume(place)` returns the content of the resume file for a Hello.
- `pending_after(place)` is called at the agent's start: it returns an armed reboot that has not
  happened because the agent or the host stopped just before it.
- `refuse_boundary(place, reason)` records that a boundary cannot be passed (a new agent that did
  not come up); the next resume then fails that action, visibly.
- A chain's job whose process died without a return is run again with the same JobSpec: it
  continues from the journal and returns the chunk's results.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, Optional, cast

from catena.core import failpoints, frozen, payloads
from catena.core.clock import Clock
from catena.core.context import Context
from catena.core.errors import (
    CatenaError,
    CommandExecutionError,
    InvalidStateError,
    TryLaterError,
)
from catena.core.files import no_room
from catena.core.frozen import dataclass
from catena.core.job import ActionKind, Boundary, ChainManifest
from catena.core.logs import logger
from catena.core.run_ref import UNKNOWN, RunRef, not_here, not_resumed
from catena.runtime import chain_files, chain_manifest
from catena.runtime.boot import boot_time
from catena.runtime.chain_record import ActionState, HostChainState
from catena.runtime.chain_store import Chain, ChainStore
from catena.runtime.host import After, AfterKind, AgentHome, BaseHost
from catena.runtime.resume_file import ResumeFile, ResumePoint

log = logger(__name__)

#: Maximum number of times that the agent is asked for the same reboot or restart. Restarts of the
#: agent before it could act count too, so it exceeds the two attempts of a failing reboot.
ISSUES = 5


@dataclass(frozen=True)
class OpenChain:
    """A chain that has begun on this host and not ended."""

    chain_id: int
    epoch: int
    #: Name of the chain's state: "received", "running", "waiting".
    state: str
    #: Number of the chunk that runs or ran last; 0: none.
    chunk: int


class ChainHost:
    """The chains of one host, with its store and its resume file.

    Args:
        host: the host; its place has the folders.
        clock: the time; the host's by default.
    """

    def __init__(self, host: BaseHost, clock: Optional[Clock] = None) -> None:
        self.host = host
        self.place = host.place
        self.store = _store(host.place, host.boot_id(), clock or host.clock)
        place = host.place
        self.file = ResumeFile(place.conf_dir, place.pki_dir, place.id, place.cache_dir)

    # -- start ---------------------------------------------------------------------------------

    def start(self, context: Context, chain_id: int) -> Dict[str, Any]:
        """Run a chain's first chunk, or continue it, or return its results again.

        Raises:
            InvalidStateError: another chain's resume file exists; the message says how to clear
                it.
            CommandExecutionError: chunks are missing or changed, or a chunk cannot be compiled.
        """
        self._refuse_inside_chunk()
        with self.store.lock(chain_id=chain_id):
            self.sweep()
            point = self._refuse_another(chain_id)
            self._settle(chain_id)
            self.store.receive(self._manifest(context, chain_id), context.files)
            with self.store.open(chain_id) as chain:
                if chain is None:
                    raise CommandExecutionError(f"chain {chain_id} has gone from this host")
                if point and 0 < point.epoch < chain.manifest.epoch:
                    # A file of an earlier run; a resume would take it for one of this run.
                    self.file.clear()
                if chain.view.state is HostChainState.received:
                    _sync_custom(context)
                    if context.opts.get("resume") == "local":
                        chain_files.bring(context.files, _texts(context, chain))
                return self._run(chain, context, 1)

    def _refuse_another(self, chain_id: int) -> Optional[ResumePoint]:
        """Return the resume point of this host; refuse one of another unfinished chain.

        Raises:
            InvalidStateError: the message says how to clear it.
        """
        point = self.file.taken() or self.file.waiting()
        if point is None or point.actionchain_id == chain_id:
            return point
        for seen in self.store.chains():
            if seen.ended and seen.manifest.chain_id == point.actionchain_id:
                # Its job was killed between the end of the chain and the removal of the file.
                self.file.clear()
                return None
        raise InvalidStateError(
            f"action chain {chain_id} can't start: chain {point.actionchain_id} waits on "
            f"this minion ({self.file.path}); to give that one up: {self.file.clear_command}"
        )

    def sweep(self) -> None:
        """Remove unfinished files of killed processes; the lock must be held."""
        self.store.sweep()
        self.file.sweep()

    def _refuse_inside_chunk(self) -> None:
        if self.host.chunk_open:
            raise InvalidStateError("a state of a chunk cannot start or resume a chain")

    def _manifest(self, context: Context, chain_id: int) -> ChainManifest:
        machine_id = self.place.machine_id
        manifest = payloads.chain_of(context.job)
        if manifest is None:
            known = self.store.look(chain_id)
            if known is not None:
                return known.manifest
            manifest = chain_manifest.from_files(context.files, chain_id, machine_id)
        if manifest is None:
            raise CommandExecutionError(
                f"action chain {chain_id}: no chunk of it for machine {machine_id!r} on the "
                "file server"
            )
        chain_manifest.check(manifest, chain_id, machine_id)
        return manifest

    def _settle(self, chain_id: int) -> None:
        """Close chains whose last action was a reboot that has since happened."""
        for seen in self.store.chains():
            if seen.manifest.chain_id == chain_id or not _is_proven_final(seen, self.host):
                continue
            with self.store.open(seen.manifest.chain_id) as chain:
                if chain:
                    self._prove(chain, chain.view.chunk)
                    chain.record("closed", outcome="done", reason="the last reboot has happened")

    # -- resume --------------------------------------------------------------------------------

    def resume(self, context: Context, wanted: Optional[RunRef] = None) -> Dict[str, Any]:
        """Run what may run now of the waiting chain.

        Args:
            context: of the job.
            wanted: the run to resume; None: the one in the resume file.

        Returns: State results of the chunks that ran; {} without a resume file;
            `run_ref.not_resumed` if the boundary is not proven yet or another run waits here.

        Raises:
            MalformedResumeFileError: the resume file was not written by this agent.
        """
        self._refuse_inside_chunk()
        merged: Dict[str, Any] = {}
        with self.store.lock():
            self.sweep()
            merged.update(self._came_to(context))
            if any(_is_proven_final(seen, self.host) for seen in self.store.chains()):
                self._settle(0)
            while True:
                point = self.file.taken() or self.file.waiting()
                if point is None or not (wanted is None or _is(point, wanted)):
                    return merged or self._not_waiting(wanted, point)
                with self.store.open(point.actionchain_id) as chain:
                    if chain is None:
                        self._adopt(context, point)
                        log.warning("%s is not stored here; continues from its files", point.run)
                        continue
                    if point.epoch and point.epoch != chain.manifest.epoch:
                        why = self._other_run(chain, point)
                        if not why:
                            continue
                        return merged or not_resumed(point.run, UNKNOWN, why)
                    self._worked_on(chain)
                    before = (chain.view.chunk, chain.view.state)
                    why = self._advance(chain, context, point, merged)
                    stuck = before == (chain.view.chunk, chain.view.state)
                    state = chain.view.state.value
                if why:
                    return merged or not_resumed(point.run, state, why)
                if stuck and self.file.taken() is None and self.file.waiting() == point:
                    raise InvalidStateError(f"chain {point.actionchain_id} does not advance")

    def _not_waiting(
        self, wanted: Optional[RunRef], point: Optional[ResumePoint]
    ) -> Dict[str, Any]:
        """Return why *wanted* cannot be resumed if the resume file belongs to another run."""
        if wanted is None:
            return {}
        for seen in self.store.chains():
            manifest = seen.manifest
            if wanted.names(manifest.chain_id, manifest.epoch):
                self._worked_on(seen)
                why = f"{wanted} is {seen.view.state.value} here"
                if point is not None:
                    why += f"; {point.run} waits on this minion"
                return not_resumed(wanted, seen.view.state.value, why)
        return not_here(wanted)

    def _other_run(self, chain: Chain, point: ResumePoint) -> str:
        """Return why a resume file for another run of *chain* cannot be used.

        The file of an earlier run is removed; "" is returned, and nothing waits any more.
        """
        if point.epoch < chain.manifest.epoch:
            log.warning("%s: run %d replaced it", point.run, chain.manifest.epoch)
            self.file.clear_run(point.run)
            return ""
        return f"{point.run}: this minion has only run {chain.manifest.epoch} of that chain"

    def _came_to(self, context: Context) -> Dict[str, Any]:
        """Return the results of chunks that this very job ended before a crash.

        Their chain no longer waits for anything, and no other job would report them.
        """
        jid = context.job.jid if context.job else ""
        found: Dict[str, Any] = {}
        for seen in self.store.chains() if jid else ():
            for number in sorted(seen.view.ended):
                if seen.view.jobs.get(number) == jid:
                    self._worked_on(seen)
                    found.update(seen.results(number))
        return found

    def _advance(
        self, chain: Chain, context: Context, point: ResumePoint, merged: Dict[str, Any]
    ) -> str:
        """Advance the chain of *point* by one step; return why that is impossible, or ""."""
        if chain.ended:
            self.file.clear()
            return "" if merged else f"chain {point.actionchain_id} is {chain.view.state.value}"
        if self.file.taken() is not None:
            merged.update(self._run(chain, context, point.chunk))
            return ""
        previous = point.chunk - 1
        if previous >= 1 and previous not in chain.view.ended:
            merged.update(self._run(chain, context, previous))
            return ""
        if chain.view.refused:
            merged.update(self._refuse(chain, previous))
            return ""
        why = self._unproven(chain, point)
        if why:
            return why
        self._prove(chain, previous)
        failpoints.hit("chain.resume.proven")
        self.file.take()
        failpoints.hit("chain.resume.taken")
        merged.update(self._run(chain, context, point.chunk))
        return ""

    def _unproven(self, chain: Chain, point: ResumePoint) -> str:
        boot_id, session = self.host.boot_id(), self.host.agent_session()
        if point.boot_id != boot_id:
            return ""
        if point.boundary == Boundary.agent_upgrade.value:
            if session and session != point.session:
                return ""
            return f"chain {point.actionchain_id} waits for a new agent; this is still the old one"
        return (
            f"chain {point.actionchain_id} waits for a reboot; "
            f"this is still the boot in which it was asked for ({boot_id})"
        )

    def _prove(self, chain: Chain, number: int) -> None:
        """Record that the reboot at the end of a chunk has happened."""
        action = chain.boundary_action(number) if number >= 1 else None
        if action is None or action.kind is not ActionKind.reboot:
            return
        view = chain.view.action(action.action_id)
        if view.state in (ActionState.armed, ActionState.begun):
            from catena.runtime.chunk_run import ChunkHooks

            hooks = ChunkHooks(chain, number, self.host, self.host.cancelled)
            hooks.prove_reboot(action, view.key, "system.reboot")

    def _refuse(self, chain: Chain, number: int) -> Dict[str, Any]:
        """Fail the boundary's action with the agent's reason."""
        self._worked_on(chain)
        why = chain.view.refused
        action = chain.boundary_action(number)
        results = chain.results(number)
        failed: Dict[str, Any] = {}
        for key, row in results.items():
            if action and row.get("__id__") == action.state_id:
                failed[key] = {**row, "result": False, "comment": why}
        chain.record("closed", outcome="failed", reason=why)
        self.file.clear()
        return failed

    def _adopt(self, context: Context, point: ResumePoint) -> None:
        """Restore the chain of a resume file, whose folder was lost, from the file server."""
        chain_id = point.actionchain_id
        manifest = chain_manifest.from_files(context.files, chain_id, self.place.machine_id)
        if manifest is None or len(manifest.chunks) < point.chunk:
            raise CommandExecutionError(
                f"the chunks of chain {chain_id} are neither on this host nor on the file server; "
                f"to give that chain up: {self.file.clear_command}"
            )
        if manifest.chunks[point.chunk - 1].sha256 != point.sha256:
            raise CommandExecutionError(
                f"chunk {point.chunk} of chain {chain_id} is not the one that the resume file "
                f"names; to give that chain up: {self.file.clear_command}"
            )
        # A manifest derived from files has no epoch; the signed resume file has it.
        manifest = frozen.replace(manifest, epoch=point.epoch)
        self.store.receive(manifest, context.files)
        with self.store.open(chain_id) as chain:
            for number in range(1, point.chunk):
                if chain and number not in chain.view.ended:
                    chain.save_results(number, {})
                    if chain.view.state is not HostChainState.running:
                        chain.record("chunk", chunk=number)
                    chain.record("chunk_end", chunk=number, outcome="waiting")

    # -- both ----------------------------------------------------------------------------------

    def _run(self, chain: Chain, context: Context, number: int) -> Dict[str, Any]:
        self._worked_on(chain)
        # Imported here: an agent that only reads the state of its chain needs no compiler.
        from catena.runtime.chunk_run import ChunkRunner

        results = ChunkRunner(chain, context, self.host, self.file).run(number)
        if chain.ended and chain.view.state is not HostChainState.done:
            self.file.clear()
        elif number in chain.view.ended:
            taken = self.file.taken()
            if taken and taken.chunk == number:
                self.file.drop_taken()
            if chain.view.state is HostChainState.waiting and chain.view.chunk == number:
                self.host.after = self._promise(chain)
        if self.host.after is None and self.host.armed and chain.view.state is HostChainState.done:
            # An SLS itself requested a reboot, in the chain's last chunk.
            self.host.after = self._reboot(chain, self.host.armed.at_minutes * 60)
        return results

    def _worked_on(self, chain: Chain) -> None:
        """Record in the return which run of a chain it belongs to."""
        if chain.manifest.epoch:
            self.host.epochs[str(chain.manifest.chain_id)] = chain.manifest.epoch

    @contextmanager
    def waiting_chain(self) -> Iterator[Optional[Chain]]:
        """Yield the chain that waits at a boundary for writing, or None; hold the lock."""
        for seen in self.store.chains():
            if seen.view.state is HostChainState.waiting:
                with self.store.open(seen.manifest.chain_id) as chain:
                    yield chain
                return
        yield None

    def promise_again(self) -> Optional[After]:
        """Return the waiting chain's outstanding request to the agent; the lock must be held."""
        self.sweep()
        with self.waiting_chain() as chain:
            return self._promise(chain) if chain else None

    def _promise(self, chain: Chain) -> Optional[After]:
        """Return the agent's task for the boundary, and count it; None if it is done."""
        if chain.view.issued >= ISSUES or chain.view.refused:
            return None
        after = _boundary_after(chain, self.host)
        if after is not None:
            chain.record("issued")
        return after

    def _reboot(self, chain: Chain, delay_seconds: int) -> After:
        return After(
            AfterKind.reboot,
            chain.manifest.chain_id,
            delay_seconds,
            tuple(self.host.reboot_command()),
            self.host.boot_id(),
            self.host.agent_session(),
        )

    # -- next ---------------------------------------------------------------------------------

    def next(
        self, chain_id: int, number: int, next_action_id: Optional[int], filerefs: str
    ) -> ResumePoint:
        """Write the resume file for chunk *number* of a chain.

        It names the boot and session in which the boundary's action first began. Writing it again
        after the reboot therefore does not require another reboot.

        Raises:
            InvalidStateError: the chain is not on this host, has no such chunk, or no boundary
                before it.
        """
        chain = self.store.look(chain_id)
        if chain is None:
            raise InvalidStateError(f"chain {chain_id} was not started on this host")
        chunk, previous = chain.chunk(number), chain.chunk(number - 1)
        if previous.boundary is Boundary.none:
            raise InvalidStateError(f"chain {chain_id}: no boundary before chunk {number}")
        boot_id, session = self.host.boot_id(), self.host.agent_session()
        action = chain.boundary_action(previous.number)
        if action is not None and chain.view.action(action.action_id).attempt:
            view = chain.view.action(action.action_id)
            boot_id, session = view.boot_id, view.session
        point = ResumePoint(
            next_chunk=chunk.sls,
            actionchain_id=chain_id,
            chunk=number,
            next_action_id=next_action_id,
            persist_boot_time=boot_time(),
            boot_id=boot_id,
            session=session,
            boundary=previous.boundary.value,
            sha256=chunk.sha256,
            epoch=chain.manifest.epoch,
            ssh_extra_filerefs=filerefs,
        )
        self._write_point(chain, point)
        failpoints.hit("chain.next.written")
        return point

    def _write_point(self, chain: Chain, point: ResumePoint) -> None:
        try:
            self.file.write(point)
        except OSError as error:
            if not no_room(error):
                raise
            # The reserve was kept for this: the preceding action has had its effect.
            chain.release_reserve()
            self.file.write(point)


def _store(place: AgentHome, boot_id: str, clock: Clock) -> ChainStore:
    return ChainStore(place.cache_dir, boot_id, place.session, clock)


def _texts(context: Context, chain: Chain) -> List[str]:
    chunks = chain.manifest.chunks
    return [chain_manifest.fetch_chunk(context.files, chunk).decode() for chunk in chunks]


def _sync_custom(context: Context) -> None:
    """Fetch custom states and modules before a chain, as Uyuni does; only log a failure."""
    for kind in ("states", "modules"):
        try:
            if context.host.sync(kind):
                context.forget_plugins()
        except (CatenaError, OSError) as error:
            log.error("custom %s could not be fetched: %s", kind, error)


def _is(point: ResumePoint, wanted: RunRef) -> bool:
    return wanted.names(point.actionchain_id, point.epoch)


def _is_proven_final(chain: Chain, host: BaseHost) -> bool:
    """Return whether the chain ended in a reboot that has happened, with nothing after it."""
    view = chain.view
    if view.state is not HostChainState.waiting or view.chunk != len(chain.manifest.chunks):
        return False
    action = chain.boundary_action(view.chunk)
    return action is not None and view.action(action.action_id).boot_id != host.boot_id()


def _boundary_after(chain: Chain, host: BaseHost) -> Optional[After]:
    """Return the agent's task at the end of the chain's chunk; None if it is done.

    Raises:
        InvalidStateError: the chunk's boundary is of a kind that has no task here.
    """
    chunk = chain.chunk(chain.view.chunk)
    action = chain.boundary_action(chunk.number)
    begun = chain.view.action(action.action_id) if action else None
    boot_id, session = host.boot_id(), host.agent_session()
    common = (chain.manifest.chain_id, begun.delay_seconds if begun else 0)
    if chunk.boundary is Boundary.agent_upgrade:
        asked = begun.session if begun and begun.attempt else session
        if asked != session:
            return None
        return After(AfterKind.restart_agent, *common, (), boot_id, session)
    # A reboot that is the chain's last action is armed too; no chunk waits behind it.
    if chunk.boundary not in (Boundary.reboot, Boundary.none):
        raise InvalidStateError(
            f"chain {chain.manifest.chain_id}: this agent has no task for the boundary "
            f"{str(chunk.boundary)!r} of chunk {chunk.number}"
        )
    if begun is None or begun.state is not ActionState.armed or begun.boot_id != boot_id:
        return None
    return After(AfterKind.reboot, *common, tuple(host.reboot_command()), boot_id, session)


def _chains_at(place: AgentHome) -> ChainHost:
    """Return the chains of a host for the agent, which reads and records but runs nothing."""
    return ChainHost(BaseHost(place, cast(Any, None)))


def open_chain(place: AgentHome) -> Optional[OpenChain]:
    """Return the chain that has begun on this host and not ended, or None.

    A chain whose last action is a reboot that has happened counts as ended.
    """
    chains = _chains_at(place)
    for chain in chains.store.chains():
        if not chain.ended and not _is_proven_final(chain, chains.host):
            manifest, view = chain.manifest, chain.view
            return OpenChain(manifest.chain_id, manifest.epoch, view.state.value, view.chunk)
    return None


def chain_state(place: AgentHome, chain_id: int) -> Optional[OpenChain]:
    """Return the state of a chain on this host, ended or not; None if it was never received."""
    chain = _chains_at(place).store.look(chain_id)
    if chain is None:
        return None
    return OpenChain(chain_id, chain.manifest.epoch, chain.view.state.value, chain.view.chunk)


def pending_resume(place: AgentHome) -> Dict[str, Any]:
    """Return the result of `read_pending`; {"error": reason} for an invalid resume file.

    The agent uses this, because it must start whatever the file contains.
    """
    try:
        return read_pending(place)
    except (CatenaError, OSError) as error:
        log.error("%s", error)
        return {"error": str(error)}


def read_pending(place: AgentHome) -> Dict[str, Any]:
    """Return the content of the resume file, with `running` and `current_boot_time`, or {}.

    Raises:
        MalformedResumeFileError: it was not written by this agent.
    """
    file = ResumeFile(place.conf_dir, place.pki_dir, place.id, place.cache_dir)
    taken = file.taken()
    point = taken or file.waiting()
    if point is None:
        return {}
    found = dict(vars(point))
    if found["next_action_id"] is None:
        del found["next_action_id"]
    return {**found, "running": taken is not None, "current_boot_time": boot_time()}


def pending_after(place: AgentHome) -> Optional[After]:
    """Return a requested reboot or agent restart that has not happened and is due now.

    Called at the agent's start, which must succeed whatever is wrong here (a full disk, no reboot
    tool): the chain then continues to wait. A request is made at most `ISSUES` times.
    """
    chains = _chains_at(place)
    if not chains.store.folder.is_dir():
        return None
    try:
        with chains.store.lock(wait=False):
            return chains.promise_again()
    except TryLaterError:
        return None  # the chunk still runs, in a process that outlived the agent
    except (CatenaError, OSError) as error:
        log.error("cannot repeat the request of a waiting chain: %s", error)
        return None


def refuse_boundary(place: AgentHome, reason: str) -> bool:
    """Record that a waiting chain's boundary cannot be passed; the next resume fails its action.

    Args:
        place: the agent's home.
        reason: for people, one sentence.

    Returns:
        Whether a chain waits.
    """
    chains = _chains_at(place)
    try:
        with chains.store.lock(wait=False), chains.waiting_chain() as chain:
            if chain:
                chain.record("refused", True, reason=reason)
            return chain is not None
    except TryLaterError:
        return False  # no chain waits; one is running
