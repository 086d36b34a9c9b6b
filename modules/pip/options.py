"""Turn the arguments of pip.install into a command line and an environment."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Optional, Tuple

from catena.core.addresses import has_credentials, hide_credentials
from catena.core.errors import UsageError
from catena.core.frozen import dataclass, field
from catena.modules.pip.requirement import egg_of, parse, split_list
from catena.modules.shared.arguments import listed, truth

_PROTOCOLS = ("http", "https", "file", "ftp")
_EXISTS_ACTIONS = ("s", "i", "w", "b")


@dataclass(frozen=True)
class PipInstallOptions:
    """Options of pip.install, with Salt's names and defaults."""

    use_wheel: bool = False
    no_use_wheel: bool = False
    no_binary: Any = None
    log: Optional[str] = None
    proxy: Any = None
    timeout: Any = None
    find_links: Any = None
    index_url: Any = None
    extra_index_url: Any = None
    no_index: bool = False
    mirrors: Any = None
    build: Optional[str] = None
    target: Optional[str] = None
    download: Optional[str] = None
    download_cache: Optional[str] = None
    cache_dir: Optional[str] = None
    source: Optional[str] = None
    upgrade: bool = False
    force_reinstall: bool = False
    ignore_installed: bool = False
    exists_action: Optional[str] = None
    no_deps: bool = False
    no_install: bool = False
    no_download: bool = False
    global_options: Any = None
    install_options: Any = None
    pre_releases: bool = False
    cert: Optional[str] = None
    allow_all_external: bool = False
    allow_external: Any = None
    allow_unverified: Any = None
    process_dependency_links: bool = False
    trusted_host: Any = None
    no_cache_dir: bool = False
    extra_args: Any = None
    #: Without effect here: pip never looks for a newer pip, and there is no terminal.
    disable_version_check: bool = True
    use_vt: bool = False


#: Options of pip without a value, with one, and with one per item of a list.
_FLAGS = (
    "use_wheel", "no_use_wheel", "no_index", "upgrade", "force_reinstall", "ignore_installed",
    "no_deps", "no_install", "no_download", "pre_releases", "allow_all_external",
    "process_dependency_links", "no_cache_dir",
)  # fmt: skip
_VALUES = ("log", "timeout", "build", "target", "download", "source", "exists_action", "cert")
_LISTS = {
    "global_options": "--global-option",
    "install_options": "--install-option",
    "allow_external": "--allow-external",
    "allow_unverified": "--allow-unverified",
    "trusted_host": "--trusted-host",
}


@dataclass(frozen=True)
class CommandLine:
    """Words for pip, and environment variables for what may contain credentials."""

    words: Tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


def command_line(options: PipInstallOptions) -> CommandLine:
    """Return the options of `pip install`.

    Addresses are passed as environment variables, because other users can read command lines.

    Raises:
        UsageError: a value is not what its option takes.
    """
    _check(options)
    words = [
        "--pre" if name == "pre_releases" else f"--{name.replace('_', '-')}"
        for name in _FLAGS
        if truth(getattr(options, name))
    ]
    for name in _VALUES:
        value = getattr(options, name)
        if value not in (None, "", False):
            words.append(f"--{name.replace('_', '-')}={_text(value, name)}")
    for name, option in _LISTS.items():
        words += [f"{option}={_text(one, name)}" for one in listed(getattr(options, name))]
    if options.no_binary:
        words.append(f"--no-binary={','.join(map(str, listed(options.no_binary)))}")
    cache = options.download_cache or options.cache_dir
    if cache:
        words.append(f"--cache-dir={_text(cache, 'cache_dir')}")
    env: Dict[str, str] = {}
    _addresses(options, words, env)
    _extra(options.extra_args, words, env)
    return CommandLine(tuple(words), env)


def _text(value: Any, name: str) -> str:
    if isinstance(value, (Mapping, list, tuple)) or "\0" in str(value):
        raise UsageError(f"{name} must be a text, not {type(value).__name__}")
    return str(value)


def _check(options: PipInstallOptions) -> None:
    if options.timeout:
        whole = isinstance(options.timeout, int) or str(options.timeout).isdigit()
        if not whole or isinstance(options.timeout, bool):
            raise UsageError(f"'{options.timeout}' is not a valid timeout, must be an integer")
    action = options.exists_action
    if action and str(action).lower() not in _EXISTS_ACTIONS:
        raise UsageError(
            "The exists_action pip option only supports the values s, i, w, and b. "
            f"'{action}' is not valid."
        )
    if truth(options.no_index) and (options.index_url or options.extra_index_url):
        raise UsageError(
            "'no_index' and ('index_url' or 'extra_index_url') are mutually exclusive."
        )
    if options.mirrors:
        raise UsageError(
            "pip >= 7.0.0 does not support mirror argument: use index_url and/or extra_index_url "
            "instead"
        )


def checked_url(value: Any) -> str:
    """Return the address of an index.

    Raises:
        UsageError: it is none.
    """
    text = str(value).strip()
    scheme, mark, rest = text.partition("://")
    if not mark or not rest or scheme.lower() not in _PROTOCOLS or re.search(r"\s", text):
        raise UsageError(f"'{hide_credentials(text)[:200]}' is not a valid URL")
    return text


def index_environment(index_url: Any, extra_index_url: Any) -> Dict[str, str]:
    """Return the environment variables that name indexes for pip.

    Raises:
        UsageError: an address is none.
    """
    env = {}
    if index_url:
        env["PIP_INDEX_URL"] = checked_url(index_url)
    if extra_index_url:
        env["PIP_EXTRA_INDEX_URL"] = " ".join(map(checked_url, listed(extra_index_url)))
    return env


def _addresses(options: PipInstallOptions, words: List[str], env: Dict[str, str]) -> None:
    env.update(index_environment(options.index_url, options.extra_index_url))
    links = [str(one) for one in listed(options.find_links)]
    remote = [checked_url(one) for one in links if "://" in one]
    words += [f"--find-links={one}" for one in links if "://" not in one]
    if remote:
        env["PIP_FIND_LINKS"] = " ".join(remote)
    if options.proxy:
        env["PIP_PROXY"] = str(options.proxy)


def _extra(given: Any, words: List[str], env: Dict[str, str]) -> None:
    """Add the options that pip has and Salt does not know.

    Raises:
        UsageError: an item is neither a text nor {option: value}, or has credentials without a
            long option to which they belong.
    """
    for item in given if isinstance(given, (list, tuple)) else listed(given):
        pairs = list(item.items()) if isinstance(item, Mapping) else [(item, None)]
        for key, value in pairs:
            if isinstance(value, (Mapping, list, tuple)):
                raise UsageError(f"Too many levels in: {key}")
            name, text = str(key), None if value is None else str(value)
            if text is None and name.startswith("--") and "=" in name:
                name, _, text = name.partition("=")
            if not has_credentials(f"{name} {text}"):
                words += [name] if text is None else _pair(name, text)
            elif text is not None and re.fullmatch(r"--[a-z][a-z-]*", name):
                variable = f"PIP_{name[2:].replace('-', '_').upper()}"
                env[variable] = f"{env[variable]} {text}" if variable in env else text
            else:
                raise UsageError(
                    "extra_args: an address with credentials must follow its option, as in "
                    "{--index-url: ADDRESS}"
                )


def _pair(name: str, value: str) -> List[str]:
    return [f"{name}={value}"] if name.startswith("--") else [name, value]


@dataclass(frozen=True)
class PipTargets:
    """What is to be installed: words for the command line, and lines for a private file."""

    words: Tuple[str, ...] = ()
    #: Lines of a requirements file, for requirements with credentials.
    private: Tuple[str, ...] = ()


def targets(pkgs: Any, editable: Any) -> PipTargets:
    """Return the packages to install.

    Args:
        pkgs: a list of requirements, or a text in which commas separate them.
        editable: paths or repositories (with #egg=NAME) for an editable installation.

    Raises:
        UsageError: one of them is no requirement.
    """
    words: List[str] = []
    private: List[str] = []
    for one in listed(pkgs) if not isinstance(pkgs, str) else split_list(pkgs):
        line = parse(one).line
        (private if has_credentials(line) else words).append(line)
    for one in listed(editable):
        entry = checked_editable(str(one))
        if has_credentials(entry):
            private.append(f"--editable {entry}")
        else:
            words.append(f"--editable={entry}")
    return PipTargets(tuple(words), tuple(private))


def is_local(entry: str) -> bool:
    """Return whether an editable entry is a folder of this host."""
    return entry == "." or entry.startswith(("file://", "/", "./", "../"))


def checked_editable(entry: str) -> str:
    """Return an entry of `editable`.

    Raises:
        UsageError: it is no local folder and names no egg.
    """
    if any(mark in entry for mark in "\r\n\0") or entry.startswith("-"):
        raise UsageError(f"{entry[:80]!r} can't be installed in editable mode")
    if not is_local(entry) and not egg_of(entry):
        raise UsageError("You must specify an egg for this editable")
    return entry
