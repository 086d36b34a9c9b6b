"""Performs tests in a folder of their own, under a guard that refuses changes of this host."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping

from catena.cli.testing.check import compare_error, compare_row, compare_states, compare_value
from catena.cli.testing.model import UNSET, KitFile, KitOutcome, KitTest, Mismatch
from catena.core import frozen
from catena.core.context import Context
from catena.core.custom_faults import error_line
from catena.core.dry_run import refusing_changes
from catena.core.errors import CatenaError, UsageError
from catena.core.job import FunctionCall, JobSpec
from catena.core.nested import recurse
from catena.core.plugins import FunctionMark, Plugin, Registry
from catena.minion.calls.local import local_session_of
from catena.minion.start import configure
from catena.minion.start.blob import StartData
from catena.runtime.session import JobSession
from catena.states.compiler import api

MINION_ID = "test-minion"
_MACHINE_ID = "0" * 32
_KINDS = ("modules", "states", "utils", "renderers", "grains")
_STATE_ID = "tested"
#: Settings that decide where files are written; tests write only into their own folder.
_OWN = frozenset(
    (
        "agent_dir",
        "cache_dir",
        "cachedir",
        "extension_modules",
        "file_roots",
        "log_file",
        "pillar_roots",
        "pki_dir",
        "root_dir",
        "run_dir",
        "state_dir",
    )
)


class GivenAnswers(Registry):
    """The functions of a session, some of which return the values that a test gives."""

    def __init__(self, registry: Registry, answers: Mapping[str, Any]) -> None:
        super().__init__(registry.kind, {}, FunctionMark)
        self._registry = registry
        self._answers = {name: _answering(name, value) for name, value in answers.items()}

    def module(self, prefix: str) -> Mapping[str, Plugin]:
        """Return the functions of a module."""
        given = {n: p for n, p in self._answers.items() if n.partition(".")[0] == prefix}
        return {**self._registry.module(prefix), **given}

    def __contains__(self, name: str) -> bool:
        return name in self._answers or name in self._registry

    def __getitem__(self, name: str) -> Plugin:
        return self._answers.get(name) or self._registry[name]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._registry, name)

    def names(self) -> List[str]:
        """Return every name."""
        return sorted({*self._answers, *self._registry.names()})


def _answering(name: str, value: Any) -> Plugin:
    def answer(context: Context, /, *args: Any, **kwargs: Any) -> Any:
        return value

    return Plugin(name, answer, FunctionMark(name.partition(".")[2], reads=True))


def perform(file: KitFile, folder: Path, match: str = "") -> Iterator[KitOutcome]:
    """Yield the outcome of each test of *file* whose name contains *match*.

    Args:
        file: the tests.
        folder: a private folder for everything that the tests write.
        match: part of a name; "" for all.

    Raises:
        ConfigError: the file's `config` has an unknown or malformed setting.
    """
    start = _start(file, folder)
    session = _session(start, file)
    for kind in _KINDS:
        session.host.sync(kind)
    for test in file.tests:
        if match not in test.name:
            continue
        begun = time.monotonic()
        failures = tuple(_failures(start, file, test))
        yield KitOutcome(file.path, test, failures, time.monotonic() - begun)


def _start(file: KitFile, folder: Path) -> StartData:
    taken = sorted(_OWN.intersection(file.config))
    if taken:
        raise UsageError(f"{file.path}: config: {', '.join(taken)} can't be set in tests")
    given = {
        **file.config,
        "id": MINION_ID,
        "machine_id": _MACHINE_ID,
        "root_dir": str(folder),
        "file_client": "local",
        "file_roots": {"base": list(file.file_roots)},
        "pillar_roots": {"base": list(file.pillar_roots)},
        "log_file": "",
    }
    conf = folder / "conf"
    conf.mkdir(exist_ok=True)
    return configure.start_of(configure.read(conf, given), conf)


def _session(start: StartData, file: KitFile) -> JobSession:
    spec = JobSpec.asked_here("20000101000000000000", FunctionCall("test.ping"), "test", 0.0)
    start = frozen.replace(start, grains=start.grains or {"id": MINION_ID})
    roots = {"base": list(file.file_roots)}
    return local_session_of(start, spec, roots, {"base": list(file.pillar_roots)})


def _failures(start: StartData, file: KitFile, test: KitTest) -> Iterator[Mismatch]:
    grains = {"id": MINION_ID, **test.grains}
    session = _session(frozen.replace(start, grains=grains), file)
    with refusing_changes((str(start.settings.root_dir),), strict=True):
        try:
            pillar: Any = test.pillar
            if file.pillar_roots:
                pillar = recurse(dict(session.context.pillar), test.pillar)
            functions = GivenAnswers(session.context.functions, test.answers)
            context = session.context.with_(pillar=dict(pillar), functions=functions, test=True)
            yield from _PERFORMERS[test.kind](context, test, start)
        except Exception as error:  # noqa: BLE001  # the tested code may raise anything
            yield from compare_error(test, error_line(error))


def _sls(context: Context, test: KitTest, start: StartData) -> Iterator[Mismatch]:
    compiled = api.compile_sls(context, test.target)
    yield from compare_error(test, _hinted("\n".join(compiled.errors)))
    if not compiled.errors:
        yield from compare_states(test, compiled.low)


def _hinted(error: str) -> str:
    """Return an error; if a function was refused that may change the host, with the way out."""
    if "refused to call " in error:
        return f"{error}\ngive its answer in the test, below `functions:`"
    return error


def _state(context: Context, test: KitTest, start: StartData) -> Iterator[Mismatch]:
    module, _, function = str(test.target).partition(".")
    items: List[Any] = [function, *({key: value} for key, value in test.kwargs.items())]
    compiled = api.compile_high(context, {_STATE_ID: {module: items}})
    if compiled.errors:
        yield from compare_error(test, "\n".join(compiled.errors))
        return
    for row in api.run(context, compiled.low).values():
        if test.expected.result is UNSET:
            # A failure of the state is an error, unless the test expects the result.
            failed = row.get("result") is False
            yield from compare_error(test, str(row.get("comment") or "it failed") * failed)
        yield from compare_row(test, row)


def _call(context: Context, test: KitTest, start: StartData) -> Iterator[Mismatch]:
    plugin = context.functions[str(test.target)]
    try:
        value = plugin.call(context, *test.args, **test.kwargs)
    except CatenaError as error:
        yield from compare_error(test, _hinted(str(error) or type(error).__name__))
        return
    yield from compare_error(test, "")
    yield from compare_value(test, value)


def _grain(context: Context, test: KitTest, start: StartData) -> Iterator[Mismatch]:
    from catena.runtime.grains.custom import custom_grains

    folder = Path(str(context.opts["extension_modules"])) / "grains"
    found = custom_grains(folder, context.grains, context.opts)
    name = str(test.target)
    if name not in found:
        known = ", ".join(sorted(found)) or "none"
        yield Mismatch(
            test.place, f"the files in _grains give no grain {name!r}; there are: {known}"
        )
        return
    yield from compare_value(test, found[name])


_PERFORMERS: Dict[str, Any] = {"sls": _sls, "state": _state, "call": _call, "grain": _grain}
