"""What a plug-in may use; handed in as its first argument, never injected."""

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
    """A large file that is not on this host: it is brought to its one place, without a copy."""

    @property
    def entry(self) -> FileEntry:
        """What it is."""

    def write_to(self, handle: int) -> None:
        """Write its content, hash-checked, to a file that is open for writing and empty.

        Raises:
            CatenaError: it can't be had; what was written is no content.
        """


class FileClient(Protocol):
    """The files of the master (or of the local roots), by path and environment."""

    def fetch(self, path: str, saltenv: str = "base") -> Optional[Path]:
        """Return a local, hash-checked, read-only copy of *path* (no salt://), or None."""

    def fetch_all(self, paths: Sequence[str], saltenv: str = "base") -> List[Optional[Path]]:
        """Return copies of several files, in the order asked; they come together."""

    def contents(self, paths: Sequence[str], saltenv: str = "base") -> List[Optional[bytes]]:
        """Return the contents of several small files, in the order asked; None: no such file.

        What is not on this host comes together, and stays nowhere.
        """

    def distant(self, path: str, saltenv: str = "base") -> Optional[Distant]:
        """Return a large file that is not on this host yet; None for any other."""

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
    """A reboot that was asked for and waits for the end of its chunk."""

    #: Salt's at_time: minutes from the end of the chunk.
    at_minutes: int = 0


class OutputTap(Protocol):
    """Receives what a command prints while it runs."""

    def take(self, stream: str, data: bytes) -> None:
        """Take what came from "stdout" or "stderr"."""

    def tick(self) -> None:
        """Do what is due; called about twice in a second."""

    def close(self) -> None:
        """The command has ended."""


class Host(Protocol):
    """What only the runtime can do for a function: this host, this daemon, this run."""

    @property
    def conf_dir(self) -> Path:
        """Folder of the configuration file; minion.d lies in it."""

    @property
    def cache_dir(self) -> Path:
        """Private folder for everything that is kept between runs."""

    def boot_id(self) -> str:
        """Return the id of the running boot."""

    def agent_session(self) -> str:
        """Return the id of the running agent process; "" outside a daemon."""

    def arm_reboot(self, request: RebootRequest) -> bool:
        """Keep *request* for the end of the running chunk; False where no chunk runs."""

    def reboot_command(self) -> List[str]:
        """Return the argv that reboots this host (config `reboot_command`)."""

    def compile_pillar(
        self, override: Optional[Mapping[str, Any]] = None, pillarenv: str = ""
    ) -> Dict[str, Any]:
        """Return fresh pillar from the master (or the local roots).

        Args:
            override: laid over it.
            pillarenv: the only environment that counts; the configured one when empty.
        """

    def collect_grains(self) -> Dict[str, Any]:
        """Return grains collected now, and tell the master where there is one."""

    def fire(self, tag: str, data: Mapping[str, Any]) -> bool:
        """Send an event to the master; False where there is none."""

    def settle(self) -> None:
        """Wait until each event that was fired is kept; before anything else acts."""

    def progress(self, kind: str, data: Dict[str, Any]) -> None:
        """Tell whoever watches the running job of one step."""

    def show_output(self) -> None:
        """Let the next command's output be seen while it runs: it is in the job's return."""

    def listen(self) -> Optional[OutputTap]:
        """Return what takes the next command's output while it runs; None: nobody may see it."""

    def running(self) -> List[Dict[str, Any]]:
        """Return the running and queued jobs as saltutil.running prints them."""

    def signal_job(self, jid: str, signal: int) -> str:
        """Send a signal to a job's process tree; return a sentence."""

    def sync(
        self,
        kind: str,
        saltenv: str = "base",
        only: Optional[Sequence[str]] = None,
        never: Sequence[str] = (),
    ) -> List[str]:
        """Fetch custom files (kind "modules", "states", "grains", …); return the changed names.

        Args:
            kind: which.
            saltenv: environment, or several separated by commas.
            only: names of the files that are wanted; None: all.
            never: names of files that are not wanted.
        """


class Rendering(Protocol):
    """Renders for a host that has no template engines: a host that SSH alone reaches asks for it.

    Source and Rendered are `renderers.source`'s, Engine's names those of `renderers.templates`.
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
    """Runs compiled states on the host of a context that is not this one: one behind SSH."""

    def __call__(self, context: Context, low: Sequence[Any]) -> Dict[str, Dict[str, Any]]:
        """Return the rows of a run of `states.compiler.model.Low`s, as `api.run` does."""


@dataclass(frozen=True)
class Context:
    """Everything that a function, state or renderer may use.

    Replaced as a whole (`with_`) where a run refreshes pillar or grains; `scratch` alone is
    mutable: it is Salt's `__context__`, one dict for the life of the job process.
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
    #: Salt's test=True: say what would change, change nothing.
    test: bool = False
    saltenv: str = "base"
    scratch: Dict[str, Any] = field(default_factory=dict)
    #: Custom renderers (`_renderers/NAME.py`), as "NAME.render"; None where there can be none.
    renderers: Optional[Registry] = None
    #: Who renders for this host; None: it renders itself.
    rendering: Optional[Rendering] = None
    #: Who runs compiled states; None: they run here.
    running: Optional[Running] = None
    #: A state run goes on: it decided about test mode, and nothing inside it leaves that.
    in_run: bool = False

    def call(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        """Call another execution function by name, as `__salt__[name](...)` does.

        A built-in state in test mode gets what a function reads; the site's own functions are
        called whatever they do.

        Raises:
            NotFoundError: no such function; the message names the nearest.
            TestModeError: a state in test mode asks for a function that changes something.
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
        """Return the block in which a state function is called; it may refuse every change.

        Args:
            origin: of the function's plug-in. In test mode catena's own may change nothing;
                those of a site ask for test mode themselves.
        """
        if not self.test or origin != BUILT_IN:
            return nullcontext()
        log_file = str(self.opts.get("log_file") or "")
        return refusing_changes((str(self.host.cache_dir), log_file))

    def forget_plugins(self) -> None:
        """Load custom files anew on their next use (after saltutil.sync_*)."""
        for registry in (self.functions, self.states, self.renderers):
            if registry is not None:
                registry.forget()

    def with_(self, **changes: Any) -> Context:
        """Return this context with some fields replaced."""
        return replace(self, **changes)
