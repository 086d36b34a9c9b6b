"""One package source of apt, and its form in one line: `deb [options] URI SUITE COMPONENTS`."""

from __future__ import annotations

from typing import Dict, List, Optional, Protocol, Sequence, Tuple

from catena.core.errors import UsageError
from catena.core.frozen import dataclass, replace
from catena.core.patterns import lazy_pattern

KINDS = ("deb", "deb-src")
#: A word may contain blanks in brackets: `cdrom:[Debian 12 amd64]/`.
_WORD = lazy_pattern(r"(?:[^\s\[\]#]|(?<=\S)#|\[[^\]\n]*\])+")
_HEAD = lazy_pattern(
    r"\s*(?P<off>#[#\s]*)?(?P<kind>deb|deb-src)\s+(?:\[(?P<options>[^\]\n]*)\]\s+)?(?P<rest>\S.*)\Z"
)
_OPTION = lazy_pattern(r"([A-Za-z][A-Za-z-]*)[+-]?=(\S+)\Z")


@dataclass(frozen=True)
class AptSource:
    """One type, address and suite with its components."""

    kind: str
    uri: str
    suite: str
    comps: Tuple[str, ...] = ()
    #: Options in their order, by their names in a one-line source (`arch`, `signed-by`).
    options: Tuple[Tuple[str, str], ...] = ()
    disabled: bool = False
    comment: str = ""

    def option(self, name: str) -> str:
        """Return the value of an option, or ""."""
        return dict(self.options).get(name, "")

    def architectures(self) -> List[str]:
        """Return the architectures that the source is limited to."""
        return [word for word in self.option("arch").split(",") if word]


@dataclass(frozen=True)
class PlacedSource:
    """A source in a file."""

    source: AptSource
    #: Index of the line or of the stanza.
    place: int
    #: The line as written; for a stanza, the equivalent line.
    line: str
    #: All types, addresses and suites of the stanza.
    types: Tuple[str, ...]
    uris: Tuple[str, ...]
    suites: Tuple[str, ...]


class SourcesText(Protocol):
    """The text of a file of sources."""

    def sources(self) -> List[PlacedSource]:
        """Return the sources in their order."""

    def put(self, old: PlacedSource, new: Optional[AptSource]) -> None:
        """Replace a source; None removes it. Places change."""

    def add(self, new: AptSource) -> None:
        """Append a source."""

    def text(self) -> str:
        """Return the text as it is to be written."""


def parse_line(line: str) -> Optional[AptSource]:
    """Return the source in a line, a commented out one as disabled; None if there is none."""
    head = _HEAD.match(line.strip())
    if head is None:
        return None
    body, _, comment = _split_comment(head["rest"])
    words = _WORD.findall(body)
    if len(words) < 2 or " ".join(words) != " ".join(body.split()) or ":" not in words[0]:
        return None
    options = _options(head["options"] or "")
    if options is None:
        return None
    kind, comps = head["kind"], tuple(words[2:])
    return AptSource(kind, words[0], words[1], comps, options, bool(head["off"]), comment)


def _split_comment(text: str) -> Tuple[str, str, str]:
    """Return the text before a comment, the mark, and the comment."""
    for position, char in enumerate(text):
        if char == "#" and text[:position][-1:].isspace():
            return text[:position].strip(), "#", text[position + 1 :].strip()
    return text.strip(), "", ""


def _options(text: str) -> Optional[Tuple[Tuple[str, str], ...]]:
    found: Dict[str, str] = {}
    for word in text.split():
        match = _OPTION.match(word)
        if match is None:
            return None
        name, _, value = word.partition("=")
        found[name.lower()] = value
    return tuple(found.items())


def line_of(source: AptSource) -> str:
    """Return a source as one line.

    Options whose values need several lines, such as a key in a stanza, are left out.
    """
    options = [f"{name}={value}" for name, value in source.options if not _spaced(value)]
    parts = [
        *(["#"] if source.disabled else []),
        source.kind,
        *([f"[{' '.join(options)}]"] if options else []),
        source.uri,
        source.suite,
        *source.comps,
        *([f"#{source.comment}"] if source.comment else []),
    ]
    return " ".join(parts)


def _spaced(value: str) -> bool:
    return any(char.isspace() for char in value)


def named_source(text: str) -> AptSource:
    """Return the source that a user names.

    Raises:
        UsageError: *text* is no line of sources.list.
    """
    found = parse_line(text)
    if found is None or "\n" in text.strip():
        raise UsageError(
            f"Name {text[:200]} is not valid. This must be the complete repo entry as seen in the "
            "sources file: deb [OPTION=VALUE …] URI SUITE COMPONENT …"
        )
    return found


def checked_source(source: AptSource) -> AptSource:
    """Return *source* if apt can read it.

    Raises:
        UsageError: a part contains blanks or marks of another part, or the components are missing.
    """
    options = tuple((name, value) for name, value in source.options if not _spaced(value))
    plain = replace(source, comment="", options=options)
    if parse_line(line_of(plain)) != plain or "\n" in source.comment:
        raise UsageError(f"{line_of(source)[:200]!r} can't be written as one line of sources.list")
    if bool(source.comps) is source.suite.endswith("/"):
        needs = "takes no component" if source.comps else "needs a component, such as main"
        raise UsageError(f"{line_of(source)[:200]!r}: the suite {source.suite} {needs}")
    return source


def same_repository(one: AptSource, two: AptSource) -> bool:
    """Return whether two sources are the same type, address and suite, with a common component."""
    alike = (
        one.kind == two.kind
        and one.uri.rstrip("/") == two.uri.rstrip("/")
        and one.suite == two.suite
    )
    return alike and (not one.comps or not two.comps or bool({*one.comps} & {*two.comps}))


def equivalent(one: AptSource, two: AptSource) -> bool:
    """Return whether apt reads the same in two sources; comments are not compared."""
    return (
        one.disabled == two.disabled
        and same_repository(one, two)
        and sorted(one.comps) == sorted(two.comps)
        and _compared_options(one) == _compared_options(two)
    )


def _compared_options(source: AptSource) -> Dict[str, List[str]]:
    return {name: sorted(value.split(",")) for name, value in source.options}


def in_plain_form(source: AptSource) -> bool:
    """Return whether the options are those and in the order in which Salt itself writes them."""
    names = [name for name, _ in source.options]
    return names == [name for name in ("arch", "signed-by") if name in names]


class OneLineText:
    """The text of sources.list or of a `.list` file; lines that do not change stay as they are."""

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines(keepends=True)

    def sources(self) -> List[PlacedSource]:
        """Return the sources in their order."""
        found = []
        for place, line in enumerate(self._lines):
            source = parse_line(line)
            if source is not None:
                found.append(PlacedSource(source, place, line.strip(), (source.kind,),
                                          (source.uri,), (source.suite,)))  # fmt: skip
        return found

    def put(self, old: PlacedSource, new: Optional[AptSource]) -> None:
        """Replace a source; None removes it."""
        self._lines[old.place : old.place + 1] = [] if new is None else [f"{line_of(new)}\n"]

    def add(self, new: AptSource) -> None:
        """Append a source."""
        if self._lines and not self._lines[-1].endswith("\n"):
            self._lines[-1] += "\n"
        self._lines.append(f"{line_of(new)}\n")

    def text(self) -> str:
        """Return the text as it is to be written."""
        return "".join(self._lines)


def best_match(wanted: AptSource, among: Sequence[PlacedSource]) -> Optional[PlacedSource]:
    """Return the source that is the wanted repository, or None.

    Of several, one with the same architectures is preferred, then one that is not disabled.
    """
    found = [one for one in among if same_repository(one.source, wanted)]
    architectures = sorted(wanted.architectures())

    def rank(one: PlacedSource) -> Tuple[bool, bool]:
        return sorted(one.source.architectures()) == architectures, not one.source.disabled

    return max(found, key=rank) if found else None
