"""Custom `_grains` of the file roots: every public function of a file returns a mapping."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import FunctionType, MappingProxyType, ModuleType
from typing import Any, Dict, Mapping, Optional

from catena.core.custom_faults import error_line, file_name, module_name
from catena.core.logs import logger
from catena.core.signatures import parameters
from catena.runtime.custom_code import CheckedLoader

log = logger(__name__)


def custom_grains(
    folder: Path, grains: Mapping[str, Any], options: Mapping[str, Any] = MappingProxyType({})
) -> Dict[str, Any]:
    """Return the grains of the custom files in *folder*, which run in the order of their names.

    Args:
        folder: where `saltutil.sync_grains` stores them; may be missing.
        grains: the grains so far; passed to functions with a parameter `grains`.
        options: the minion's, for `__opts__`.

    A file that fails is logged and contributes nothing.
    """
    found: Dict[str, Any] = {}
    if not folder.is_dir():
        return found
    from catena.runtime.salt.current import without_host
    from catena.runtime.salt.names import salt_names

    for path in sorted(folder.glob("*.py")):
        early = {**grains, **found}
        with salt_names(without_host(early, options)):
            module = _load(path, {**options, "grains": early})
            if module is None:
                continue
            for name, function in sorted(vars(module).items()):
                if name.startswith("_") or not isinstance(function, FunctionType):
                    continue
                if function.__module__ == module.__name__:
                    found.update(_call(path, function, {**grains, **found}))
    return found


def _load(path: Path, options: Mapping[str, Any]) -> Optional[ModuleType]:
    name = module_name("grains", path.stem)
    loader = CheckedLoader(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    if spec is None or spec.loader is None:
        return None
    module = importlib.util.module_from_spec(spec)
    names = {"__grains__": options["grains"], "__opts__": options, "__salt__": {}}
    module.__dict__.update(names)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
        said = module.__virtual__() if hasattr(module, "__virtual__") else True
        refused = said is False or (isinstance(said, tuple) and not said[0])
        return None if refused else module
    except (Exception, SystemExit) as error:
        log.error("cannot load custom grains: %s", error_line(error, file_name(name)))
        log.debug("%s", path, exc_info=True)
        return None
    finally:
        sys.modules.pop(name, None)


def _call(path: Path, function: FunctionType, grains: Dict[str, Any]) -> Dict[str, Any]:
    wants = any(one.name == "grains" for one in parameters(function))
    try:
        value = function(grains=grains) if wants else function()
    except (Exception, SystemExit) as error:
        log.error("custom grain %s failed: %s", function.__name__, error_line(error))
        log.debug("%s", path, exc_info=True)
        return {}
    if value and not isinstance(value, dict):
        log.error("custom grain %s of %s returned no mapping", function.__name__, path)
        return {}
    return dict(value or {})
