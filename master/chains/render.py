"""Renders the actions of one minion into chunk files and their manifest. Pure: no I/O, no clock.

The rules are those of the reference (`semantics/uyuni.md`, Render): every state requires the state
directly before it in its chunk; a chunk ends at a reboot that is followed by more, and at an
upgrade of the agent itself. At the latter the resume file is written before the upgrade, because
the upgrade may restart the agent in the middle of the chunk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from catena.core.chain_calls import CLEAN, NEXT
from catena.core.errors import UsageError
from catena.core.ids import machine_id
from catena.core.job import ActionManifest, Boundary, ChainManifest, ChunkManifest
from catena.master.chains import chunk_yaml
from catena.master.chains.actions import (
    ActionPlan,
    ActionType,
    agent_version,
    package_name,
)

FOLDER = "actionchains"
SCHEDULE_NEXT = "schedule_next_chunk"
CLEAN_IF_FAILED = "clean_action_chain_if_previous_failed"
FORCE_RESTART = "force_restart_if_needed"
#: Ids of the states that begin the chunk after an upgrade of the agent.
VERIFY_PACKAGES = "pkg_installed"
VERIFY_AGENT = "agent_installed"

#: Function by which actions apply SLS.
STATE_APPLY = "state.apply"
_RUN = "mgrcompat.module_run"


class UnrenderableError(UsageError):
    """The chain cannot be rendered for a minion."""


@dataclass(frozen=True)
class PlannedAction:
    """An action with its number; the order is that of the enclosing sequence."""

    id: int
    plan: ActionPlan


@dataclass(frozen=True)
class ChainPlan:
    """The input of rendering: one chain for one minion."""

    chain_id: int
    machine_id: str
    actions: Sequence[PlannedAction]
    #: Packages whose upgrade replaces the running agent (setting agent_packages).
    agent_packages: Sequence[str] = ()
    epoch: int = 1
    #: The host is reached by SSH: chunks end at reboots only, since there is no agent to replace.
    agentless: bool = False
    #: Actions change a snapshot of the root: a reboot is an argument of the chunk's last state.
    transactional: bool = False


@dataclass(frozen=True)
class ChunkText:
    """One chunk file."""

    #: Name of the file, without folder.
    file: str
    text: str
    manifest: ChunkManifest


@dataclass(frozen=True)
class RenderedChain:
    """The chunk files of one minion, and the data that it needs in addition."""

    chunks: tuple[ChunkText, ...]
    manifest: ChainManifest


def file_name(chain_id: int, machine_id: str, chunk: int) -> str:
    """Return the name of a chunk file."""
    return f"actionchain_{chain_id}_{machine_id}_{chunk}.sls"


def sls_name(chain_id: int, machine_id: str, chunk: int) -> str:
    """Return the SLS name of a chunk file."""
    return f"{FOLDER}.actionchain_{chain_id}_{machine_id}_{chunk}"


def state_id(chain_id: int, action_id: int, chunk: int) -> str:
    """Return the id of an action's state."""
    return f"mgr_actionchain_{chain_id}_action_{action_id}_chunk_{chunk}"


def script_path(action_id: int) -> str:
    """Return the path below the file roots of a script action's script."""
    return f"scripts/script_{action_id}.sh"


def wheel_path(action_id: int, name: str) -> str:
    """Return the path below the file roots of an upgrade's wheel."""
    return f"{FOLDER}/agent_{action_id}/{name}"


def render(plan: ChainPlan) -> RenderedChain:
    """Return the chunk files of *plan*.

    The same plan gives the same bytes, so that rendering again after a crash is harmless.

    Raises:
        UnrenderableError: the plan has no actions, or upgrades an agent that does not exist.
        BadNameError: the machine id is invalid.
        UnwritableError: a value can't be written as YAML.
    """
    if not plan.actions:
        raise UnrenderableError("there is nothing to render: the minion has no actions")
    machine_id(plan.machine_id)
    if plan.agentless and any(a.plan.type is ActionType.upgrade_agent for a in plan.actions):
        raise UnrenderableError("can't upgrade the agent: a host reached over SSH has none")
    writer = _Writer(plan)
    for index, action in enumerate(plan.actions):
        following = plan.actions[index + 1] if index + 1 < len(plan.actions) else None
        writer.add(action, following)
    chunks = writer.finish()
    manifest = ChainManifest(
        chain_id=plan.chain_id,
        machine_id=plan.machine_id,
        epoch=plan.epoch,
        chunks=tuple(chunk.manifest for chunk in chunks),
    )
    return RenderedChain(chunks, manifest)


def upgrades_agent(plan: ActionPlan, agent_packages: Sequence[str]) -> bool:
    """Return whether an action replaces the agent that runs it."""
    if plan.type is ActionType.upgrade_agent:
        return True
    if plan.type not in (ActionType.install, ActionType.upgrade):
        return False
    return any(_is_agent(entry, agent_packages) for entry in plan.data.packages)


def _is_agent(entry: Sequence[str], agent_packages: Sequence[str]) -> bool:
    # The name may still contain an architecture known to both rpm and dpkg: catena:s390x.
    return entry[0].partition(":")[0] in agent_packages


def module_run(
    name: str, args: Mapping[str, Any], **requisites: tuple[str, str]
) -> dict[str, Any]:
    """Return a declaration of mgrcompat.module_run: name, arguments, then requisites."""
    items: list[dict[str, Any]] = [{"name": name}]
    items += [{key: value} for key, value in args.items()]
    items += [{key: [{module: ident}]} for key, (module, ident) in requisites.items()]
    return {_RUN: items}


def call_of(action: PlannedAction) -> tuple[str, dict[str, Any]]:
    """Return the function that an action's state runs, and its arguments in order."""
    plan, data = action.plan, action.plan.data
    if plan.type is ActionType.reboot:
        return "system.reboot", {"at_time": data.at_minutes}
    if plan.type is ActionType.call:
        return data.fun, _some(args=list(data.args), kwargs=dict(data.kwargs))
    if plan.type is ActionType.highstate:
        return STATE_APPLY, {}
    if plan.type is ActionType.apply:
        mods = list(data.mods) if data.listed or len(data.mods) > 1 else data.mods[0]
        kwargs = _some(pillar=dict(data.pillar), test=data.test)
        return STATE_APPLY, {"mods": mods, **_some(kwargs=kwargs)}
    mods, pillar = _shipped(action)
    return STATE_APPLY, {"mods": mods, "kwargs": {"pillar": pillar}}


def _some(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value}


def _shipped(action: PlannedAction) -> tuple[str | list[str], dict[str, Any]]:
    """Return the SLS shipped with catena and the pillar, keys sorted, that an action applies.

    As in the reference, the SLS of remote commands is text, and that of packages a list of one.
    """
    plan, data = action.plan, action.plan.data
    if plan.type is ActionType.script:
        return "remotecommands", _some(
            mgr_remote_cmd_group=data.group,
            mgr_remote_cmd_runas=data.runas,
            mgr_remote_cmd_script=f"salt://{script_path(action.id)}",
            mgr_remote_cmd_timeout=data.timeout,
        )
    if plan.type is ActionType.cmd:
        return "remotecommands", _some(
            mgr_remote_cmd_line=data.cmd,
            mgr_remote_cmd_runas=data.runas,
            mgr_remote_cmd_timeout=data.timeout,
        )
    if plan.type is ActionType.upgrade_agent:
        wheel = f"salt://{wheel_path(action.id, data.filename)}" if data.filename else ""
        return ["packages.agentupgrade"], _some(
            mgr_agent_file=wheel,
            mgr_agent_sha256=data.sha256,
            mgr_agent_version=agent_version(data),
        )
    return [f"packages.pkg{plan.type.value}"], {
        "param_pkgs": [list(entry) for entry in data.packages]
    }


@dataclass
class _Chunk:
    number: int
    states: dict[str, Any] = field(default_factory=dict)
    actions: list[ActionManifest] = field(default_factory=list)
    boundary: Boundary = Boundary.none
    #: (module, id) of the last state, which the next one requires.
    last: tuple[str, str] | None = None

    def put(self, ident: str, declaration: dict[str, Any], module: str = "mgrcompat") -> None:
        self.states[ident] = declaration
        self.last = (module, ident)

    def requires(self) -> dict[str, tuple[str, str]]:
        return {"require": self.last} if self.last else {}


class _Writer:
    """The chunks of one chain while they are written."""

    def __init__(self, plan: ChainPlan) -> None:
        self._plan = plan
        self._done: list[ChunkText] = []
        self._chunk = _Chunk(1)

    def add(self, action: PlannedAction, following: PlannedAction | None) -> None:
        if action.plan.type is ActionType.reboot and self._plan.transactional:
            self._schedule_reboot(action, following)
            return
        # A package in a snapshot does not replace the running agent; the next boot does.
        packages = () if self._plan.transactional else self._plan.agent_packages
        if upgrades_agent(action.plan, packages) and not self._plan.agentless:
            self._upgrade(action, following)
            return
        self._put_action(action)
        if action.plan.type is ActionType.reboot and following is not None:
            self._schedule_next(following)
            self._end(Boundary.reboot)

    def finish(self) -> tuple[ChunkText, ...]:
        if self._chunk.states:
            self._end(Boundary.none)
        return tuple(self._done)

    def _schedule_reboot(self, action: PlannedAction, following: PlannedAction | None) -> None:
        """End the chunk of a transactional system with a reboot."""
        chunk, minutes = self._chunk, action.plan.data.at_minutes
        reboot = {
            "current_action_id": action.id,
            "reboot_required": True,
            **_some(at_time=minutes),
        }
        ident = state_id(self._plan.chain_id, action.id, chunk.number)
        chunk.actions.append(ActionManifest(action.id, ident, action.plan.repeat))
        if following is not None:
            self._schedule_next(following, reboot)
            self._end(Boundary.reboot)
            return
        args = {"actionchain_id": self._plan.chain_id, **reboot}
        chunk.put(SCHEDULE_NEXT, module_run(CLEAN, args, **chunk.requires()))
        self._end(Boundary.none)

    def _upgrade(self, action: PlannedAction, following: PlannedAction | None) -> None:
        before = self._chunk.last
        self._schedule_next(following)
        # Both the scheduling and the upgrade require the preceding state, not each other, because
        # a failed upgrade removes the resume file.
        self._chunk.last = before
        ident = self._put_action(action)
        self._chunk.put(
            CLEAN_IF_FAILED,
            module_run(CLEAN, {}, onfail=("mgrcompat", ident)),
        )
        self._chunk.put(
            FORCE_RESTART,
            {
                "cmd.script": [
                    {"source": f"salt://{FOLDER}/force_restart_minion.sh"},
                    {"require": [{"mgrcompat": ident}]},
                ]
            },
        )
        self._end(Boundary.agent_upgrade)
        self._verify(action)

    def _verify(self, action: PlannedAction) -> None:
        data = action.plan.data
        if action.plan.type is ActionType.upgrade_agent:
            expected = {"version": agent_version(data)}
            self._chunk.put(VERIFY_AGENT, module_run("agent.verify", expected))
            return
        by_version = action.plan.type is ActionType.install
        wanted = [
            {package_name(entry): entry[-1]} if entry[-1] and by_version else package_name(entry)
            for entry in data.packages
            if _is_agent(entry, self._plan.agent_packages)
        ]
        declaration = {"pkg.installed": [{"refresh": True}, {"pkgs": wanted}]}
        self._chunk.put(VERIFY_PACKAGES, declaration, "pkg")

    def _put_action(self, action: PlannedAction) -> str:
        chunk = self._chunk
        ident = state_id(self._plan.chain_id, action.id, chunk.number)
        name, args = call_of(action)
        chunk.put(ident, module_run(name, args, **chunk.requires()))
        chunk.actions.append(ActionManifest(action.id, ident, action.plan.repeat))
        return ident

    def _schedule_next(
        self, following: PlannedAction | None, reboot: Mapping[str, Any] | None = None
    ) -> None:
        args: dict[str, Any] = {
            "actionchain_id": self._plan.chain_id,
            "chunk": self._chunk.number + 1,
        }
        if following is not None:
            args["next_action_id"] = following.id
        args.update(reboot or {})
        declaration = module_run(NEXT, args, **self._chunk.requires())
        self._chunk.put(SCHEDULE_NEXT, declaration)

    def _end(self, boundary: Boundary) -> None:
        chunk, plan = self._chunk, self._plan
        text = chunk_yaml.write(chunk.states)
        data = text.encode()
        manifest = ChunkManifest(
            number=chunk.number,
            sls=sls_name(plan.chain_id, plan.machine_id, chunk.number),
            sha256=sha256(data).hexdigest(),
            size=len(data),
            boundary=boundary,
            actions=tuple(chunk.actions),
        )
        name = file_name(plan.chain_id, plan.machine_id, chunk.number)
        self._done.append(ChunkText(name, text, manifest))
        self._chunk = _Chunk(chunk.number + 1)
