"""Answer the requests of a running job on a target.

The target is untrusted. Like a minion it may request files of the roots and its own pillar, and
also the rendering of templates with its own data. Text from the target is rendered only by
harmless renderers: Jinja in its sandbox, YAML and other plain data. Python and Mako are allowed
for files of the roots that name them in their first line, and for templates named by states that
were compiled here, because the roots contain scripts for hosts too. GPG is never allowed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from catena.core.context import Context, FileEntry
from catena.core.custom_faults import error_line
from catena.core.errors import CatenaError, NotAllowedError, PillarError
from catena.core.frozen import replace
from catena.core.logs import logger
from catena.core.records import encode
from catena.core.template_calls import noting_calls
from catena.renderers.pipeline import DEFAULT, pipeline_of, render
from catena.renderers.source import Source
from catena.renderers.templates import render_file
from catena.runtime.push import asking
from catena.runtime.push.asking import MasterReply, Refusal, View
from catena.ssh.connect.errors import SshError
from catena.ssh.push.patience import limited

log = logger(__name__)

#: Renderers that are allowed for text from the target.
HARMLESS = ("jinja", "yaml", "json", "toml", "text", "stateconf")
#: Renderers that are never allowed: a target could decrypt other hosts' secrets.
_NEVER = ("gpg",)
#: Options that a call of a state function may change for its run.
_CHANGING = frozenset(("environment", "mock", "pillarenv", "saltenv", "state_top", "test"))
#: Sends the content of one file of the roots to the target.
Send = Callable[[FileEntry, Path], None]


class Answers:
    """Answers the requests of one run.

    Args:
        context: in which the run was compiled.
        send: sends the content of a file to the target.
        code: (engine, path below the roots) of templates that may be code.
    """

    def __init__(
        self, context: Context, send: Send, code: frozenset[tuple[str, str]] = frozenset()
    ) -> None:
        self._context = context
        self._send = send
        self._code = code

    @property
    def code(self) -> frozenset[tuple[str, str]]:
        """(engine, path below the roots) of templates that may be code."""
        return self._code

    def __call__(self, question: Any) -> MasterReply:
        """Return the reply to a request of `runtime.push.asking`; an error is a reply too.

        Raises:
            SshError: the content of a file could not be sent.
        """
        view = getattr(question, "view", None)
        if view is None or not view.test:
            return self._reply(question)
        with noting_calls() as notes:
            reply = self._reply(question)
        return replace(reply, calls=notes.calls())

    def _reply(self, question: Any) -> MasterReply:
        try:
            with limited():
                return MasterReply(self._value(question))
        except SshError:
            raise
        except CatenaError as error:
            return MasterReply(refusal=Refusal.of(error))
        except Exception as error:  # a template may raise anything; the run gets the error
            log.debug("a question of a run failed", exc_info=True)
            return MasterReply(refusal=Refusal("RenderError", error_line(error)))

    def _value(self, question: Any) -> Any:
        if isinstance(question, asking.AskText):
            return self._text(question)
        if isinstance(question, asking.AskData):
            return self._data(question)
        if isinstance(question, asking.AskFile):
            return self._file(question)
        if isinstance(question, asking.AskFolder):
            files = self._context.files
            entries = files.entries(question.saltenv, question.prefix)
            folders = files.folders(question.saltenv, question.prefix)
            return [[encode(entry) for entry in entries], folders]
        if isinstance(question, asking.AskPillar):
            return self._pillar(question)
        return self._context.files.environments()

    def _data(self, question: asking.AskData) -> list[Any]:
        context = self._trusting(question.source, self._seen(question.view))
        usual = (DEFAULT, str(context.opts.get("renderer") or DEFAULT))
        for stage in pipeline_of("", question.default):
            if stage.name not in HARMLESS and question.default not in usual:
                raise NotAllowedError(f"over SSH, {stage.name} is no renderer for any text")
        made = render(context, question.source, question.default, question.variables)
        return [made.data, dict(made.lines)]

    def _pillar(self, question: asking.AskPillar) -> list[Any]:
        host = self._context.host
        try:
            return [host.compile_pillar(question.override, question.pillarenv), []]
        except PillarError as error:
            return [error.pillar, list(error.errors)]

    def _text(self, question: asking.AskText) -> str:
        context = self._seen(question.view)
        code = (question.engine, question.source.path)
        if question.engine != "jinja" and not (
            code in self._code and self._is_ours(question.source)
        ):
            raise NotAllowedError(
                f"over SSH, {question.engine} renders only files of the roots that a state of the "
                f"job itself names; {question.source.name[:200]} is none"
            )
        context = self._trusting(question.source, context)
        return render_file(context, question.source, question.engine, question.variables)

    def _file(self, question: asking.AskFile) -> Any:
        entry = self._context.files.entry(question.path, question.saltenv)
        if entry is None:
            return None
        local = self._context.files.fetch(question.path, question.saltenv)
        if question.content and local is not None:
            self._send(entry, local)
        return encode(entry)

    def _seen(self, view: View) -> Context:
        """Return the context in which the target sent the request."""
        base = self._context
        opts = {**base.opts, **{k: v for k, v in view.opts.items() if k in _CHANGING}}
        return base.with_(
            saltenv=view.saltenv,
            test=view.test,
            grains=base.grains if view.grains is None else view.grains,
            pillar=base.pillar if view.pillar is None else view.pillar,
            opts=opts,
        )

    def _trusting(self, source: Source, context: Context) -> Context:
        """Return *context*, with limited renderers if the text is not a file of the roots."""
        if self._is_ours(source):
            refused = [*(context.opts.get("renderer_blacklist") or ()), *_NEVER]
            return context.with_(opts={**context.opts, "renderer_blacklist": refused})
        allowed = context.opts.get("renderer_whitelist") or HARMLESS
        limited = [name for name in HARMLESS if name in allowed]
        return context.with_(opts={**context.opts, "renderer_whitelist": limited})

    def _is_ours(self, source: Source) -> bool:
        """Return whether a text equals the file of the roots whose name it has."""
        local = self._context.files.fetch(source.path, source.saltenv) if source.path else None
        if local is None:
            return False
        return local.read_bytes() == source.text.encode("utf-8", "surrogateescape")
