"""What a plug-in may use, passed as its first argument instead of injected globals."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any, ContextManager, Dict, List, Mapping, Optional, Protocol, Sequence

from catena.core.dry_run import (
    TestModeError,
    is_refusing,
    only_looking,
    refusing_changes,
    unguarded,
)
from catena.core.frozen import dataclass, field, replace
from catena.core.job import JobSpec
from catena.core.peer import PeerCall
from catena.core.plugins import BUILT_IN, Registry


@dataclass(frozen=True)
class FileEntry:
    """One file of a file server environment."""

    #: Path below the root, with slashes, as in salt://PATH.
    path: str
    #: SHA-256, hex.
    sha256: str
    size: int
    #: Permission bits of the original.
    mode: int
    #: Target when it is a link that stays a link; "" for files.
    link: str = ""


class Distant(Protocol):
    """A large file that is not on this host yet; it is written directly to its destination."""

    @property
    def entry(self) -> FileEntry:
        """Return the file's entry."""

    def write_to(self, handle: int) -> None:
        """Write the content to an empty file open for writing, and check its hash.

        Raises:
            CatenaError: the content is not available; what was written is incomplete.
        """


class FileClient(Protocol):
    """The files of the master, or of the local roots, by path and environment."""

    def fetch(self, path: str, saltenv: str = "base") -> Optional[Path]:
        """Return a local, hash-checked, read-only copy of *path* (no salt://), or None."""

    def fetch_all(self, paths: Sequence[str], saltenv: str = "base") -> List[Optional[Path]]:
        """Return copies of several files, in the order of *paths*; they are fetched together."""

    def contents(self, paths: Sequence[str], saltenv: str = "base") -> List[Optional[bytes]]:
        """Return the contents of several small files in the order of *paths*; None: no such file.

        Contents that are not on this host are fetched together and not stored.
        """

    def distant(self, path: str, saltenv: str = "base") -> Optional[Distant]:
        """Return a large file that is not on this host yet; None for any other file."""

    def entries(self, saltenv: str = "base", prefix: str = "") -> List[FileEntry]:
        """Return the files below *prefix*, sorted by path."""

    def entry(self, path: str, saltenv: str = "base") -> Optional[FileEntry]:
        """Return the entry of one file, or None."""

    def folders(self, saltenv: str = "base", prefix: str = "") -> List[str]:
        """Return the folders below *prefix*, empty ones too, sorted."""

    def environments(self) -> List[str]:
        """Return the environments that exist, sorted."""


@dataclass(frozen=True)
class RebootRequest:
    """A requested reboot that waits for the end of its chunk."""

    #: Salt's at_time: minutes from the end of the chunk.
    at_minutes: int = 0


class OutputTap(Protocol):
    """Receives what a command prints while it runs."""

    def take(self, stream: str, data: bytes) -> None:
        """Receive bytes of "stdout" or "stderr"."""

    def tick(self) -> None:
        """Do what is due; called about twice per second."""

    def close(self) -> None:
        """Note that the command has ended."""


class Host(Protocol):
    """What only the runtime can do for a function, on this host and in this job."""

    @property
    def conf_dir(self) -> Path:
        """Folder of the configuration file, which contains minion.d."""

    @property
    def cache_dir(self) -> Path:
        """Private folder for everything that is stored between runs."""

    def boot_id(self) -> str:
        """Return the id of the running boot."""

    def agent_session(self) -> str:
        """Return the id of the running agent process; "" outside a daemon."""

    def arm_reboot(self, request: RebootRequest) -> bool:
        """Record *request* for the end of the running chunk; return False if none is running."""

    def reboot_command(self) -> List[str]:
        """Return the argv that reboots this host (config `reboot_command`)."""

    def compile_pillar(
        self, override: Optional[Mapping[str, Any]] = None, pillarenv: str = ""
    ) -> Dict[str, Any]:
        """Return newly compiled pillar from the master (or the local roots).

        Args:
            override: merged over the result.
            pillarenv: the only environment to use; "" for the configured one.
        """

    def collect_grains(self) -> Dict[str, Any]:
        """Collect the grains again and return them; report them to the master, if there is one."""

    def fire(self, tag: str, data: Mapping[str, Any]) -> bool:
        """Send an event to the master; return False if there is none."""

    def settle(self) -> None:
        """Wait until every fired event is stored. Called before anything else acts."""

    def progress(self, kind: str, data: Dict[str, Any]) -> None:
        """Report a step of the running job to those who watch it."""

    def show_output(self) -> None:
        """Let users see the next command's output while it runs; the return contains it anyway."""

    def listen(self) -> Optional[OutputTap]:
        """Return the receiver of the next command's output; None if nobody may see it."""

    def ask_master(self, call: PeerCall) -> Any:
        """Return what a call on the master, or on other minions, returns.

        Raises:
            NotAllowedError: the master does not allow it to this minion.
        """

    def push(self, path: str, source: Path) -> None:
        """Send a file to this minion's folder on the master.

        Args:
            path: below that folder.
            source: the file.
        """

    def running(self) -> List[Dict[str, Any]]:
        """Return the running and queued jobs in the form of saltutil.running."""

    def signal_job(self, jid: str, signal: int) -> str:
        """Send a signal to a job's process tree; return a sentence about the result."""

    def sync(
        self,
        kind: str,
        saltenv: str = "base",
        only: Optional[Sequence[str]] = None,
        never: Sequence[str] = (),
    ) -> List[str]:
        """Fetch custom files of one kind; return the changed names.

        Args:
            kind: "modules", "states", "grains", …
            saltenv: environment, or several separated by commas.
            only: names of the files to fetch; None: all.
            never: names of files to leave out.
        """


class Rendering(Protocol):
    """Renders on behalf of a host without template engines, which is reached only by SSH.

    Source and Rendered are those of `renderers.source`; engine names those of
    `renderers.templates`.
    """

    def data(
        self, context: Context, source: Any, default: str, variables: Mapping[str, Any]
    ) -> Any:
        """Return the Rendered of a text, as `renderers.pipeline.render` does."""

    def text(
        self, context: Context, source: Any, engine: str, variables: Mapping[str, Any]
    ) -> str:
        """Return a managed file's text, as `renderers.templates.render_file` does."""


class Running(Protocol):
    """Runs compiled states on another host, which is reached by SSH, for its context."""

    def __call__(self, context: Context, low: Sequence[Any]) -> Dict[str, Dict[str, Any]]:
        """Run `states.compiler.model.Low`s and return the rows, as `api.run` does."""


@dataclass(frozen=True)
class Context:
    """Everything that a function, state or renderer may use.

    A run that refreshes pillar or grains replaces the context as a whole (`with_`). Only `scratch`
    is mutable: it is Salt's `__context__`, one dict for the life of the job process.
    """

    #: The minion's configuration under Salt's key names, read only.
    opts: Mapping[str, Any]
    grains: Mapping[str, Any]
    pillar: Mapping[str, Any]
    functions: Registry
    states: Registry
    files: FileClient
    host: Host
    job: Optional[JobSpec] = None
    #: Salt's test=True: report what would change, but change nothing.
    test: bool = False
    saltenv: str = "base"
    scratch: Dict[str, Any] = field(default_factory=dict)
    #: Custom renderers (`_renderers/NAME.py`), as "NAME.render"; None if they are not supported
    #: here.
    renderers: Optional[Registry] = None
    #: Renders for this host; None: the host renders itself.
    rendering: Optional[Rendering] = None
    #: Runs compiled states; None: they run here.
    running: Optional[Running] = None
    #: Inside a state run, which has fixed test mode; nothing within it can leave test mode.
    in_run: bool = False

    def call(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        """Call another execution function by name, as `__salt__[name](...)` does.

        In test mode, a built-in state may call only functions that read; the site's own functions
        may always be called.

        Raises:
            NotFoundError: no such function; the message names the nearest.
            TestModeError: a state in test mode calls a function that changes something.
        """
        plugin = self.functions[name]
        if not is_refusing():
            return plugin.call(self, *args, **kwargs)
        if plugin.origin != BUILT_IN:
            with unguarded():
                return plugin.call(self, *args, **kwargs)
        if not getattr(plugin.mark, "reads", False):
            raise TestModeError(f"call {name}")
        with only_looking():
            return plugin.call(self, *args, **kwargs)

    def state_guard(self, origin: str) -> ContextManager[None]:
        """Return the context manager in which a state function is called; it may refuse changes.

        Args:
            origin: of the function's plug-in. In test mode catena's own states may change nothing;
                a site's states check test mode themselves.
        """
        if not self.test or origin != BUILT_IN:
            return nullcontext()
        log_file = str(self.opts.get("log_file") or "")
        return refusing_changes((str(self.host.cache_dir), log_file))

    def forget_plugins(self) -> None:
        """Reload custom files at their next use (after saltutil.sync_*)."""
        for registry in (self.functions, self.states, self.renderers):
            if registry is not None:
                registry.forget()

    def with_(self, **changes: Any) -> Context:
        """Return this context with some fields replaced."""
        return replace(self, **changes)
