"""A text to render, what it rendered to, and the errors that name its lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Sequence, Tuple

from catena.core.errors import LimitError, RenderError
from catena.core.frozen import dataclass, field
from catena.core.patterns import lazy_pattern
from catena.core.types import SourceLine

if TYPE_CHECKING:
    from catena.core.context import Context

#: Where a key or item lies in rendered data: mapping keys and list positions from the top.
DataPath = Tuple[Any, ...]

EXCERPT_BEFORE = 3
EXCERPT_AFTER = 2
_EXCERPT_WIDTH = 200
#: Maximum number of includes that an error lists: a file that includes itself has many.
_STEPS = 10
#: The #! line of a file whose first renderer is msgpack.
_PACKED = lazy_pattern(rb"#!\s*msgpack\b")


@dataclass(frozen=True)
class Source:
    """One text that a person wrote."""

    text: str
    #: As the person knows it, for messages: salt://app/init.sls or /etc/catena/minion.
    name: str
    saltenv: str = "base"
    #: Dotted name when it is an SLS file; "" otherwise.
    sls: str = ""
    #: Path below the file roots (app/init.sls); "" for texts that lie in none.
    path: str = ""


@dataclass(frozen=True)
class Rendered:
    """What a source rendered to."""

    data: Any
    #: Line of the source (counted from 1) of every mapping key and list item, by its path.
    lines: Mapping[DataPath, int] = field(default_factory=dict)
    #: Source.name, for SourceLine.
    name: str = ""

    def place(self, *path: Any) -> SourceLine:
        """Return where *path* (or the nearest thing above it) was written; its begin without."""
        if not path:
            return SourceLine(self.name, min(self.lines.values(), default=1))
        for length in range(len(path), 0, -1):
            line = self.lines.get(path[:length])
            if line:
                return SourceLine(self.name, line)
        return SourceLine(self.name)


class SourceError(RenderError):
    """A text can't be rendered; the message says where and shows the lines.

    Args:
        reason: what is wrong, without the place.
        place: where it is wrong.
        chain: how that place was reached, innermost first ("imported by", "included by").
        text: the whole text of the file of *place*, for the excerpt.
        note: one more line below the excerpt.
    """

    def __init__(
        self,
        reason: str,
        place: SourceLine,
        text: str = "",
        chain: Sequence[SourceLine] = (),
        note: str = "",
    ) -> None:
        self.reason = reason
        self.place = place
        self.text = text
        self.chain = tuple(chain)
        self.note = note
        parts = [f"{reason}; {place}", *(f"  reached from {step}" for step in chain[:_STEPS])]
        if len(chain) > _STEPS:
            parts.append(f"  and so on, {len(chain) - _STEPS} steps more")
        parts += excerpt(text, place.line)
        if note:
            parts.append(note)
        super().__init__("\n".join(parts))

    def told_as(self, words: str) -> SourceError:
        """Return the error with *words* before its reason: users' tools look for them."""
        reason = f"{words}: {self.reason}"
        return type(self)(reason, self.place, self.text, self.chain, self.note)

    def reached(self, steps: Sequence[SourceLine]) -> SourceError:
        """Return the error with more of the includes that led to it, nearest first."""
        return type(self)(self.reason, self.place, self.text, (*self.chain, *steps), self.note)


class SourceLimitError(SourceError, LimitError):
    """A text is larger, deeper or slower than its limit allows."""


class UndefinedNameError(SourceError):
    """A template uses a name that has no value."""


class TemplateSyntaxFaultError(SourceError):
    """A template breaks the grammar of its engine."""


class TemplateFaultError(SourceError):
    """Something failed while a template was rendered."""


class YamlFaultError(SourceError):
    """A text is not the YAML that it should be."""


class DuplicateKeyError(YamlFaultError):
    """A mapping has one key twice."""


def decoded(data: bytes, name: str) -> str:
    """Return the text of a file called *name*.

    Bytes of a `#!msgpack` file that are no UTF-8 become lone surrogates, which that renderer
    turns into bytes again.

    Raises:
        SourceError: it is not UTF-8; with the line.
    """
    try:
        return data.decode("utf-8", "surrogateescape" if _PACKED.match(data) else "strict")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        wrong = f"byte 0x{data[error.start]:02x} at position {error.start}"
        text = data.decode("utf-8", "replace")
        raise SourceError(f"not UTF-8: {wrong}", SourceLine(name, line), text) from None


def excerpt(text: str, line: int) -> List[str]:
    """Return the lines around *line* (counted from 1) of *text*, numbered, with a mark."""
    lines = text.splitlines()
    if not 0 < line <= len(lines):
        return []
    first = max(1, line - EXCERPT_BEFORE)
    last = min(len(lines), line + EXCERPT_AFTER)
    width = len(str(last))
    shown = []
    for number in range(first, last + 1):
        mark = ">" if number == line else " "
        shown.append(f"{mark} {number:>{width}} | {lines[number - 1][:_EXCERPT_WIDTH]}".rstrip())
    return shown


@dataclass(frozen=True)
class LineMap:
    """Which line of the source each line of a rendered text came from."""

    #: Source line of rendered line i + 1; empty: they are the same.
    lines: Tuple[int, ...] = ()

    def __call__(self, rendered: int) -> int:
        """Return the source line of a rendered line, both counted from 1."""
        if not self.lines:
            return rendered
        return self.lines[min(max(rendered, 1), len(self.lines)) - 1]


def plain(data: Mapping[str, Any]) -> Dict[str, Any]:
    """Return a mapping as a dict, which templates can print and copy."""
    return data if isinstance(data, dict) else dict(data)


def template_options(context: Context) -> Dict[str, Any]:
    """Return what a template sees as `opts`: the configuration, and in it grains and pillar."""
    return {
        **context.opts,
        "grains": plain(context.grains),
        "pillar": plain(context.pillar),
    }


def template_variables(path: str) -> Dict[str, str]:
    """Return the names that a template of the file roots has for its own place."""
    bare = path[len("salt://") :] if path.startswith("salt://") else path
    folder = bare.rpartition("/")[0]
    return {
        "tpldir": folder or ".",
        "tplfile": bare,
        "tpldot": folder.replace("/", "."),
        "tplpath": f"salt://{bare}",
    }


def sls_variables(source: Source) -> Dict[str, str]:
    """Return the names that an SLS file has for its own place (Salt's; case `slsvars/*`)."""
    folder, _, file = source.path.rpartition("/")
    sls_path = folder
    if source.sls and not source.path:
        sls_path = source.sls.replace(".", "/").rpartition("/")[0]
    return {
        "sls": source.sls,
        "slspath": sls_path,
        "sls_path": sls_path.replace("/", "_"),
        "slsdotpath": sls_path.replace("/", "."),
        "slscolonpath": sls_path.replace("/", ":"),
        "tpldir": folder or ".",
        "tplfile": source.path or file,
        "tpldot": folder.replace("/", "."),
        "tplpath": source.name,
    }
