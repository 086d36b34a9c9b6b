"""The repositories of dnf and zypper: sections of `.repo` files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass
from catena.core.patterns import lazy_pattern
from catena.modules.pkg.repos.keys import KeySource, key_source
from catena.modules.pkg.repos.plan import Entry, RepoPlan, differences
from catena.modules.pkg.repos.repo_text import RepoText
from catena.modules.pkg.repos.rpm_keys import add_key, listed_keys, remove_key
from catena.modules.shared.arguments import listed, truth

#: Key in the run's scratch data: path -> (signature of the file, its text).
_READ = "pkg.repos.rpm"
_ALIAS = lazy_pattern(r"[^\s\[\]/\x00-\x1f](?:[^\[\]/\x00-\x1f]*[^\s\[\]/\x00-\x1f])?\Z")
_NAME = lazy_pattern(r"[A-Za-z][A-Za-z0-9_.-]*\Z")
#: Arguments of the states and functions that are no options of a repository.
_OWN = frozenset(
    """allow_insecure_key aptkey architectures basedir clean_file comments comps consolidate copr
    disabled dist enabled file gpgautoimport humanname key_text key_url keyid keyserver ppa
    ppa_auth refresh_db saltenv signedby trusted url""".split()
)
_SOURCES = ("baseurl", "mirrorlist", "metalink")
_YES, _NO = ("1", "yes", "true", "on"), ("0", "no", "false", "off")


@dataclass(frozen=True)
class RepoDialect:
    """Where a package manager has its repositories, and what its arguments are called there."""

    #: New files are in the first folder.
    folders: Tuple[Path, ...]
    #: Options by the arguments of Salt's states that have another name.
    renamed: Mapping[str, str]
    #: Values 0 and 1 are shown as booleans, and the alias is shown too.
    booleans: bool = False


DNF = RepoDialect((Path("/etc/yum.repos.d"), Path("/etc/distro.repos.d")), {})
ZYPPER = RepoDialect(
    (Path("/etc/zypp/repos.d"),), {"refresh": "autorefresh", "cache": "keeppackages"}, True
)


class RpmRepositories:
    """The repositories of dnf or zypper on this host.

    Args:
        context: the call's context.
        dialect: DNF, ZYPPER, or that of a test.
    """

    def __init__(self, context: Context, dialect: RepoDialect) -> None:
        self._context = context
        self._dialect = dialect

    def listed(self, options: Mapping[str, Any]) -> Dict[str, Any]:
        """Return all repositories by alias."""
        return {
            alias: self._entry(path, text, alias)
            for path, text in self._files(options)
            for alias in text.sections()
            if alias != "main"
        }

    def entry(self, repo: str, options: Mapping[str, Any]) -> Entry:
        """Return the repository with an alias, or {}."""
        found = self._found(copr_alias(repo), options)
        return self._entry(*found, copr_alias(repo)) if found else {}

    def planned(self, repo: str, options: Mapping[str, Any], saltenv: str) -> RepoPlan:
        """Decide what has to be written so that a repository is as *options* say."""
        alias = _checked_alias(copr_alias(repo))
        found = self._found(alias, options)
        if alias != repo and not found:
            return RepoPlan(repo, {}, {}, changes={"repo": repo}, commands=(_copr_command(repo),))
        wanted = self._wanted(options)
        before = self._entry(*found, alias) if found else {}
        if found:
            path, present = found
        else:
            path, present = self._new_file(alias, options)
            wanted = {"name": alias, "enabled": "1", **wanted}
        text = RepoText(present.text())
        for name, value in _with_one_source(wanted).items():
            if not found or not _alike(name, text.options(alias).get(name), value):
                text.set(alias, name, value)
        comments = _comment_lines(options.get("comments"))
        if comments and text.comments(alias) != comments:
            text.set_comments(alias, comments)
        if not any(text.options(alias).get(name) for name in _SOURCES):
            raise UsageError(f"{alias}: give one of {', '.join(_SOURCES)}")
        after = self._entry(path, text, alias)
        if text.text() == present.text():
            return RepoPlan(repo, before, after)
        changes = differences(before, after, tuple(sorted({*before, *after})))
        data = text.text().encode("utf-8", "surrogateescape")
        return RepoPlan(repo, before, after, ((path, data),), changes if found else {"repo": repo})

    def removal(self, repo: str, options: Mapping[str, Any]) -> RepoPlan:
        """Decide what has to be written so that a repository is not there."""
        alias = copr_alias(repo)
        found = self._found(alias, options)
        if not found:
            folders = ", ".join(str(folder) for folder in self._folders(options))
            told = f"Error: the {repo} repo does not exist in {folders}."
            return RepoPlan(repo, {}, {}, told=told)
        path, present = found
        text = RepoText(present.text())
        text.remove(alias)
        if text.sections():
            data: Optional[bytes] = text.text().encode("utf-8", "surrogateescape")
            told = f"Repo {repo} has been removed from {path}"
        else:
            data, told = None, f"File {path} containing repo {repo} has been removed"
        before = self._entry(path, present, alias)
        return RepoPlan(repo, before, {}, ((path, data),), {"repo": repo}, told=told)

    def refresh(self, repo: str, options: Mapping[str, Any]) -> bool:
        """Fetch the indexes after a change; return whether all are fresh.

        dnf fetches the indexes of a new repository itself, so it is asked only for an explicit
        `refresh`. zypper is always asked for this one repository, unless `refresh` is false.
        """
        from catena.modules.pkg import choice
        from catena.modules.pkg.provider import Tool

        asked = options.get("refresh_db", options.get("refresh"))
        if not self._dialect.booleans:
            if truth(asked):
                choice.provider(self._context).refresh()
            return truth(asked)
        entry = self.entry(repo, options)
        if entry.get("enabled") and (asked is None or truth(asked)):
            keys = ["--gpg-auto-import-keys"] if truth(options.get("gpgautoimport")) else []
            run = Tool(self._context, {"LC_ALL": "C.UTF-8", "ZYPP_LOCK_TIMEOUT": "300"})
            run("zypper", "--non-interactive", *keys, "refresh", "--repo", copr_alias(repo))
        return False

    def keys(self, folder: Optional[str]) -> Dict[str, Any]:
        """Return the keys of the rpm database by id."""
        return listed_keys(self._context)

    def add_key(
        self, source: KeySource, saltenv: str, folder: Optional[str], name: Optional[str]
    ) -> None:
        """Import a key into the rpm database."""
        add_key(self._context, source, saltenv)

    def remove_key(self, digits: str, folder: Optional[str]) -> None:
        """Remove a key from the rpm database."""
        remove_key(self._context, digits)

    def _files(self, options: Mapping[str, Any]) -> Iterator[Tuple[Path, RepoText]]:
        for folder in self._folders(options):
            for path in sorted(folder.iterdir()) if folder.is_dir() else ():
                if path.suffix == ".repo" and path.is_file():
                    yield path, self._read(path)

    def _folders(self, options: Mapping[str, Any]) -> Sequence[Path]:
        given = listed(options.get("basedir"))
        return [Path(str(one)) for one in given] or self._dialect.folders

    def _read(self, path: Path) -> RepoText:
        from catena.modules.file import content

        known = self._context.scratch.setdefault(_READ, {})
        status = path.stat()
        signature = (status.st_ino, status.st_mtime_ns, status.st_size, status.st_ctime_ns)
        if path not in known or known[path][0] != signature:
            known[path] = signature, RepoText(content.decode(content.read(path)))
        found: RepoText = known[path][1]
        return found

    def _found(self, alias: str, options: Mapping[str, Any]) -> Optional[Tuple[Path, RepoText]]:
        return next((one for one in self._files(options) if alias in one[1].sections()), None)

    def _new_file(self, alias: str, options: Mapping[str, Any]) -> Tuple[Path, RepoText]:
        """Return the file for a new repository, and its present text."""
        from catena.modules.file import content

        path = Path(str(options.get("file") or self._folders(options)[0] / f"{alias}.repo"))
        if not path.is_absolute() or path.suffix != ".repo":
            raise UsageError(f"file: {str(path)[:200]} is not the absolute path of a .repo file")
        clean = truth(options.get("clean_file", False))
        return path, RepoText(
            content.decode(content.read(path)) if path.exists() and not clean else ""
        )

    def _entry(self, path: Path, text: RepoText, alias: str) -> Entry:
        entry: Entry = dict(text.options(alias))
        if self._dialect.booleans:
            entry = {name: _boolean(value) for name, value in entry.items()}
            entry["alias"] = alias
        comments = text.comments(alias)
        return {**entry, **({"comments": comments} if comments else {}), "file": str(path)}

    def _wanted(self, given: Mapping[str, Any]) -> Dict[str, Optional[str]]:
        """Return the options that the arguments name; None for one that is to be removed.

        Raises:
            UsageError: a name or a value can't be written.
        """
        found: Dict[str, Optional[str]] = {}
        for name, value in given.items():
            option = self._dialect.renamed.get(name, name)
            if name in _OWN or name.startswith("__") or (name == "refresh" and option == name):
                continue
            if not _NAME.match(option):
                raise UsageError(f"{option[:80]!r} can't be an option of a repository")
            found[option] = _text_of(option, value)
        for name, option in (("url", "baseurl"), ("humanname", "name")):
            if given.get(name):
                found[option] = _text_of(option, given[name])
        urls = key_source({"key_url": given.get("key_url")}).urls
        if urls and "gpgkey" not in found:
            found["gpgkey"] = _text_of("key_url", list(urls))
        for name in ("enabled", "disabled"):
            if given.get(name) is not None:
                found["enabled"] = "1" if truth(given[name]) is (name == "enabled") else "0"
        return found


def _checked_alias(alias: str) -> str:
    if not _ALIAS.match(alias) or alias == "main":
        raise UsageError(f"{alias[:200]!r} can't be the alias of a repository")
    return alias


def _text_of(name: str, value: Any) -> Optional[str]:
    """Return a value as it is written, None if it is empty."""
    if isinstance(value, bool):
        return "1" if value else "0"
    parts = [str(one).strip() for one in value] if isinstance(value, list) else str(
        "" if value is None else value
    ).split("\n")  # fmt: skip
    lines = [one.strip() for one in parts if one.strip()]
    if any("\n" in one or one.startswith(("[", "#", ";")) for one in lines[1:]):
        raise UsageError(f"{name}: {str(value)[:80]!r} can't be written into a .repo file")
    return "\n".join(lines) or None


def _with_one_source(wanted: Mapping[str, Optional[str]]) -> Dict[str, Optional[str]]:
    """Return options in which a named kind of source takes the place of the other kinds."""
    named = [name for name in _SOURCES if wanted.get(name)]
    return {**{name: None for name in _SOURCES if named and name not in named}, **wanted}


def _alike(name: str, present: Optional[str], wanted: Optional[str]) -> bool:
    """Return whether two values mean the same; without a line, a repository is enabled."""
    if name == "enabled" and present is None:
        present = "1"
    if present is None or wanted is None:
        return present == wanted
    for words in (_YES, _NO):
        if wanted in words:
            return present.lower() in words
    return present.split() == wanted.split()


def _boolean(value: str) -> Any:
    return {"0": False, "1": True, "NONE": None}.get(value, value)


def _comment_lines(value: Any) -> List[str]:
    given = value if isinstance(value, (list, tuple)) else [] if value is None else [value]
    return [line.strip("# \t") for one in given for line in str(one).splitlines() if line.strip()]


def copr_alias(repo: str) -> str:
    """Return the alias of `copr:OWNER/NAME`, anything else as it is.

    Raises:
        UsageError: the name is malformed.
    """
    owner, slash, name = repo[len("copr:") :].partition("/")
    if not repo.startswith("copr:") or not slash:
        return repo
    if not owner or not name or "/" in name or repo.split() != [repo] or owner.startswith("-"):
        raise UsageError(f"{repo[:200]!r} is not copr:OWNER/NAME")
    return f"copr:copr.fedorainfracloud.org:{owner.replace('@', 'group_')}:{name}"


def _copr_command(repo: str) -> Tuple[str, ...]:
    return ("dnf", "-y", "copr", "enable", repo[len("copr:") :])


def explained(error: CommandExecutionError) -> CommandExecutionError:
    """Return an error of dnf, with the package that it lacks."""
    if "copr" in str(error) and "o such command" in str(error):
        return CommandExecutionError(f"{error}; install the package dnf-plugins-core")
    return error
