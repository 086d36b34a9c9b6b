"""Lines of /etc/fstab: parse, compare and replace them; fstab(5) describes the format."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, List, Mapping, Optional, Sequence, Tuple

from catena.core import frozen
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass
from catena.core.redact import MASK, is_secret_name
from catena.core.suggest import nearest

#: Maximum size of a table of file systems, in bytes.
_LIMIT = 1024 * 1024
_OCTAL = re.compile(r"\\([0-7]{3})")
#: Characters that end a field, and the backslash.
_ESCAPED = {" ": r"\040", "\t": r"\011", "\\": r"\134"}
#: File systems that are found by their mount point, because several may have one device.
_BY_NAME = frozenset(
    {
        *("none", "tmpfs", "sysfs", "proc", "fusectl", "debugfs", "securityfs", "devtmpfs"),
        *("cgroup", "nfs", "nfs4", "glusterfs", "btrfs", "ceph"),
    }
)
#: Results of `with_entry`.
NEW, CHANGE, PRESENT = "new", "change", "present"


@dataclass(frozen=True)
class FstabLine:
    """One line of the table; no text is escaped."""

    device: str
    #: Mount point.
    name: str
    fstype: str
    opts: Tuple[str, ...] = ("defaults",)
    dump: str = "0"
    pass_num: str = "0"

    def line(self) -> str:
        """Return the line without its end."""
        words = [_escaped(one) for one in (self.device, self.name, self.fstype)]
        opts = _escaped(",".join(self.opts)) or "defaults"
        return f"{words[0]}\t\t{words[1]}\t{words[2]}\t{opts}\t{self.dump} {self.pass_num}"

    def same(self, other: FstabLine) -> bool:
        """Return whether both describe the same mount; the order of options has no meaning."""
        return frozen.replace(self, opts=tuple(sorted(self.opts))) == frozen.replace(
            other, opts=tuple(sorted(other.opts))
        )


def unescaped(text: str) -> str:
    """Return *text* with its octal escapes decoded."""
    return _OCTAL.sub(lambda found: chr(int(found.group(1), 8)), text)


def _escaped(text: str) -> str:
    return "".join(_ESCAPED.get(mark, mark) for mark in text)


def _field(value: Any, what: str) -> str:
    r"""Return a field's text; "\ " and its octal escapes mean a space.

    Raises:
        UsageError: it is empty, or a line can't hold it.
    """
    text = unescaped(str(value).replace("\\ ", " "))
    if not text or any(mark in text for mark in "\r\n\0"):
        raise UsageError(f"{what}: {text[:80]!r} can't be a field of a table of file systems")
    if what == "device" and text.startswith("#"):
        raise UsageError(f"{what}: {text[:80]!r} would be a comment")
    return text


def options_of(value: Any) -> Tuple[str, ...]:
    """Return mount options, given as a list or as text with commas.

    Raises:
        UsageError: it is neither, or an option has a line break.
    """
    if value is None:
        return ()
    parts = value if isinstance(value, (list, tuple)) else [value]
    if not all(isinstance(one, (str, int, float)) for one in parts):
        raise UsageError("opts: expected a list of options or a text with commas")
    words = [word.strip() for one in parts for word in str(one).split(",")]
    return tuple(_field(word, "opts") for word in words if word)


def _number(value: Any, what: str) -> str:
    text = str(int(value) if isinstance(value, bool) else value).strip()
    if not text.isdigit() or len(text) > 3:
        raise UsageError(f"{what}: {text[:80]!r} is not a number")
    return text


def entry_of(
    name: Any, device: Any, fstype: Any, opts: Any = "defaults", dump: Any = 0, pass_num: Any = 0
) -> FstabLine:
    """Return the entry for the arguments of a state.

    Raises:
        UsageError: an argument can't be a field of a line.
    """
    return FstabLine(
        _field(device, "device"),
        _field(name, "name"),
        _field(fstype, "fstype"),
        options_of(opts) or ("defaults",),
        _number(dump, "dump"),
        _number(pass_num, "pass_num"),
    )


def parse(line: str) -> Optional[FstabLine]:
    """Return the entry of a line; None for a comment, an empty or a damaged line."""
    words = line.split()
    if not 4 <= len(words) <= 6 or words[0].startswith("#"):
        return None
    device, name, fstype, opts = (unescaped(word) for word in words[:4])
    return FstabLine(device, name, fstype, tuple(opts.split(",")), *words[4:])


def read(config: str) -> List[str]:
    """Return the lines of a table; one that does not exist has none.

    Raises:
        CommandExecutionError: it can't be read, or is too large.
    """
    path = Path(config)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as problem:
        raise CommandExecutionError(f"{config}: {problem.strerror}") from problem
    if len(data) > _LIMIT:
        raise CommandExecutionError(f"{config} is too large for a table of file systems")
    return data.decode("utf-8", "surrogateescape").splitlines()


def keys_of(match_on: Any, entry: FstabLine) -> Tuple[str, ...]:
    """Return the fields by which the line of an entry is found.

    Args:
        match_on: "auto", a field, or a list of fields.
        entry: with "auto", its type and options decide between mount point and device.

    Raises:
        UsageError: no such field.
    """
    if match_on == "auto":
        binds = {"bind", "rbind"} & set(entry.opts)
        return ("name",) if binds or entry.fstype in _BY_NAME else ("device",)
    keys = tuple(match_on) if isinstance(match_on, (list, tuple)) else (match_on,)
    names = [field.name for field in frozen.fields(FstabLine)]
    for key in keys:
        if key not in names:
            near = nearest(str(key), names)
            hint = f"; did you mean {near!r}?" if near else ""
            raise UsageError(f"match_on: {str(key)[:80]!r} is no field of a line{hint}")
    return keys


def with_entry(
    lines: Sequence[str], entry: FstabLine, keys: Sequence[str], *, keep: bool = False
) -> Tuple[List[str], str]:
    """Return the lines with an entry, and whether it is new, changed or present.

    Args:
        lines: of the table; comments and other entries stay where they are.
        entry: the wanted one.
        keys: fields by which its line is found. Of several such lines, the one with the same mount
            point is meant.
        keep: leave the line that is found as it is.
    """
    wanted = [getattr(entry, key) for key in keys]
    found = [
        (index, one)
        for index, line in enumerate(lines)
        for one in [parse(line)]
        if one is not None and [getattr(one, key) for key in keys] == wanted
    ]
    at_name = [pair for pair in found if pair[1].name == entry.name]
    if len(found) > 1 and at_name:
        found = at_name
    if not found:
        return [*lines, entry.line()], NEW
    if keep or all(entry.same(one) for _, one in found):
        return list(lines), PRESENT
    first, *others = [index for index, _ in found]
    replaced = [entry.line() if index == first else line for index, line in enumerate(lines)]
    # Further lines for the same mount point would mount the device twice.
    doubles = set(others) if at_name else set()
    return [line for index, line in enumerate(replaced) if index not in doubles], CHANGE


def without_entry(lines: Sequence[str], name: str, device: Optional[str]) -> List[str]:
    """Return the lines without those of a mount point, and of a device if one is given."""

    def is_meant(line: str) -> bool:
        one = parse(line)
        return one is not None and one.name == name and device in (None, "", one.device)

    return [line for line in lines if not is_meant(line)]


def table(lines: Sequence[str]) -> Mapping[str, FstabLine]:
    """Return the entries by mount point; an underscore is added to a name that is taken."""
    found: dict[str, FstabLine] = {}
    for line in lines:
        one = parse(line)
        if one is None:
            continue
        name = one.name
        while name in found:
            name += "_"
        found[name] = one
    return found


def is_secret(option: str) -> bool:
    """Return whether a mount option has a value that must not be shown."""
    key, mark, value = option.partition("=")
    if key == "credentials" or key.endswith("file"):
        return False  # the path of a file that holds the secret
    return bool(mark and value) and is_secret_name(key)


def shown(options: Sequence[str]) -> List[str]:
    """Return mount options with the values of secret ones hidden."""
    return [f"{one.partition('=')[0]}={MASK}" if is_secret(one) else one for one in options]
