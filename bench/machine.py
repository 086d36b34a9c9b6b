"""Describe a run: machine, kernel, load, versions, time."""

from __future__ import annotations

import datetime
import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path

from bench.tools import COMMANDS, Tools


def describe(tools: Tools, quick: bool) -> dict[str, object]:
    """Return the facts known before the run."""
    memory = re.search(r"MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text())
    model = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    return {
        "began": _now(),
        "quick": quick,
        "machine": {
            "cpu": model[1].strip() if model else platform.machine(),
            "cores": os.cpu_count(),
            "memory_gb": round(int(memory[1]) * 1024 / 1e9) if memory else None,
            "system": _system(),
            "kernel": platform.release(),
            "python": platform.python_version(),
        },
        "versions": {tool: tools.version(tool) for tool in COMMANDS if tools.has(tool)},
        "load_before": os.getloadavg()[0],
    }


def finish(about: Mapping[str, object]) -> dict[str, object]:
    """Return *about* with the facts known after the run."""
    return {**about, "ended": _now(), "load_after": os.getloadavg()[0]}


def sentence(about: Mapping[str, object]) -> str:
    """Return the line above the table."""
    box, versions = about["machine"], about["versions"]
    assert isinstance(box, Mapping) and isinstance(versions, Mapping)
    kind = "Quick run" if about["quick"] else "Full run"
    return (
        f"{kind} of {about['began']} to {about['ended']}: {box['cores']} × {box['cpu']}, "
        f"{box['memory_gb']} GB, {box['system']}, kernel {box['kernel']}, Python {box['python']}; "
        f"load {about['load_before']:.1f} before, {about['load_after']:.1f} after. "
        f"{'; '.join(str(version) for version in versions.values())}."
    )


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")


def _system() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        return platform.system()
