"""The interface of repository lists, and the record of a change that was decided but not made."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Protocol, Tuple

from catena.core.errors import CommandExecutionError
from catena.core.frozen import dataclass, field
from catena.modules.pkg.repos.keys import KeySource

Entry = Dict[str, Any]
#: Path and new content of files in the order of writing; None removes a file.
Files = Tuple[Tuple[Path, Optional[bytes]], ...]


@dataclass(frozen=True)
class RepoPlan:
    """What has to be written so that one repository is as wanted."""

    #: The repository as the package manager names it.
    name: str
    #: The entries before and after, {} where there is none.
    before: Entry
    after: Entry
    #: Files to replace, in this order; None removes the file.
    files: Files = ()
    #: {name: {"old", "new"}} of an existing repository, or {"repo": name} of a new one.
    changes: Mapping[str, Any] = field(default_factory=dict)
    #: The wanted form is the one in which Salt writes it itself.
    plain: bool = True
    warnings: Tuple[str, ...] = ()
    #: What pkg.del_repo returns, or why there is nothing to remove.
    told: str = ""
    #: Commands to run after the files are written.
    commands: Tuple[Tuple[str, ...], ...] = ()

    def acts(self) -> bool:
        """Return whether there is anything to do."""
        return bool(self.files or self.commands)


class Repositories(Protocol):
    """The repositories that one package manager is configured with."""

    def listed(self, options: Mapping[str, Any]) -> Dict[str, Any]:
        """Return all repositories in the form of pkg.list_repos."""

    def entry(self, repo: str, options: Mapping[str, Any]) -> Entry:
        """Return one repository, or {}."""

    def planned(self, repo: str, options: Mapping[str, Any], saltenv: str) -> RepoPlan:
        """Decide what pkg.mod_repo has to write; write nothing.

        Raises:
            UsageError: the arguments describe no repository.
            CommandExecutionError: a file or a key can't be read.
        """

    def removal(self, repo: str, options: Mapping[str, Any]) -> RepoPlan:
        """Decide what pkg.del_repo has to write; no files where the repository is not there."""

    def refresh(self, repo: str, options: Mapping[str, Any]) -> bool:
        """Fetch indexes after a change, as *options* say; return whether all are fresh.

        Raises:
            CommandExecutionError: the package manager failed.
        """

    def keys(self, folder: Optional[str]) -> Dict[str, Any]:
        """Return the keys by id, in the form of pkg.get_repo_keys."""

    def add_key(
        self, source: KeySource, saltenv: str, folder: Optional[str], name: Optional[str]
    ) -> None:
        """Add a key; nothing if it is there.

        Raises:
            UsageError: no key is named.
            CommandExecutionError: the key can't be fetched or written, or is none.
        """

    def remove_key(self, digits: str, folder: Optional[str]) -> None:
        """Remove the key with an id.

        Raises:
            CommandExecutionError: no keyring has it.
        """


def write_files(files: Files) -> None:
    """Write or remove files in their order, each atomically.

    Raises:
        CommandExecutionError: a file can't be written; earlier files were.
    """
    from catena.modules.file import content

    for path, data in files:
        try:
            if data is None:
                path.unlink(missing_ok=True)
                continue
            path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        except OSError as problem:
            raise CommandExecutionError(f"{path}: {problem.strerror}") from problem
        content.write(path, data, "0644")


def differences(before: Entry, after: Entry, names: Tuple[str, ...]) -> Dict[str, Any]:
    """Return {name: {"old", "new"}} of the named keys whose values differ."""
    return {
        name: {"old": before.get(name), "new": after.get(name)}
        for name in names
        if before.get(name) != after.get(name)
    }
