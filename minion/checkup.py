"""Check-up of all files of a minion on its host. It changes nothing and needs no daemon."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Iterator, List, Optional, Tuple

from catena.core import checkup
from catena.core.chain_calls import RESUME
from catena.core.checkup import Finding, Level
from catena.core.clock import SystemClock, read_boot_id
from catena.core.config.minion import MinionSettings
from catena.core.errors import CatenaError
from catena.core.files import is_misplaced
from catena.core.job import CHAIN
from catena.minion.jobs import log as job_log
from catena.minion.jobs.folder import JobFolder, StoredSpec
from catena.minion.jobs.queue import QueueEntry, Work, blocker, entry_of
from catena.minion.link import event_log
from catena.minion.start import configure, identity
from catena.runtime import agent_versions, damage
from catena.runtime.chain_record import HostChainState, JournaledChain
from catena.runtime.chain_store import Chain, ChainStore
from catena.runtime.lost_resume import lost_file
from catena.runtime.resume_file import ResumeFile, clear_command
from catena.transport import keys

#: Age in seconds of the oldest unsent item from which the outbox is a finding.
OUTBOX_OLD_SECONDS = 3600.0
#: Maximum number of queued jobs listed with their reasons.
QUEUED_SHOWN = 10


def check(config_dir: Path) -> Iterator[Finding]:
    """Yield the findings about the minion configured in *config_dir*."""
    try:
        settings = configure.read(config_dir).settings
        minion = identity.minion_id(settings)
    except CatenaError as error:
        yield Finding("configuration", Level.fault, str(error), "catena config check minion")
        return
    cache = Path(settings.cache_dir)
    yield _running(cache, settings.master)
    yield from _keys(settings)
    for folder in (cache, Path(settings.pki_dir), Path(settings.run_dir)):
        yield from checkup.private(folder)
    yield checkup.disk(cache)
    yield from _chains(cache, minion)
    yield from _resume_file(config_dir, Path(settings.pki_dir), minion)
    yield from _lost_resume_file(cache, ResumeFile(config_dir, Path(settings.pki_dir), minion))
    yield from _outbox(cache)
    yield from _put_off(cache)
    yield from _queued(cache, _pending_chain(config_dir, Path(settings.pki_dir), minion))
    yield from _damages(cache)
    yield from _versions(settings)
    yield checkup.clock(_newest(cache))


def _running(cache: Path, master: str) -> Finding:
    if checkup.is_locked(cache / "lock"):
        return Finding("agent", Level.ok, "the minion runs")
    if not master:
        told = "no master is set: the minion does not run, `catena call --local` works"
        return Finding("agent", Level.note, told)
    return Finding("agent", Level.warning, "the minion does not run", "start catena-minion")


def _keys(settings: MinionSettings) -> Iterator[Finding]:
    folder = Path(settings.pki_dir)
    if not (folder / "curve.key").exists():
        yield Finding("keys", Level.note, f"{folder} has no key yet; the first start makes one")
        return
    try:
        mine = keys.load(folder)
    except (CatenaError, OSError) as error:
        advice = f"restore {folder}, or remove it and accept the new key on the master"
        yield Finding("keys", Level.fault, str(error), advice)
        return
    yield Finding("keys", Level.ok, f"this minion's key: {mine.fingerprint}")
    if settings.master and not (folder / "master.pub").exists():
        yield Finding("keys", Level.note, "no master's key is known yet")


def _chains(cache: Path, minion: str) -> Iterator[Finding]:
    # Check each chain, because `ChainStore.chains` would stop at damage. Nothing is changed.
    store = ChainStore(cache, "", "", SystemClock())
    if not store.folder.is_dir():
        return
    for folder in sorted(store.folder.iterdir()):
        if not folder.name.isdigit():
            continue
        try:
            chain = store.look(int(folder.name))
        except (CatenaError, OSError, ValueError) as error:
            advice = f"check the host, then give that chain up: {clear_command(minion)}"
            yield Finding("journal", Level.fault, str(error), advice)
            continue
        if chain is not None:
            yield from _chain(chain)


def _chain(chain: Chain) -> Iterator[Finding]:
    number, view = chain.manifest.chain_id, chain.view
    if view.state is HostChainState.interrupted:
        text = f"chain {number}: {_interrupted(view)} has no known outcome"
        advice = f"check the host; then on the master: catena chain resolve {number}"
        yield Finding("journal", Level.warning, text, advice)
    elif not chain.ended:
        where = f"chunk {view.chunk} of {len(chain.manifest.chunks)}"
        text = f"chain {number} is {view.state.value}, {where}"
        yield Finding("journal", Level.note, text + (f": {view.refused}" if view.refused else ""))


def _interrupted(view: JournaledChain) -> str:
    found = [number for number, action in view.actions.items() if action.state == "interrupted"]
    return f"action {found[0]}" if found else "an action"


def _resume_file(config_dir: Path, pki_dir: Path, minion: str) -> Iterator[Finding]:
    file = ResumeFile(config_dir, pki_dir, minion)
    if not file.path.exists() and not file.running.exists():
        return
    if not (pki_dir / "resume.key").exists():
        text = f"{file.path} is signed by a key that no longer exists"
        advice = f"to give that chain up: {file.clear_command}"
        yield Finding("resume file", Level.fault, text, advice)
        return
    try:
        waiting, taken = file.waiting(), file.taken()
    except CatenaError as error:
        yield Finding("resume file", Level.fault, str(error))
        return
    point = waiting or taken
    if point is None:
        return
    text = f"chain {point.actionchain_id} continues with chunk {point.chunk}"
    if waiting and point.boundary == "reboot" and point.boot_id == read_boot_id():
        yield Finding("resume file", Level.note, f"{text} after the next boot")
        return
    advice = "the master's reactor resumes it; to do so by hand: catena call " + RESUME
    yield Finding("resume file", Level.note, text, advice)


def _lost_resume_file(cache: Path, file: ResumeFile) -> Iterator[Finding]:
    """Yield a finding if a chain waits without its resume file."""
    store = ChainStore(cache, "", "", SystemClock())
    try:
        found = lost_file(store, file) if store.folder.is_dir() else None
    except (CatenaError, OSError, ValueError):
        return  # `_chains` reports a chain that cannot be read
    if found is not None:
        text = f"{found.path}: {found.what}; lost: {found.lost}"
        advice = "its master ends it; to run its other actions, on the master: catena chain retry"
        yield Finding("resume file", Level.fault, text, advice)


def _outbox(cache: Path) -> Iterator[Finding]:
    waiting = event_log.waiting_since(cache)
    for folder in _entries(cache / "jobs"):
        if folder.name.startswith(".") or ".damaged-" in folder.name:
            continue  # `_damages` reports what was moved aside
        if (folder / "return").exists():
            waiting.append((folder / "return").stat().st_mtime)
            continue
        try:
            JobFolder(folder).read_spec()
        except CatenaError as error:
            advice = f"the next start of the minion reports it as lost; or remove {folder}"
            yield Finding("jobs", Level.warning, str(error), advice)
    if not waiting:
        return
    age = time.time() - min(waiting)
    text = f"{len(waiting)} results and events wait for the master, the oldest for {age:.0f} s"
    old = age > OUTBOX_OLD_SECONDS
    advice = "is the master reachable, and this minion's key accepted there?" if old else ""
    yield Finding("outbox", Level.warning if old else Level.note, text, advice)


def _pending_chain(config_dir: Path, pki_dir: Path, minion: str) -> Optional[Work]:
    """Return the chain that waits on this host, or None; `_resume_file` reports damage."""
    file = ResumeFile(config_dir, pki_dir, minion)
    if not (pki_dir / "resume.key").exists():
        return None
    try:
        point = file.waiting() or file.taken()
    except CatenaError:
        return None
    return Work(CHAIN, point.actionchain_id) if point else None


def _queued(cache: Path, held_by: Optional[Work]) -> Iterator[Finding]:
    """Yield the number of queued jobs, their waiting time, and the reason for each."""
    running: List[QueueEntry] = []
    waiting: List[Tuple[StoredSpec, float]] = []
    for path in _entries(cache / "jobs"):
        folder = JobFolder(path)
        if not path.name.isdigit() or folder.is_postponed() or folder.has_return():
            continue
        try:
            stored = folder.read_spec()
            since = (path / "spec").stat().st_mtime
        except (CatenaError, OSError):
            continue  # `_outbox` reports damage; a missing job has ended meanwhile
        if folder.is_claimed():
            running.append(entry_of(stored.spec))
        else:
            waiting.append((stored, since))
    if not waiting:
        return
    age = time.time() - min(since for _, since in waiting)
    text = f"{len(waiting)} jobs wait in the queue, the first for {age:.0f} s"
    advice = "for what is ahead of them: catena call saltutil.running"
    yield Finding("queue", Level.note, text, advice)
    waiting.sort(key=lambda item: item[0].received)
    entries = [entry_of(stored.spec) for stored, _ in waiting]
    for number, (stored, _) in enumerate(waiting[:QUEUED_SHOWN]):
        why = blocker(entries[number], running, entries[:number], held_by)
        spec = stored.spec
        yield Finding("queue", Level.note, f"job {spec.jid} ({spec.fun}) waits: {why}")


def _damages(cache: Path) -> Iterator[Finding]:
    for name in ("jobs.log", "seen", "outbox/events.log"):
        if is_misplaced(cache / name):
            advice = "the next start of the minion moves it aside and recovers what it can"
            yield Finding("damage", Level.warning, f"{cache / name}: not a regular file", advice)
    for found in damage.known(cache):
        advice = f"read the report in {cache / damage.FOLDER}; delete it to clear this finding"
        yield Finding("damage", Level.warning, found.text(), advice)


def _put_off(cache: Path) -> Iterator[Finding]:
    """Yield the postponed jobs: those given back by a process, and those without a folder."""
    found = {}
    for folder in _entries(cache / "jobs"):
        if JobFolder(folder).is_postponed():
            found[folder.name] = "it continues when the disk has space and the master answers"
    log = cache / "jobs.log"
    for jid, line in job_log.look(log).items() if not is_misplaced(log) else ():
        whole = line.ret or line.until or line.claim or not line.order
        if not whole and not (cache / "jobs" / jid).exists():
            found[jid] = "it begins when the disk has space"
    for jid, until in sorted(found.items()):
        yield Finding("jobs", Level.warning, f"job {jid} is postponed: {until}", "free some space")


def _entries(folder: Path) -> List[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _versions(settings: MinionSettings) -> Iterator[Finding]:
    from catena import __version__

    current = agent_versions.current(Path(settings.agent_dir))
    text = f"catena {__version__}" + (f", the agent runs {current}" if current else "")
    yield Finding("version", Level.ok, text)
    failure = agent_versions.untold_failure(Path(settings.cache_dir))
    if failure:
        yield Finding("version", Level.warning, f"an upgrade of the agent failed: {failure}")


def _newest(cache: Path) -> float:
    """Return the latest modification time of this minion's files; 0 if there are none."""
    files = [cache / "lock", cache / "chains", cache / "jobs", cache / "outbox"]
    return max((path.stat().st_mtime for path in files if path.exists()), default=0.0)
