"""Preparation of the template: imports modules, and runs code once that is slow at first use.

Whatever a fork imports, compiles or caches is repeated in every job. Modules that no job of this
host needs are not imported, so that the template stays small.
"""

from __future__ import annotations

import contextlib
import gc
import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from catena.core import frozen, records
from catena.core.chain_calls import MODULE
from catena.core.clock import SystemClock
from catena.core.errors import CatenaError
from catena.core.job import JobReturn, JobSpec
from catena.fileserver.remote import CachingClient
from catena.minion.jobs.folder import Claim, StoredSpec
from catena.minion.jobs.processes import ProcessRef
from catena.minion.start.blob import StartData
from catena.minion.start.place import place_of
from catena.minion.worker.service import SocketService
from catena.runtime import session
from catena.runtime.arguments import bind
from catena.runtime.executor import execute
from catena.runtime.functions import INDEX as RUNTIME_INDEX
from catena.transport import wire
from catena.transport.messages import JobReturned

#: Modules that nearly every state run needs.
_STATES = (
    RUNTIME_INDEX[MODULE],
    "catena.states.compiler.api",
    "catena.states.functions.state",
    "catena.renderers.pipeline",
    "catena.states.file",
    "catena.states.cmd",
    "catena.modules.cmd.functions",
    "catena.modules.file.functions",
    "catena.runtime.functions.cp",
    "catena.runtime.functions.pillar",
    "catena.runtime.functions.saltutil",
    "difflib",
    "jinja2",
    "yaml",
)
#: Modules with records that each job creates.
_RECORDS = (
    "catena.core.context",
    "catena.core.job",
    "catena.core.signatures",
    "catena.minion.jobs.folder",
    "catena.minion.worker.life",
    "catena.minion.worker.process",
    "catena.runtime.executor",
    "catena.runtime.session",
)
#: Module of a function -> what its functions need besides it.
_NEEDS: Dict[str, Tuple[str, ...]] = {"state": _STATES, MODULE: _STATES}
_JID = "20000101000000000000"


def bring(module: str) -> None:
    """Import what jobs of functions of *module* need, unless it is a custom module.

    Existing objects are then frozen: a fork's garbage collector skips them, so their pages stay
    shared.
    """
    home = session.execution_index().get(module)
    needed = (*((home,) if home else ()), *_NEEDS.get(module, ()))
    missing = [name for name in needed if name not in sys.modules]
    for name in missing:
        import_module(name)
    if missing:
        _prepare(*_beside(home))
        gc.collect()
        gc.freeze()


def _beside(home: Optional[str]) -> List[str]:
    """Return the modules to import from the package of module *home*."""
    package = home.rpartition(".")[0] if home else ""
    return [name for name in sys.modules if package and name.startswith(f"{package}.")]


def _prepare(*names: str) -> None:
    """Prepare the constructors of the records in modules; otherwise each fork would do it."""
    for name in names:
        for member in vars(import_module(name)).values():
            if isinstance(member, type) and member.__module__ == name:
                if frozen.is_dataclass(member):
                    frozen.prepare(member)


def rehearse(start: StartData) -> None:
    """Do once what every job does, with a function that does nothing; then be ready to fork.

    No custom file is loaded here, because the next job must use a changed file.
    """
    import_module("ctypes")
    _prepare(*_RECORDS)
    spec = JobSpec(_JID, "test.ping", kwargs={})
    _travel(StoredSpec(spec, 1), StoredSpec)
    _travel(JobReturned(JobReturn(_JID, spec.fun, (), True, 0, True, 0.0, 0.0)), JobReturned)
    json.dumps(records.encode(Claim(ProcessRef(1, 1, ""))))
    if not (start.cache_dir / "extmods").exists():
        _perform(start, spec)
    bring("test")


def _perform(start: StartData, spec: JobSpec) -> None:
    service = SocketService(start.run_dir)
    # Each job reports an error of these folders itself.
    with contextlib.suppress(OSError, CatenaError):
        files = CachingClient(service, Path(start.cache_dir) / "files")
        made = session.remote_session(place_of(start), spec, service, files, SystemClock())
        bind(made.context.functions[spec.fun], (), {})
        execute(made, spec)
    service.close()


def _travel(record: Any, kind: Any) -> None:
    body = wire.unpack_body(wire.pack_body(record), wire.LIMITS["local", "minion"])
    records.decode(kind, body)
