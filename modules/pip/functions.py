"""pip.*: Python packages, in the system's Python or in virtual environments."""

from __future__ import annotations

import json
import re
from typing import Any, Dict, List, Mapping, Optional, Sequence

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import replace
from catena.core.plugins import function
from catena.modules.pip import program, versions
from catena.modules.pip.options import (
    PipInstallOptions,
    PipTargets,
    command_line,
    index_environment,
    targets,
)
from catena.modules.pip.program import PythonEnvironment
from catena.modules.pip.requirement import normalized, parse, split_list
from catena.modules.pip.requirements_files import for_pip
from catena.modules.shared.arguments import listed, take

#: Versions of `pip index versions`, and of the error of old versions of pip.
_OFFERED = re.compile(r"(?:Available versions:|\(from versions:)\s*([^)\n]*)\)?")
#: First version with `pip index`.
_WITH_INDEX = "21.2"


@function()
def install(
    context: Context,
    /,
    pkgs: Any = None,
    requirements: Any = None,
    bin_env: Optional[str] = None,
    editable: Any = None,
    user: Optional[str] = None,
    cwd: Optional[str] = None,
    saltenv: Optional[str] = None,
    env_vars: Any = None,
    **options: Any,
) -> Dict[str, Any]:
    """Install packages; return {pid, retcode, stdout, stderr} of pip, without credentials.

    Args:
        context: the host.
        pkgs: list of requirements, or a text with commas.
        requirements: paths or salt:// addresses of requirements files.
        bin_env: folder of a virtual environment, a python or a pip; default: the host's python3.
        editable: folders, or repositories with #egg=NAME, for an editable installation.
        user: runs pip.
        cwd: working folder of pip.
        saltenv: environment of salt:// addresses.
        env_vars: more environment variables for pip.
        options: index_url, extra_index_url, find_links, no_index, proxy, upgrade, force_reinstall,
            ignore_installed, no_deps, pre_releases, target, timeout, cert, trusted_host,
            no_binary, global_options, log, source, exists_action, cache_dir, no_cache_dir,
            extra_args (a list of texts and {option: value}), and options of older versions of pip.

    Raises:
        CommandExecutionError: pip is missing, or a file does not exist.
        UsageError: an argument makes no sense.
    """
    given = take(PipInstallOptions, options, "pip.install")
    line, wanted = command_line(given), targets(pkgs, editable)
    if not (wanted.words or wanted.private or requirements):
        return {"retcode": 0, "stdout": "No packages to install."}
    made = _with(program.environment(bin_env, user, cwd, env_vars), line.env)
    return _run(context, made, ["install", *line.words], wanted, requirements, saltenv)


def _run(
    context: Context,
    made: PythonEnvironment,
    words: List[str],
    wanted: PipTargets,
    requirements: Any,
    saltenv: Optional[str],
) -> Dict[str, Any]:
    """Run a command of pip that takes requirements, and return what cmd.run_all would."""
    where = made.where
    with for_pip(
        context,
        requirements,
        wanted.private,
        where.user,
        where.cwd,
        saltenv or context.saltenv,
    ) as files:
        try:
            ran = program.change(context, made, [*words, *files, *wanted.words])
        finally:
            program.forget(context)
    return ran.as_dict()


def _with(made: PythonEnvironment, env: Mapping[str, str]) -> PythonEnvironment:
    return replace(made, where=replace(made.where, env={**made.where.env, **env}))


@function()
def uninstall(
    context: Context,
    /,
    pkgs: Any = None,
    requirements: Any = None,
    bin_env: Optional[str] = None,
    user: Optional[str] = None,
    cwd: Optional[str] = None,
    saltenv: Optional[str] = None,
    **options: Any,
) -> Dict[str, Any]:
    """Remove packages; return {pid, retcode, stdout, stderr} of pip.

    Args:
        context: the host.
        pkgs: list of names, or a text with commas.
        requirements: paths or salt:// addresses of requirements files.
        bin_env: folder of a virtual environment, a python or a pip; default: the host's python3.
        user: runs pip.
        cwd: working folder of pip.
        saltenv: environment of salt:// addresses.
        options: log, proxy, timeout, extra_args.

    Raises:
        CommandExecutionError: pip is missing, or a file does not exist.
        UsageError: an argument makes no sense.
    """
    line = command_line(take(PipInstallOptions, options, "pip.uninstall"))
    names = split_list(pkgs) if isinstance(pkgs, str) else [str(one) for one in listed(pkgs)]
    words = []
    for name in names:
        found = parse(name)
        if not found.name:
            raise UsageError(f"{found.shown()!r} is no name of a package")
        words.append(found.name)
    made = _with(program.environment(bin_env, user, cwd), line.env)
    wanted = PipTargets(tuple(words))
    return _run(context, made, ["uninstall", "--yes", *line.words], wanted, requirements, saltenv)


@function(reads=True)
def freeze(
    context: Context,
    /,
    bin_env: Optional[str] = None,
    user: Optional[str] = None,
    cwd: Optional[str] = None,
    env_vars: Any = None,
    **kwargs: Any,
) -> List[str]:
    """Return the installed packages as requirements: ["NAME==VERSION", …].

    Args:
        context: the host.
        bin_env: folder of a virtual environment, a python or a pip; default: the host's python3.
        user: runs pip.
        cwd: working folder of pip.
        env_vars: more environment variables for pip.
        kwargs: accepted and ignored.
    """
    made = program.environment(bin_env, user, cwd, env_vars)
    return program.query(context, made, "freeze").stdout.splitlines()


@function(name="list", reads=True)
def list_(
    context: Context,
    /,
    prefix: Optional[str] = None,
    bin_env: Optional[str] = None,
    user: Optional[str] = None,
    cwd: Optional[str] = None,
    env_vars: Any = None,
    **kwargs: Any,
) -> Dict[str, str]:
    """Return the installed packages: {normalized name: version}.

    Args:
        context: the host.
        prefix: only packages whose name begins so.
        bin_env: folder of a virtual environment, a python or a pip; default: the host's python3.
        user: runs pip.
        cwd: working folder of pip.
        env_vars: more environment variables for pip.
        kwargs: accepted and ignored.
    """
    found = program.installed(context, program.environment(bin_env, user, cwd, env_vars))
    start = normalized(str(prefix)) if prefix else ""
    return {name: one.version for name, one in found.items() if name.startswith(start)}


@function(reads=True)
def list_freeze_parse(
    context: Context,
    /,
    prefix: Optional[str] = None,
    bin_env: Optional[str] = None,
    user: Optional[str] = None,
    cwd: Optional[str] = None,
    env_vars: Any = None,
    **kwargs: Any,
) -> Dict[str, str]:
    """Return the installed packages as pip.list does."""
    return list_(context, prefix, bin_env, user, cwd, env_vars)


@function(reads=True)
def version(
    context: Context,
    /,
    bin_env: Optional[str] = None,
    cwd: Optional[str] = None,
    user: Optional[str] = None,
) -> Optional[str]:
    """Return the version of pip; None if pip prints none."""
    ran = program.query(context, program.environment(bin_env, user, cwd), "--version")
    found = re.match(r"pip (\S+)", ran.stdout)
    return found[1] if found else None


@function(reads=True)
def is_installed(
    context: Context,
    /,
    pkgname: str,
    bin_env: Optional[str] = None,
    user: Optional[str] = None,
    cwd: Optional[str] = None,
) -> bool:
    """Return whether a package is installed."""
    return normalized(str(pkgname)) in list_(context, None, bin_env, user, cwd)


@function(inline=True)
def normalize(context: Context, name: str) -> str:
    """Return the name under which pip compares packages: "Foo_Bar" is "foo-bar"."""
    return normalized(str(name))


@function(reads=True)
def list_upgrades(
    context: Context,
    /,
    bin_env: Optional[str] = None,
    user: Optional[str] = None,
    cwd: Optional[str] = None,
) -> Dict[str, str]:
    """Return the packages with a newer version in the index: {name: "VERSION [KIND]"}."""
    made = program.environment(bin_env, user, cwd)
    text = program.query(context, made, "list", "--outdated", "--format=json").stdout
    try:
        rows = json.loads(text[text.index("[") :])
        return {
            str(row["name"]): f"{row['latest_version']} [{row['latest_filetype']}]" for row in rows
        }
    except (ValueError, TypeError, KeyError) as problem:
        raise CommandExecutionError(
            f"'pip list --outdated' printed no list of packages: {text[:200]!r}"
        ) from problem


@function(reads=True)
def upgrade_available(
    context: Context,
    /,
    pkg: str,
    bin_env: Optional[str] = None,
    user: Optional[str] = None,
    cwd: Optional[str] = None,
) -> bool:
    """Return whether the index has a newer version of an installed package."""
    names = map(normalized, list_upgrades(context, bin_env, user, cwd))
    return normalized(str(pkg)) in names


@function()
def upgrade(
    context: Context,
    /,
    bin_env: Optional[str] = None,
    user: Optional[str] = None,
    cwd: Optional[str] = None,
    use_vt: bool = False,
) -> Dict[str, Any]:
    """Upgrade all packages; return {"changes": {name: {old, new}}, "result", "comment"}."""
    made = program.environment(bin_env, user, cwd)
    before = list_(context, None, bin_env, user, cwd)
    told = []
    for name in list_upgrades(context, bin_env, user, cwd):
        ran = _run(context, made, ["install", "--upgrade"], PipTargets((name,)), None, None)
        if ran["retcode"]:
            told.append(ran["stderr"] or ran["stdout"])
    after = list_(context, None, bin_env, user, cwd)
    changes = {
        name: {"old": before.get(name, ""), "new": after.get(name, "")}
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    }
    return {"changes": changes, "result": not told, "comment": "\n".join(told)}


@function(reads=True)
def list_all_versions(
    context: Context,
    /,
    pkg: str,
    bin_env: Optional[str] = None,
    include_alpha: bool = False,
    include_beta: bool = False,
    include_rc: bool = False,
    user: Optional[str] = None,
    cwd: Optional[str] = None,
    index_url: Any = None,
    extra_index_url: Any = None,
    **options: Any,
) -> Optional[List[str]]:
    """Return the versions of a package that the index offers, oldest first; None if it has none.

    Args:
        context: the host.
        pkg: name of the package.
        bin_env: folder of a virtual environment, a python or a pip; default: the host's python3.
        include_alpha: also return alpha versions.
        include_beta: also return beta versions.
        include_rc: also return candidates.
        user: runs pip.
        cwd: working folder of pip.
        index_url: address of the index.
        extra_index_url: addresses of more indexes.
        options: find_links, no_index, proxy, env_vars.
    """
    env_vars = options.pop("env_vars", None)
    line = command_line(take(PipInstallOptions, options, "pip.list_all_versions"))
    env = {**line.env, **index_environment(index_url, extra_index_url)}
    made = _with(program.environment(bin_env, user, cwd, env_vars), env)
    offered = _offered(context, made, line.words, pkg)
    kinds = {"a": include_alpha, "b": include_beta, "rc": include_rc}
    return _sorted(offered, {kind for kind, asked in kinds.items() if not asked}) or None


def _offered(
    context: Context, made: PythonEnvironment, options: Sequence[str], pkg: str
) -> List[str]:
    """Return the versions of a package in the index, in pip's order.

    Raises:
        UsageError: *pkg* is no name.
    """
    found = parse(pkg)
    if found.address or found.specifiers:
        raise UsageError(f"{found.shown()!r} is no name of a package")
    text = program.query(context, made, "--version").stdout
    current = versions.parse(text.split()[1] if len(text.split()) > 1 else "")
    first = versions.parse(_WITH_INDEX)
    words = ["index", "versions", "--pre", *options, found.line]
    if current is not None and first is not None and current.key() < first.key():
        words = ["install", *options, f"{found.line}==versions"]
    ran = program.ask(context, made, words)
    told = _OFFERED.search(f"{ran.stdout}\n{ran.stderr}")
    return [one.strip() for one in told[1].split(",")] if told else []


def _sorted(offered: List[str], unwanted: Any) -> List[str]:
    """Return versions from the oldest to the newest, without pre-releases of unwanted kinds."""
    known = [(one, text) for text in offered if (one := versions.parse(text)) is not None]
    kept = [
        pair
        for pair in known
        if not (pair[0].pre and pair[0].pre[0] in unwanted)
        and (pair[0].dev is None or not unwanted)
    ]
    return [text for _, text in sorted(kept, key=lambda pair: pair[0].key())]
