"""Requests of a run on a host to the master, and their answers.

A host that is reached only by SSH has no template engines and no file roots. What its run needs is
sent ahead (`PushedJob`): the files that its states name, and templates whose text does not depend
on the time of rendering. The rest is requested when it is needed: templates that read what earlier
states made, states inside states, fresh pillar, unforeseen files. While no master is connected,
the run waits for the answer.

The runner writes a step of kind "ask" (number, kind, data: `values.pack` of a record of this
module) into its journal. It then waits until `supply` has brought the answer with that number, a
`MasterReply`.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Protocol, Sequence, Tuple, Type

from catena.core.context import Context, Distant, FileEntry
from catena.core.errors import (
    CatenaError,
    CommandExecutionError,
    LimitError,
    NotFoundError,
    RecordError,
    RenderError,
    UsageError,
)
from catena.core.frozen import dataclass, field, replace
from catena.core.records import decode
from catena.core.template_calls import TemplateCall, note
from catena.core.types import SourceLine
from catena.fileserver.remote import ContentStore
from catena.fileserver.roots import read_each
from catena.renderers import source as sources
from catena.renderers.source import Rendered, Source, SourceError
from catena.runtime.push import values
from catena.runtime.push.files import ShippedFiles

#: Classes in which errors of the master are raised here; any other becomes a RenderError.
_ERRORS: Mapping[str, Type[CatenaError]] = {
    one.__name__: one
    for one in (CommandExecutionError, LimitError, NotFoundError, RenderError, UsageError)
}


@dataclass(frozen=True)
class View:
    """How the context of a call differs from that of its run."""

    saltenv: str = "base"
    test: bool = False
    #: None: those of the run. Mappings with keys of any type.
    grains: Any = None
    pillar: Any = None
    #: Options that differ.
    opts: Dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class AskText:
    """A managed file's text (`renderers.templates.render_file`); the answer is a text."""

    source: Source
    engine: str
    variables: Dict[str, Any] = field(default_factory=dict)
    view: View = View()


@dataclass(frozen=True)
class AskData:
    """A text through its renderers (`renderers.pipeline.render`); the answer is [data, lines]."""

    source: Source
    default: str
    variables: Dict[str, Any] = field(default_factory=dict)
    view: View = View()


@dataclass(frozen=True)
class AskFile:
    """Requests a file of the roots; the answer is its FileEntry (whose part was put) or None."""

    path: str
    saltenv: str = "base"
    #: Whether the content is needed.
    content: bool = True


@dataclass(frozen=True)
class AskFolder:
    """Requests a listing below a path; the answer is [entries, folders], without contents."""

    prefix: str
    saltenv: str = "base"


@dataclass(frozen=True)
class AskEnvironments:
    """The environments of the roots; the answer is a list."""


@dataclass(frozen=True)
class AskPillar:
    """Requests fresh pillar; the answer is [pillar, errors]."""

    #: A mapping with keys of any type.
    override: Any = field(default_factory=dict)
    pillarenv: str = ""


#: kind of the step -> its record.
KINDS: Mapping[str, Type[Any]] = {
    "text": AskText,
    "data": AskData,
    "file": AskFile,
    "folder": AskFolder,
    "environments": AskEnvironments,
    "pillar": AskPillar,
}
_NAMES: Mapping[Type[Any], str] = {record: kind for kind, record in KINDS.items()}


@dataclass(frozen=True)
class Refusal:
    """The error that prevented an answer, as its fields."""

    kind: str
    text: str
    #: Of a SourceError: reason, place, way and excerpted text.
    reason: str = ""
    place: Optional[SourceLine] = None
    chain: Tuple[SourceLine, ...] = ()
    written: str = ""
    note: str = ""

    @classmethod
    def of(cls, error: CatenaError) -> Refusal:
        """Return *error* in the form in which it is sent."""
        kind = type(error).__name__
        if isinstance(error, SourceError):
            place = SourceLine(error.place.file, error.place.line)
            chain = tuple(SourceLine(one.file, one.line) for one in error.chain)
            return cls(kind, str(error), error.reason, place, chain, error.text, error.note)
        return cls(kind, str(error))

    def error(self) -> CatenaError:
        """Return the error in its original class."""
        if self.place is not None:
            found = getattr(sources, self.kind, SourceError)
            known = isinstance(found, type) and issubclass(found, SourceError)
            made: Type[SourceError] = found if known else SourceError
            return made(self.reason, self.place, self.written, self.chain, self.note)
        return _ERRORS.get(self.kind, RenderError)(self.text)


@dataclass(frozen=True)
class MasterReply:
    """The answer to one question."""

    value: Any = None
    refusal: Optional[Refusal] = None
    #: In test mode: calls of the rendered templates that may have changed something.
    calls: Tuple[TemplateCall, ...] = ()


def packed(question: Any) -> Tuple[str, Dict[str, Any]]:
    """Return (kind, data) of a question, for its step."""
    data: Dict[str, Any] = values.pack(question)
    return _NAMES[type(question)], data


def unpacked(kind: str, data: Any) -> Any:
    """Return the question of a step.

    Raises:
        RecordError: there is no such question.
    """
    if kind not in KINDS:
        raise RecordError(f"a run asks for {kind[:80]!r}, which no master knows")
    return decode(KINDS[kind], values.unpack(data), kind)


def pack_reply(reply: MasterReply) -> bytes:
    """Return the blob of a `supply`."""
    data = {"value": reply.value, "refusal": reply.refusal}
    # Runs that an older version started do not know the field, so it is sent only with a content.
    return values.dumps({**data, "calls": reply.calls} if reply.calls else data)


def unpack_reply(blob: bytes) -> MasterReply:
    """Return what `pack_reply` was given.

    Raises:
        RecordError: it is no such document.
    """
    return decode(MasterReply, values.loads(blob), "reply")


def key_of(question: Any) -> str:
    """Return the identity of a question: SHA-256 of everything that its answer may depend on."""
    text = json.dumps(packed(question), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def timeless_key(question: AskText) -> str:
    """Return the key of a template without calls to its host, so test mode does not matter."""
    return key_of(replace(question, view=replace(question.view, test=False)))


class AskMaster(Protocol):
    """Sends one question to the master and waits for the answer; implemented by the runner."""

    def __call__(self, question: Any) -> MasterReply:
        """Return the answer to a record of this module.

        Raises:
            CatenaError: the run was cancelled, or its deadline passed.
        """


class NeedsMasterError(CatenaError):
    """A call on the channel cannot ask the master; the master must start a run instead."""


def refused(question: Any) -> MasterReply:
    """Refuse to ask: an `AskMaster` for calls on the channel.

    Raises:
        NeedsMasterError: always.
    """
    raise NeedsMasterError()


def asked(ask: AskMaster, question: Any) -> Any:
    """Return the value of the answer, or raise its error."""
    reply = ask(question)
    for call in reply.calls:
        note(call)
    if reply.refusal is not None:
        raise reply.refusal.error()
    return reply.value


class AskedRendering:
    """Renders with templates that were sent ahead, or by asking (`core.context.Rendering`).

    Args:
        ask: asks the master.
        run: the context at the run's beginning, as the master knows it.
        rendered: key of a question -> text of a template that was sent ahead.
    """

    def __init__(
        self, ask: AskMaster, run: Callable[[], Context], rendered: Callable[[str], Optional[str]]
    ) -> None:
        self._ask = ask
        self._run = run
        self._rendered = rendered

    def data(
        self, context: Context, source: Source, default: str, variables: Mapping[str, Any]
    ) -> Rendered:
        """Return what a text renders to."""
        question = AskData(source, default, dict(variables), view_of(context, self._run()))
        data, lines = asked(self._ask, question)
        return Rendered(data, lines, source.name)

    def text(
        self, context: Context, source: Source, engine: str, variables: Mapping[str, Any]
    ) -> str:
        """Return the text of a managed file."""
        question = AskText(source, engine, dict(variables), view_of(context, self._run()))
        ready = self._rendered(timeless_key(question))
        return ready if ready is not None else str(asked(self._ask, question))


def view_of(context: Context, run: Context) -> View:
    """Return the differences of *context* from *run*, which both sides know."""
    opts = {}
    if context.opts is not run.opts:
        base = run.opts
        opts = {k: v for k, v in context.opts.items() if k not in base or base[k] != v}
    return View(
        saltenv=context.saltenv,
        test=context.test,
        grains=None if context.grains == run.grains else dict(context.grains),
        pillar=None if context.pillar is run.pillar else dict(context.pillar),
        opts=opts,
    )


class AskedFiles:
    """Files that were sent with the run, or are requested (`core.context.FileClient`).

    Args:
        sent: the files that were sent with the run.
        ask: asks the master.
        parts: the contents.
    """

    def __init__(self, sent: ShippedFiles, ask: AskMaster, parts: ContentStore) -> None:
        self._sent = sent
        self._ask = ask
        self._parts = parts
        self._entries: Dict[Tuple[str, str, bool], Optional[FileEntry]] = {}
        self._folders: Dict[Tuple[str, str], Tuple[List[FileEntry], List[str]]] = {}

    def fetch(self, path: str, saltenv: str = "base") -> Optional[Path]:
        """Return a local copy of *path*, or None."""
        found = self._sent.fetch(path, saltenv)
        if found is not None:
            return found
        entry = self._asked_entry(path, saltenv, True)
        held = self._parts.get(entry) if entry else None
        return self._parts.named(held, saltenv, entry.path) if entry and held else None

    def fetch_all(self, paths: Sequence[str], saltenv: str = "base") -> List[Optional[Path]]:
        """Return copies of several files, in the order asked."""
        return [self.fetch(path, saltenv) for path in paths]

    def contents(self, paths: Sequence[str], saltenv: str = "base") -> List[Optional[bytes]]:
        """Return the contents of several files, in the order asked."""
        return read_each(self.fetch_all(paths, saltenv))

    def distant(self, path: str, saltenv: str = "base") -> Optional[Distant]:
        """Return None: what `fetch` gives is on this host for this run anyway."""
        return None

    def entry(self, path: str, saltenv: str = "base") -> Optional[FileEntry]:
        """Return the entry of one file, or None."""
        found = self._sent.entry(path, saltenv)
        return found if found is not None else self._asked_entry(path, saltenv, False)

    def entries(self, saltenv: str = "base", prefix: str = "") -> List[FileEntry]:
        """Return the files below *prefix*, sorted by path."""
        if self._sent.came_whole(saltenv, prefix):
            return self._sent.entries(saltenv, prefix)
        return list(self._asked_folder(saltenv, prefix)[0])

    def folders(self, saltenv: str = "base", prefix: str = "") -> List[str]:
        """Return the folders below *prefix*, sorted."""
        if self._sent.came_whole(saltenv, prefix):
            return self._sent.folders(saltenv, prefix)
        return list(self._asked_folder(saltenv, prefix)[1])

    def environments(self) -> List[str]:
        """Return the environments of the master's roots, sorted."""
        return [str(one) for one in asked(self._ask, AskEnvironments())]

    def _asked_entry(self, path: str, saltenv: str, content: bool) -> Optional[FileEntry]:
        key = (path, saltenv, content)
        if key not in self._entries:
            found = asked(self._ask, AskFile(path, saltenv, content))
            self._entries[key] = decode(FileEntry, found, "file") if found else None
        return self._entries[key]

    def _asked_folder(self, saltenv: str, prefix: str) -> Tuple[List[FileEntry], List[str]]:
        key = (saltenv, prefix)
        if key not in self._folders:
            entries, folders = asked(self._ask, AskFolder(prefix, saltenv))
            self._folders[key] = (
                [decode(FileEntry, one, "file") for one in entries],
                [str(one) for one in folders],
            )
        return self._folders[key]
