"""Files of apt sources in stanzas (`.sources`, the format deb822)."""

from __future__ import annotations

from itertools import product
from typing import Dict, List, Optional, Sequence, Tuple

from catena.core.patterns import lazy_pattern
from catena.modules.pkg.repos.apt_source import KINDS, AptSource, PlacedSource, line_of

#: Fields by the option of a one-line source with the same meaning.
_FIELDS = {
    "arch": "Architectures",
    "lang": "Languages",
    "target": "Targets",
    "pdiffs": "PDiffs",
    "by-hash": "By-Hash",
    "allow-insecure": "Allow-Insecure",
    "allow-weak": "Allow-Weak",
    "allow-downgrade-to-insecure": "Allow-Downgrade-To-Insecure",
    "trusted": "Trusted",
    "signed-by": "Signed-By",
    "check-valid-until": "Check-Valid-Until",
    "valid-until-min": "Valid-Until-Min",
    "valid-until-max": "Valid-Until-Max",
    "check-date": "Check-Date",
    "date-max-future": "Date-Max-Future",
    "inrelease-path": "InRelease-Path",
    "snapshot": "Snapshot",
}
#: Options whose values are lists: separated by commas in a line, by blanks in a field.
_LISTS = ("arch", "lang", "target")
_FIELD = lazy_pattern(r"([^\s:#][^:\n]*?)[ \t]*:[ \t]*(.*)\Z", 16)  # re.DOTALL
_NO = ("no", "false", "without", "off", "disable", "0")


class Stanza:
    """One block of lines `Name: value`; lines that do not change stay as they are."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = [line if line.endswith("\n") else f"{line}\n" for line in lines]

    def copy(self) -> Stanza:
        """Return a stanza with the same lines."""
        return Stanza(self._lines)

    def get(self, name: str) -> Optional[str]:
        """Return the value of a field, without the blanks around it, or None."""
        for known, value, _, _ in self._fields():
            if known.lower() == name.lower():
                return value
        return None

    def words(self, name: str) -> Tuple[str, ...]:
        """Return the words of a field; () without the field."""
        return tuple((self.get(name) or "").split())

    def set(self, name: str, value: Optional[str]) -> None:
        """Set a field to a value of one line, or remove it."""
        lines = [] if value is None else [f"{name}: {value}\n"]
        for known, present, start, end in self._fields():
            if known.lower() == name.lower():
                if value is None or present.split() != value.split():
                    self._lines[start:end] = lines
                return
        self._lines += lines

    def comment(self) -> str:
        """Return the comment before the first field, in one line."""
        head = self._lines[: self._head()]
        return " ".join(line.lstrip("#").strip() for line in head).strip()

    def set_comment(self, text: str) -> None:
        """Replace the comment before the first field."""
        self._lines[: self._head()] = [f"# {text}\n"] if text else []

    def text(self) -> str:
        """Return the lines as one text."""
        return "".join(self._lines)

    def _head(self) -> int:
        count = 0
        while count < len(self._lines) and self._lines[count].startswith("#"):
            count += 1
        return count

    def _fields(self) -> List[Tuple[str, str, int, int]]:
        """Return name, value, first line and line after the last one of each field."""
        found: List[Tuple[str, str, int, int]] = []
        number = 0
        while number < len(self._lines):
            match = _FIELD.match(self._lines[number])
            start, number = number, number + 1
            if match is None:
                continue
            value = [match[2]]
            end = number
            while number < len(self._lines) and self._lines[number][:1] in (" ", "\t", "#"):
                if not self._lines[number].startswith("#"):
                    value.append(self._lines[number])
                    end = number + 1
                number += 1
            number = end
            found.append((match[1], "".join(value).strip(), start, end))
        return found


def _source_options(stanza: Stanza) -> Tuple[Tuple[str, str], ...]:
    found: Dict[str, str] = {}
    for option, name in _FIELDS.items():
        value = stanza.get(name)
        if value:
            found[option] = ",".join(value.split()) if option in _LISTS else value
    return tuple(found.items())


def _fill(stanza: Stanza, source: AptSource) -> None:
    """Set the fields of a stanza that differ from *source*."""
    stanza.set("Types", source.kind)
    stanza.set("URIs", source.uri)
    stanza.set("Suites", source.suite)
    stanza.set("Components", " ".join(source.comps) or None)
    options = dict(source.options)
    present = dict(_source_options(stanza))
    for option, name in _FIELDS.items():
        value = options.get(option)
        if value != present.get(option):
            joint = value.replace(",", " ") if value and option in _LISTS else value
            stanza.set(name, joint)
    enabled = (stanza.get("Enabled") or "yes").lower() not in _NO
    if enabled is source.disabled:
        stanza.set("Enabled", "no" if source.disabled else "yes")
    if stanza.comment() != source.comment:
        stanza.set_comment(source.comment)


class StanzaText:
    """The text of a `.sources` file."""

    def __init__(self, text: str) -> None:
        #: Stanzas, and the blank lines between them.
        self._blocks: List[object] = []
        lines: List[str] = []
        for line in text.splitlines(keepends=True):
            if line.strip():
                lines.append(line)
                continue
            self._close(lines)
            lines = []
            self._blocks.append(line)
        self._close(lines)

    def _close(self, lines: List[str]) -> None:
        if lines:
            self._blocks.append(Stanza(lines))

    def sources(self) -> List[PlacedSource]:
        """Return every type, address and suite of each stanza, in their order."""
        return [
            one
            for place, block in enumerate(self._blocks)
            if isinstance(block, Stanza)
            for one in _placed(block, place)
        ]

    def put(self, old: PlacedSource, new: Optional[AptSource]) -> None:
        """Replace one type, address and suite of a stanza; None removes it.

        A stanza that holds others is divided, so that the others stay as they are.
        """
        stanza = self._blocks[old.place]
        if not isinstance(stanza, Stanza):
            raise IndexError(old.place)
        made = _rest(stanza, old)
        if new is not None:
            chosen = stanza.copy()
            _fill(chosen, new)
            made.insert(0, chosen)
        blocks: List[object] = []
        for one in made:
            blocks += [*(["\n"] if blocks else []), one]
        self._blocks[old.place : old.place + 1] = blocks

    def add(self, new: AptSource) -> None:
        """Append a source as a stanza of its own."""
        stanza = Stanza([])
        _fill(stanza, new)
        if self._blocks and isinstance(self._blocks[-1], Stanza):
            self._blocks.append("\n")
        self._blocks.append(stanza)

    def text(self) -> str:
        """Return the text as it is to be written."""
        return "".join(
            block.text() if isinstance(block, Stanza) else str(block) for block in self._blocks
        )


def _placed(stanza: Stanza, place: int) -> List[PlacedSource]:
    types, uris, suites = (stanza.words(name) for name in ("Types", "URIs", "Suites"))
    comps, options, comment = stanza.words("Components"), _source_options(stanza), stanza.comment()
    disabled = (stanza.get("Enabled") or "yes").lower() in _NO
    found = []
    for kind, uri, suite in product(types, uris, suites):
        if kind in KINDS:
            source = AptSource(kind, uri, suite, comps, options, disabled, comment)
            line = line_of(source.__class__(kind, uri, suite, comps, options, disabled))
            found.append(PlacedSource(source, place, line, types, uris, suites))
    return found


def _rest(stanza: Stanza, old: PlacedSource) -> List[Stanza]:
    """Return stanzas with everything that *stanza* holds except one type, address and suite."""
    source = old.source
    kinds = tuple(one for one in old.types if one != source.kind)
    uris = tuple(one for one in old.uris if one != source.uri)
    suites = tuple(one for one in old.suites if one != source.suite)
    parts = (
        (kinds, old.uris, old.suites),
        ((source.kind,), uris, old.suites),
        ((source.kind,), (source.uri,), suites),
    )
    found = []
    for part in parts:
        if all(part):
            made = stanza.copy()
            for name, words in zip(("Types", "URIs", "Suites"), part):
                made.set(name, " ".join(words))
            found.append(made)
    return found
