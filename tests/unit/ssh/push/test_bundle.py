"""The bundle for hosts is complete, reproducible and needs only the standard library."""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import catena
from catena.ssh.push import bundle as bundles
from catena.ssh.push.bundle import bundle

#: What shipped code imports on purpose though no host has it: it is asked of the master
#: (`core.context.Rendering`), or only where a host has it by itself.
ABSENT = {
    "catena.renderers.filters_data",
    "catena.renderers.gpg",
    "catena.renderers.jinja",
    "catena.renderers.mako",
    "catena.renderers.nacl",
    "catena.renderers.py",
    "catena.renderers.pyobjects",
    "catena.renderers.stateconf",
    "catena.renderers.yamlex",
}
#: Third-party modules that are imported inside functions.
FOREIGN = {"jmespath", "msgpack", "yaml", "zmq"}


def sources() -> dict[str, str]:
    with zipfile.ZipFile(io.BytesIO(bundle().data)) as archive:
        return {name: archive.read(name).decode("utf-8") for name in archive.namelist()}


def module_of(name: str) -> str:
    return name[: -len(".py")].replace("/", ".").removesuffix(".__init__")


class _Run(ast.NodeTransformer):
    """Leaves out what only type checkers read."""

    def visit_If(self, node: ast.If) -> ast.AST | None:
        typing = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        return None if typing else self.generic_visit(node)


def imports(text: str) -> Iterator[tuple[str, bool]]:
    """Yield (dotted name, whether at module level); names of `from x import y` as x and x.y."""
    tree = _Run().visit(ast.parse(text))
    top = {id(node) for node in tree.body}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, id(node) in top
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "", id(node) in top
            for alias in node.names:
                yield f"{node.module}.{alias.name}", id(node) in top


def test_same_files_make_the_same_bytes() -> None:
    first = bundle()
    bundles.bundle.cache_clear()
    assert bundle() == first
    names = [info.filename for info in zipfile.ZipFile(io.BytesIO(first.data)).infolist()]
    assert names == sorted(names)


def all_modules() -> set[str]:
    """Return every module of catena, by its dotted name."""
    home = Path(catena.__file__).parent
    return {
        module_of(f"catena/{mount.name}/{path.relative_to(mount.resolve()).as_posix()}")
        for mount in home.iterdir()
        if mount.is_symlink()
        for path in mount.resolve().rglob("*.py")
    }


def test_bundle_contains_all_imported_modules() -> None:
    elsewhere = all_modules() - {module_of(name) for name in sources()}
    missing = {
        wanted: name
        for name, text in sources().items()
        for wanted, _ in imports(text)
        if wanted in elsewhere
    }
    assert set(missing) - ABSENT == set(), missing


#: What is imported only where something is rendered.
YAML = tuple(
    f"catena/renderers/yaml_{name}.py" for name in ("builder", "faults", "parser", "writer")
)


def test_nothing_but_the_standard_library_is_needed() -> None:
    known = {*sys.stdlib_module_names, "catena", "_sha2", "_sha256"}
    needed = {}
    for name, text in sources().items():
        if not name.startswith("catena/") or name in YAML:
            continue
        for wanted, top in imports(text):
            first = wanted.partition(".")[0]
            if first not in known and (top or first not in FOREIGN):
                needed[wanted] = name
    assert needed == {}


def test_every_module_loads_where_nothing_else_is(tmp_path: Path) -> None:
    path = tmp_path / "bundle.zip"
    path.write_bytes(bundle().data)
    modules = [module_of(name) for name in sources() if name.startswith("catena/")]
    program = f"""
import sys
sys.path.insert(0, {str(path)!r})
from importlib import import_module
for name in {modules!r}:
    import_module(name)
loaded = [m for m in sys.modules.values() if "site-packages" in (getattr(m, "__file__", "") or "")]
assert not loaded, loaded
"""
    argv = [sys.executable, "-I", "-S", "-c", program]
    ran = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr


def test_start_command_contains_only_folder_and_hash() -> None:
    argv = bundle().argv("/usr/bin/python3", "/home/karl/.cache/catena")
    assert argv[:3] == ["/usr/bin/python3", "-I", "-c"]
    assert argv[4:] == ["/home/karl/.cache/catena", bundle().sha256]
    assert len(argv[3]) < 16_384


def test_bootstrap_can_be_read_by_an_old_python() -> None:
    assert ast.parse(bundles.bootstrap(), feature_version=(3, 6)).body
