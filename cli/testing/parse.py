"""Reading of test files: YAML in, records out, errors with file and line."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Type

from catena.cli.testing.model import (
    KINDS,
    UNSET,
    Expectations,
    KitFile,
    KitTest,
    StateExpectation,
)
from catena.cli.testing.systems import SYSTEMS
from catena.core.errors import LimitError, RenderError, UsageError
from catena.core.files import read_limited
from catena.core.suggest import unknown
from catena.core.types import SourceLine
from catena.renderers.source import LineMap, Rendered, decoded

#: Ends of the names of test files.
SUFFIXES = ("_test.yaml", "_test.yml")
#: Folders that are not searched for test files.
_SKIPPED = frozenset({"node_modules", "__pycache__"})
FILE_LIMIT = 4 * 1024 * 1024
TESTS_LIMIT = 10_000

_FILE_KEYS = ("config", "file_roots", "pillar_roots", "tests", "system", "grains", "pillar")
_EXPECTED = {
    "sls": ("states", "only", "in_order", "count", "error"),
    "state": ("result", "changes", "comment", "error"),
    "call": ("value", "error"),
    "grain": ("value",),
}
_GIVEN = ("name", "system", "grains", "pillar", "functions", "arguments")
_STATE_KEYS = ("id", "function", "arguments", "absent")


def files_below(folder: Path) -> List[Path]:
    """Return the test files below *folder*, sorted; hidden folders are not searched.

    Raises:
        UsageError: *folder* does not exist, or has no test file.
    """
    if folder.is_file():
        return [folder]
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder")
    found = sorted(_walk(folder))
    if not found:
        raise UsageError(f"{folder}: no test files; their names end with {SUFFIXES[0]}")
    return found


def _walk(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.name.startswith(".") or path.name in _SKIPPED:
            continue
        if path.is_dir() and not path.is_symlink():
            yield from _walk(path)
        elif path.name.endswith(SUFFIXES):
            yield path


def read(path: Path) -> KitFile:
    """Return the tests in one file.

    Raises:
        UsageError: the file can't be read or is malformed; names file and line.
    """
    from catena.renderers import yaml

    try:
        text = decoded(read_limited(path, FILE_LIMIT), str(path))
        rendered = yaml.load_rendered(text, str(path), text, LineMap())
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except (RenderError, LimitError) as error:
        raise UsageError(str(error)) from None
    top = _Node(rendered, ())
    top.check(_FILE_KEYS)
    tests = top.sub("tests")
    if tests is None:
        raise top.error("the file has no `tests`")
    base = path.parent.parent if path.parent.name == "tests" else path.parent
    found = [_test(one, top) for one in tests.items()]
    if len(found) > TESTS_LIMIT:
        raise tests.error(f"more than {TESTS_LIMIT} tests")
    return KitFile(
        str(path),
        _folders(top, "file_roots", path) or (str(base),),
        _folders(top, "pillar_roots", path),
        top.mapping("config"),
        tuple(found),
    )


def _folders(top: _Node, key: str, path: Path) -> Tuple[str, ...]:
    node = top.sub(key)
    found = []
    for one in node.items() if node else ():
        folder = path.parent / one.value(str, "a folder")
        if not folder.is_dir():
            raise one.error(f"{folder}: no such folder")
        found.append(str(folder.resolve()))
    return tuple(found)


def _test(node: _Node, top: _Node) -> KitTest:
    given = node.value(dict, "a mapping")
    kinds = [kind for kind in KINDS if kind in given]
    if len(kinds) != 1:
        node.check((*_GIVEN, *KINDS, *(key for keys in _EXPECTED.values() for key in keys)))
        raise node.error(f"a test has exactly one of {', '.join(KINDS)}")
    kind = kinds[0]
    node.check((*_GIVEN, kind, *_EXPECTED[kind]))
    target = given[kind]
    if not isinstance(target, str) and not (kind == "sls" and isinstance(target, list)):
        raise node.at(kind).error(f"expected {'a name or a list' if kind == 'sls' else 'a name'}")
    args, kwargs = _arguments(node, kind)
    names = target if isinstance(target, str) else ", ".join(map(str, target))
    return KitTest(
        name=node.text("name") or f"{kind} {names}",
        kind=kind,
        target=target,
        args=args,
        kwargs=kwargs,
        grains={
            **_system(top),
            **top.mapping("grains"),
            **_system(node),
            **node.mapping("grains"),
        },
        pillar={**top.mapping("pillar"), **node.mapping("pillar")},
        answers=node.mapping("functions"),
        expected=_expectations(node),
        place=node.place,
        lines={key: node.at(key).place for key in given},
    )


def _system(node: _Node) -> Mapping[str, Any]:
    name = node.text("system")
    if name and name not in SYSTEMS:
        raise node.at("system").error(unknown("system", name, SYSTEMS, few=True))
    return SYSTEMS[name] if name else {}


def _arguments(node: _Node, kind: str) -> Tuple[Tuple[Any, ...], Mapping[str, Any]]:
    given = node.at("arguments").data if "arguments" in node.data else {}
    if kind in ("sls", "grain") and given:
        raise node.at("arguments").error(f"a test of `{kind}` takes no arguments")
    if isinstance(given, list) and kind == "call":
        return tuple(given), {}
    if not isinstance(given, dict):
        raise node.at("arguments").error("expected a mapping" + " or a list" * (kind == "call"))
    return (), given


def _expectations(node: _Node) -> Expectations:
    states = node.sub("states")
    data = node.data
    count = data.get("count")
    if count is not None and (not isinstance(count, int) or isinstance(count, bool)):
        raise node.at("count").error("expected a number")
    return Expectations(
        states=tuple(_state(one) for one in (states.items() if states else ())),
        only=node.flag("only"),
        in_order=node.flag("in_order"),
        count=count,
        error=node.text("error") if "error" in data else None,
        value=data.get("value", UNSET),
        result=data.get("result", UNSET),
        changes=data.get("changes", UNSET),
        comment=node.text("comment"),
    )


def _state(node: _Node) -> StateExpectation:
    node.value(dict, "a mapping")
    node.check(_STATE_KEYS)
    if not node.text("id"):
        raise node.error("a state needs an `id`")
    arguments = node.sub("arguments")
    expected: Dict[str, Tuple[Any, SourceLine]] = {}
    for key, value in node.mapping("arguments").items():
        assert arguments is not None
        expected[str(key)] = (value, arguments.at(key).place)
    return StateExpectation(
        node.text("id"), node.text("function"), expected, node.flag("absent"), node.place
    )


class _Node:
    """A part of a test file, which knows its place."""

    def __init__(self, rendered: Rendered, path: Tuple[Any, ...]) -> None:
        self._rendered = rendered
        self._path = path
        self.data: Any = rendered.data
        for step in path:
            self.data = self.data[step]

    @property
    def place(self) -> SourceLine:
        """Where it is written."""
        return self._rendered.place(*self._path)

    def error(self, reason: str) -> UsageError:
        """Return an error that names the place."""
        return UsageError(f"{self.place}: {reason}")

    def at(self, step: Any) -> _Node:
        """Return what is below a key or position."""
        return _Node(self._rendered, (*self._path, step))

    def value(self, kind: Type[Any], words: str) -> Any:
        """Return the data, of the given type."""
        if not isinstance(self.data, kind):
            raise self.error(f"expected {words}, got {_kind(self.data)}")
        return self.data

    def check(self, known: Sequence[str]) -> None:
        """Refuse keys that are not known."""
        for key in self.value(dict, "a mapping"):
            if key not in known:
                raise self.at(key).error(unknown("key", str(key), known))

    def sub(self, key: str) -> Optional[_Node]:
        """Return what is below *key*, or None."""
        return self.at(key) if self.data.get(key) is not None else None

    def items(self) -> Iterator[_Node]:
        """Yield the parts of a list."""
        return (self.at(index) for index in range(len(self.value(list, "a list"))))

    def mapping(self, key: str) -> Mapping[str, Any]:
        """Return the mapping below *key*; empty if the key is missing."""
        found: Mapping[str, Any] = self._typed(key, dict, "a mapping", dict)
        return found

    def text(self, key: str) -> str:
        """Return the text below *key*; "" if the key is missing."""
        return str(self._typed(key, str, "a text", str))

    def flag(self, key: str) -> bool:
        """Return whether *key* is true."""
        return bool(self._typed(key, bool, "true or false", bool))

    def _typed(self, key: str, kind: Type[Any], words: str, empty: Callable[[], Any]) -> Any:
        node = self.sub(key)
        return empty() if node is None else node.value(kind, words)


def _kind(data: Any) -> str:
    names = {dict: "a mapping", list: "a list", str: "a text", type(None): "nothing"}
    return names.get(type(data), f"{data!r}")
