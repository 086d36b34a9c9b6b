"""selinux.*: states of SELinux: mode, booleans, modules, and contexts of files and ports."""

from __future__ import annotations

from catena.states.selinux.policy import (
    fcontext_policy_absent,
    fcontext_policy_applied,
    fcontext_policy_present,
    port_policy_absent,
    port_policy_present,
)
from catena.states.selinux.system import boolean, mode, module, module_install, module_remove

__all__ = [
    "boolean",
    "fcontext_policy_absent",
    "fcontext_policy_applied",
    "fcontext_policy_present",
    "mode",
    "module",
    "module_install",
    "module_remove",
    "port_policy_absent",
    "port_policy_present",
]
