"""Read and extract archives: tar in every compression, and zip.

Archives are untrusted: no member is written outside the target, not even through a link that the
archive itself contains.
"""

from __future__ import annotations

import os
import shutil
import stat
import tarfile
import tempfile
import zipfile
from contextlib import closing, contextmanager
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import IO, Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple

from catena.core.errors import CommandExecutionError, LimitError, UsageError
from catena.core.frozen import dataclass
from catena.core.suggest import unknown
from catena.modules.shared import attributes

MEMBER_LIMIT = 1_000_000
_TAR_ENDINGS = (".tar", ".tgz", ".tbz", ".tbz2", ".txz", ".tlz")
_ZIP_ENDINGS = (".zip", ".jar", ".war", ".egg", ".whl")


@dataclass(frozen=True)
class Member:
    """One member of an archive."""

    #: Path below the target, without slashes at the ends.
    path: str
    #: "dir", "file", "link" (symbolic) or "hard".
    kind: str
    mode: int = 0o644
    #: Target of a link; for "hard", the path of a member.
    link: str = ""
    #: Owner in the archive: user and group names, then uid and gid; None for zip.
    owner: Optional[Tuple[str, str, int, int]] = None
    mtime: Optional[float] = None


@dataclass(frozen=True)
class Archive:
    """An archive to read."""

    file: Path
    #: "tar" or "zip".
    form: str
    #: Number of leading path components to drop; shorter paths are skipped.
    strip: int = 0
    password: Optional[str] = None
    #: Shell patterns of members to skip, including everything below them.
    exclude: Tuple[str, ...] = ()
    #: Extract only files, all directly into the target (unzip -j).
    flat: bool = False


@contextmanager
def _faults(archive: Archive) -> Iterator[None]:
    """Convert the exceptions of the libraries into CommandExecutionError."""
    try:
        yield
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, RuntimeError) as problem:
        raise CommandExecutionError(f"{archive.file}: {problem or 'cut short'}") from problem
    except OSError as problem:
        raise CommandExecutionError(f"{archive.file}: {problem.strerror or problem}") from problem


def form_of(name: str) -> str:
    """Return "tar" or "zip" by the ending of a file's name, or ""."""
    lower = name.lower().partition("?")[0]
    if lower.endswith(_TAR_ENDINGS) or ".tar." in PurePosixPath(lower).name:
        return "tar"
    return "zip" if lower.endswith(_ZIP_ENDINGS) else ""


def checked_form(form: str) -> str:
    """Return *form*.

    Raises:
        UsageError: it can't be read here.
    """
    if form not in ("tar", "zip"):
        raise UsageError(unknown("archive_format", form, ("tar", "zip")))
    return form


def members(archive: Archive) -> List[Member]:
    """Return the members of an archive in their order.

    Raises:
        CommandExecutionError: it can't be read.
        UsageError: a member leaves the target, or is a device.
        LimitError: more than a million members.
    """
    with _faults(archive), _opened(archive) as source:
        return [member for member, _ in source]


@contextmanager
def _opened(archive: Archive) -> Iterator[Iterator[Tuple[Member, Callable[[], IO[bytes]]]]]:
    """Yield the members, each with a function that opens its content."""
    if archive.form == "zip":
        with zipfile.ZipFile(archive.file) as pack:
            yield _limited(_zip_members(pack, archive))
    else:
        with closing(tarfile.open(archive.file, "r:*")) as tape:
            yield _limited(_tar_members(tape, archive))


def _limited(found: Iterator[Any]) -> Iterator[Any]:
    for number, each in enumerate(found):
        if number >= MEMBER_LIMIT:
            raise LimitError(f"an archive may hold {MEMBER_LIMIT} members")
        yield each


def _excluded(parts: List[str], patterns: Tuple[str, ...]) -> bool:
    """Return whether a path or a folder above it matches, whole or from any part on, as in tar."""
    ends = ["/".join(parts[start:end]) for end in range(1, len(parts) + 1) for start in range(end)]
    return any(fnmatchcase(each, pattern) for pattern in patterns for each in ends)


def _place(name: str, archive: Archive) -> str:
    """Return the path of a member below the target; "" where nothing of it is left.

    Raises:
        UsageError: it leaves the target.
    """
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts or "\0" in name:
        raise UsageError(f"the archive's member {name[:200]!r} leaves the target")
    if archive.exclude and _excluded(parts, archive.exclude):
        return ""
    if archive.flat:
        return "" if name.endswith("/") else parts[-1]
    return "/".join(parts[archive.strip :])


def _tar_members(
    tape: tarfile.TarFile, archive: Archive
) -> Iterator[Tuple[Member, Callable[[], Any]]]:
    for info in tape:
        path = _place(info.name, archive)
        if not path:
            continue
        kind = (
            "dir" if info.isdir() else "link" if info.issym() else "hard" if info.islnk() else ""
        )
        if not kind and not info.isfile():
            raise UsageError(f"the archive's member {info.name[:200]!r} is a device or a pipe")
        link = _place(info.linkname, archive) if kind == "hard" else info.linkname
        owner = (info.uname, info.gname, info.uid, info.gid)
        member = Member(
            path, kind or "file", stat.S_IMODE(info.mode), link, owner, float(info.mtime)
        )
        yield member, lambda info=info: tape.extractfile(info)  # type: ignore[misc]


def _zip_members(
    pack: zipfile.ZipFile, archive: Archive
) -> Iterator[Tuple[Member, Callable[[], Any]]]:
    password = archive.password.encode() if archive.password else None
    for info in pack.infolist():
        path = _place(info.filename, archive)
        if not path:
            continue
        bits = info.external_attr >> 16
        folder = info.is_dir()
        mode = stat.S_IMODE(bits) or (0o755 if folder else 0o644)
        if stat.S_ISLNK(bits):
            target = pack.read(info, password).decode("utf-8", "surrogateescape")
            yield Member(path, "link", mode, target), lambda: None
            continue
        member = Member(path, "dir" if folder else "file", mode)
        yield member, lambda info=info: pack.open(info, pwd=password)  # type: ignore[misc]


def extract(archive: Archive, target: Path, keep_owner: bool, keep_mode: bool = True) -> List[str]:
    """Extract everything below the folder *target*; return the paths of the members.

    Args:
        archive: what to extract.
        target: an existing folder.
        keep_owner: set the owners that the archive names, as tar does for root.
        keep_mode: set the modes that the archive names.

    Raises:
        CommandExecutionError: it can't be read or written.
        UsageError: a member leaves the target, or is a device.
    """
    done: List[str] = []
    late: List[Member] = []
    folders: List[Member] = []
    root = target.resolve()
    with _faults(archive), _opened(archive) as source:
        for member, content in source:
            done.append(member.path)
            place = _inside(root, member.path)
            if member.kind == "dir":
                place.mkdir(parents=True, exist_ok=True)
                folders.append(member)
            elif member.kind == "file":
                _write(place, content, member.mode if keep_mode else None)
                _finish(place, member, keep_owner)
            else:
                late.append(member)
        # Create links last, so that nothing is written through a link of the archive.
        for member in late:
            _link(root, member)
        for member in folders:
            place = _inside(root, member.path)
            if keep_mode:
                place.chmod(member.mode)
            _finish(place, member, keep_owner)
    return done


def _inside(root: Path, path: str) -> Path:
    """Return the target path of a member.

    Raises:
        UsageError: a link on its way leads out of the target.
    """
    place = root / path
    above = place.parent.resolve()
    if above != root and root not in above.parents:
        raise UsageError(f"the archive's member {path[:200]!r} leaves the target through a link")
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


def _write(place: Path, content: Callable[[], IO[bytes]], mode: Optional[int]) -> None:
    handle, name = tempfile.mkstemp(prefix=".catena-", dir=place.parent)
    try:
        with os.fdopen(handle, "wb") as stream, content() as source:
            shutil.copyfileobj(source, stream, 1024 * 1024)
        wanted = mode if mode is not None else int(attributes.default_mode(), 8)
        Path(name).chmod(wanted)
        Path(name).replace(place)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _finish(place: Path, member: Member, keep_owner: bool) -> None:
    if keep_owner and member.owner is not None:
        user, group, uid, gid = member.owner
        os.chown(
            place, _number(attributes.uid_of, user, uid), _number(attributes.gid_of, group, gid)
        )
        if member.mode & (stat.S_ISUID | stat.S_ISGID):
            place.chmod(member.mode)
    if member.mtime is not None:
        os.utime(place, (member.mtime, member.mtime))


def _number(find: Callable[[Any], int], name: str, number: int) -> int:
    """Return the number of an account by its name here, else the archive's own number."""
    try:
        return find(name) if name and not name.isdigit() else number
    except CommandExecutionError:
        return number


def _link(root: Path, member: Member) -> None:
    place = _inside(root, member.path)
    if os.path.lexists(place):
        place.unlink()
    if member.kind == "hard":
        os.link(_inside(root, member.link), place, follow_symlinks=False)
    else:
        place.symlink_to(member.link)


def top_level(found: List[Member]) -> Dict[str, str]:
    """Return the names at the top of an archive with their kinds: "dir", "file" or "link"."""
    tops: Dict[str, str] = {}
    for member in found:
        name, _, rest = member.path.partition("/")
        tops[name] = "dir" if rest else tops.get(name, _simple(member.kind))
    return tops


def _simple(kind: str) -> str:
    return "file" if kind == "hard" else kind


def by_kind(found: List[Member]) -> Mapping[str, List[str]]:
    """Return the paths of an archive by kind, as archive.list verbose=True shows them."""
    tops = top_level(found)
    shown: Dict[str, List[str]] = {}
    for label, kind in (("dirs", "dir"), ("files", "file"), ("links", "link")):
        paths = [member.path for member in found if _simple(member.kind) == kind]
        shown[label] = sorted(f"{path}/" if kind == "dir" else path for path in paths)
        names = [name for name, top in tops.items() if top == kind]
        shown[f"top_level_{label}"] = sorted(f"{n}/" if kind == "dir" else n for n in names)
    return shown
