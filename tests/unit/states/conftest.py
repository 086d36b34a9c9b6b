"""A run's surroundings in memory: files, host, pillar, the functions that conditions call."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from catena import states
from catena.core.context import Context, Distant, FileEntry, RebootRequest
from catena.core.plugins import FunctionMark, Plugin, Registry, StateMark
from catena.fileserver.roots import read_each
from catena.states import functions as state_functions

#: Options that the double sets where a test gives none.
DEFAULTS = {"id": "minion", "renderer": "jinja|yaml"}


@dataclass
class MemoryFiles:
    """File roots in a dict: environment -> path -> text."""

    roots: dict[str, dict[str, str]]
    folder: Path

    def _text(self, path: str, saltenv: str) -> str | None:
        return self.roots.get(saltenv, {}).get(path)

    def fetch(self, path: str, saltenv: str = "base") -> Path | None:
        text = self._text(path, saltenv)
        if text is None:
            return None
        local = self.folder / saltenv / path
        local.parent.mkdir(parents=True, exist_ok=True)
        local.write_text(text, "utf-8")
        return local

    def entry(self, path: str, saltenv: str = "base") -> FileEntry | None:
        text = self._text(path, saltenv)
        if text is None:
            return None
        data = text.encode()
        return FileEntry(path, hashlib.sha256(data).hexdigest(), len(data), 0o644)

    def fetch_all(self, paths: Sequence[str], saltenv: str = "base") -> list[Path | None]:
        return [self.fetch(path, saltenv) for path in paths]

    def contents(self, paths: Sequence[str], saltenv: str = "base") -> list[bytes | None]:
        return read_each(self.fetch_all(paths, saltenv))

    def distant(self, path: str, saltenv: str = "base") -> Distant | None:
        return None

    def entries(self, saltenv: str = "base", prefix: str = "") -> list[FileEntry]:
        paths = sorted(path for path in self.roots.get(saltenv, {}) if path.startswith(prefix))
        return [found for path in paths if (found := self.entry(path, saltenv))]

    def folders(self, saltenv: str = "base", prefix: str = "") -> list[str]:
        return []

    def environments(self) -> list[str]:
        return sorted(self.roots)


@dataclass
class RecordingHost:
    """A host that writes down what it is told."""

    conf_dir: Path
    cache_dir: Path
    pillar: dict[str, Any] = field(default_factory=dict)
    steps: list[dict[str, Any]] = field(default_factory=list)
    events: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    fresh_grains: dict[str, Any] = field(default_factory=dict)
    synced: list[str] = field(default_factory=list)

    def boot_id(self) -> str:
        return "boot"

    def agent_session(self) -> str:
        return ""

    def arm_reboot(self, request: RebootRequest) -> bool:
        return False

    def reboot_command(self) -> list[str]:
        return ["false"]

    def compile_pillar(
        self, override: Mapping[str, Any] | None = None, pillarenv: str = ""
    ) -> dict[str, Any]:
        return {**self.pillar, **(override or {})}

    def collect_grains(self) -> dict[str, Any]:
        return self.fresh_grains

    def fire(self, tag: str, data: Mapping[str, Any]) -> bool:
        self.events.append((tag, data))
        return True

    def progress(self, kind: str, data: dict[str, Any]) -> None:
        self.steps.append(data)

    def show_output(self) -> None:
        """Nobody watches."""

    def listen(self) -> None:
        return None

    def ask_master(self, call: Any) -> Any:
        raise AssertionError(call)

    def push(self, path: str, source: Path) -> None:
        raise AssertionError(path)

    def running(self) -> list[dict[str, Any]]:
        return []

    def settle(self) -> None:
        """As Host: nothing is on its way."""

    def signal_job(self, jid: str, signal: int) -> str:
        return "no such job"

    def sync(
        self,
        kind: str,
        saltenv: str = "base",
        only: Sequence[str] | None = None,
        never: Sequence[str] = (),
    ) -> list[str]:
        self.synced.append(kind)
        return []


@dataclass
class Fakes:
    """Execution functions that write down their calls: what a test's states and conditions use."""

    calls: list[tuple[str, Any]] = field(default_factory=list)
    #: What cmd.retcode answers, by command; anything else is run by nobody and answers 0.
    retcodes: dict[str, int] = field(default_factory=lambda: {"false": 1, "true": 0})

    def plugins(self, prefix: str) -> dict[str, Plugin] | None:
        if prefix not in ("cmd", "probe"):
            return None
        return {
            name: Plugin(name, call, FunctionMark(name.partition(".")[2]))
            for name, call in self._functions().items()
            if name.startswith(f"{prefix}.")
        }

    def _functions(self) -> dict[str, Callable[..., Any]]:
        def retcode(context: Context, cmd: str, **kwargs: Any) -> int:
            self.calls.append((cmd, kwargs))
            return self.retcodes.get(cmd, 0)

        def answer(context: Context, value: Any, times: int = 1) -> Any:
            self.calls.append(("answer", value))
            return value

        def options(context: Context, first: str, *rest: str, **named: Any) -> Any:
            return {"first": first, "rest": list(rest), "named": named}

        def boom(context: Context) -> None:
            raise ValueError("boom")

        return {
            "cmd.retcode": retcode,
            "probe.answer": answer,
            "probe.options": options,
            "probe.boom": boom,
        }


@dataclass
class World:
    """One minion with its file roots."""

    context: Context
    host: RecordingHost
    fakes: Fakes

    def call(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        """Call an execution function as a job does."""
        return self.context.call(name, *args, **kwargs)

    def apply(self, mods: str = "t", **options: Any) -> Any:
        """Run SLS files and return the answer."""
        return self.context.call("state.apply", mods, **options)

    def ran(self, mods: str = "t", **options: Any) -> dict[str, dict[str, Any]]:
        """Run SLS files; return the rows by id (or key, where one id has many), in their order."""
        answer = self.apply(mods, **options)
        assert isinstance(answer, dict), answer
        rows: dict[str, dict[str, Any]] = {}
        for key, row in answer.items():
            id_ = key.split("_|-")[1]
            rows[key if id_ in rows else id_] = row
        assert [row["__run_num__"] for row in rows.values()] == list(range(len(rows)))
        return rows

    def faults(self, mods: str = "t", **options: Any) -> list[str]:
        """Try to run SLS files that can't be run; return why."""
        answer = self.apply(mods, **options)
        assert isinstance(answer, list), answer
        return answer


MakeWorld = Callable[..., World]


@pytest.fixture
def world(tmp_path: Path) -> MakeWorld:
    """Return a maker of worlds: `world("sls text", other="sls text", **settings)`.

    `files` gives more paths, `roots` whole environments, `opts`, `grains` and `pillar` the rest.
    """

    def make(
        text: str = "",
        *,
        files: Mapping[str, str] | None = None,
        roots: Mapping[str, Mapping[str, str]] | None = None,
        opts: Mapping[str, Any] | None = None,
        grains: Mapping[str, Any] | None = None,
        pillar: Mapping[str, Any] | None = None,
    ) -> World:
        base = {"t.sls": text, **(files or {})}
        trees = {env: dict(tree) for env, tree in (roots or {"base": base}).items()}
        host = RecordingHost(tmp_path / "conf", tmp_path / "cache", dict(pillar or {}))
        fakes = Fakes()
        context = Context(
            opts={**DEFAULTS, "cachedir": str(tmp_path / "cache"), **(opts or {})},
            grains=dict(grains or {}),
            pillar=host.pillar,
            functions=Registry("function", state_functions.INDEX, FunctionMark, fakes.plugins),
            states=Registry("state", states.INDEX, StateMark),
            files=MemoryFiles(trees, host.cache_dir / "files"),
            host=host,
        )
        return World(context, host, fakes)

    return make
