"""The user's SSH configuration: the route to a target, and the keys.

paramiko parses the files as ssh_config(5); `Include` is expanded here. Their values pass the same
grammar as a roster's fields. Host keys are always checked: StrictHostKeyChecking has no effect.
"""

from __future__ import annotations

import os
import pwd
import re
import shlex
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from catena.core.config.folders import CONFIG_DIR
from catena.core.config.master import MasterSettings
from catena.core.errors import ConfigError, UsageError
from catena.core.files import read_limited
from catena.core.frozen import dataclass, field, replace
from catena.ssh.connect import library
from catena.ssh.connect.host_keys import SSH_PORT, lookup_name
from catena.ssh.connect.target import SshTarget, host_name, port_number, user_name

SIZE_LIMIT = 1024 * 1024
#: Maximum depth of nested `Include`, as in ssh.
DEPTH_LIMIT = 16
#: Maximum number of jump hosts on the route to one target.
HOP_LIMIT = 8
_INCLUDE = re.compile(r"\s*include(?:\s*=\s*|\s+)(.+)\Z", re.IGNORECASE)
_IDENTITY = re.compile(r"\s*identityfile(?:\s*=\s*|\s+)\"?~/", re.IGNORECASE)
_PROXY = re.compile(r"\s*proxycommand\b", re.IGNORECASE)
#: Placeholder for "%" in a ProxyCommand while paramiko parses it.
_PERCENT = "\x01"
_IDENTITIES = ("id_ed25519", "id_ecdsa", "id_rsa")
_GLOBAL = (Path("/etc/ssh/ssh_known_hosts"), Path("/etc/ssh/ssh_known_hosts2"))


@dataclass(frozen=True)
class ClientFiles:
    """Paths of the files of the user that connects."""

    home: Path
    #: Configuration files; for each option the first value wins.
    configs: tuple[Path, ...]
    #: catena's own known_hosts file, in addition to the user's.
    own_known_hosts: Path
    #: Socket of the user's SSH agent, or "".
    agent: str = ""
    #: The command that accepts an unknown host key, without the host.
    trust_command: str = "catena ssh-key trust"


@dataclass(frozen=True)
class Hop:
    """One SSH connection on the way to a target; the last one is the target's own."""

    host: str
    port: int
    user: str
    #: Private keys to try, in order; missing files are skipped.
    identities: tuple[Path, ...]
    #: Certificates in addition to the keys' own `-cert.pub`.
    certificates: tuple[Path, ...] = ()
    #: Socket of the SSH agent, "" for none.
    agent: str = ""
    #: Use only agent keys whose public part is among `identities`.
    identities_only: bool = False
    known_hosts: tuple[Path, ...] = ()
    #: The name of the host in known_hosts.
    key_name: str = ""
    #: The name for messages: as the user gave it, with the port if given.
    asked: str = ""
    #: Command and arguments of a ProxyCommand, which runs without a shell; (): none.
    proxy_command: tuple[str, ...] = ()
    #: Password from the roster; jump hosts have none.
    password: str = field(default="", repr=False)
    key_password: str = field(default="", repr=False)


def user_files(own_known_hosts: Path, config: str = "", trust_command: str = "") -> ClientFiles:
    """Return the files of the user that runs this.

    Args:
        own_known_hosts: catena's own file.
        config: an SSH configuration instead of ~/.ssh/config and /etc/ssh/ssh_config.
        trust_command: the command in messages; "" for the default.
    """
    home = Path(os.environ.get("HOME") or pwd.getpwuid(os.geteuid()).pw_dir)
    configs = (home / ".ssh" / "config", Path("/etc/ssh/ssh_config"))
    return ClientFiles(
        home,
        (Path(config),) if config else configs,
        own_known_hosts,
        os.environ.get("SSH_AUTH_SOCK", ""),
        *((trust_command,) if trust_command else ()),
    )


def files_of(settings: MasterSettings, config_dir: str) -> ClientFiles:
    """Return the files of the user, as a master's settings define them.

    Args:
        settings: the master's.
        config_dir: folder of the configuration, for the commands in messages.
    """
    usual = Path(config_dir) == Path(CONFIG_DIR)
    trust = "" if usual else f"catena -c {config_dir} ssh-key trust"
    return user_files(Path(settings.ssh_known_hosts_file), settings.ssh_config_file, trust)


def route(target: SshTarget, files: ClientFiles) -> tuple[Hop, ...]:
    """Return the route to *target*: jump hosts, then the target itself.

    Raises:
        ConfigError: the SSH configuration can't be used, or its jump hosts form a loop.
        TargetError: a value of it is invalid.
    """
    paramiko = library.paramiko()

    try:
        config = paramiko.SSHConfig.from_text(_text(files))
        found = _options(config, target.host)
        hop = _hop(found, target.host, files, target)
        return (*_jumps(config, found, files, (target.host,)), hop)
    except paramiko.SSHException as error:
        raise ConfigError(f"the SSH configuration: {error}") from None


def _options(config: Any, host: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = config.lookup(host)
    return found


def _jumps(
    config: Any, found: Mapping[str, Any], files: ClientFiles, seen: tuple[str, ...]
) -> list[Hop]:
    """Return the hops before the host of *found*, including those of its jump hosts."""
    text = found.get("proxyjump") or "none"
    if text.lower() == "none":
        return []
    hops: list[Hop] = []
    for word in text.split(","):
        user, host, port = _jump(word.strip())
        if host in seen or len(seen) > HOP_LIMIT:
            raise ConfigError(f"ProxyJump goes in a circle: {' > '.join((*seen, host))}")
        theirs = _options(config, host)
        # A list is the whole route; only its first host may have jump hosts of its own.
        hops += [] if hops else _jumps(config, theirs, files, (*seen, host))
        hop = _hop(theirs, host, files, None)
        hops.append(_placed(hop, user, port, theirs))
    return hops


def _jump(word: str) -> tuple[str, str, int | None]:
    found = re.match(r"(?:ssh://)?(?:([^@\s]+)@)?(?:\[([^\]]+)\]|([^:@\s]+))(?::(\d+))?/?\Z", word)
    if found is None:
        raise ConfigError(f"ProxyJump: {word[:80]!r} is not of the form user@host:port")
    user, six, host, port = found.groups()
    name = host_name(six or host)
    return user_name(user) if user else "", name, port_number(port) if port else None


def _placed(hop: Hop, user: str, port: int | None, found: Mapping[str, Any]) -> Hop:
    if port is None:
        return replace(hop, user=user or hop.user)
    name = hop.key_name if found.get("hostkeyalias") else lookup_name(hop.host, port)
    asked = _asked(hop.asked, port)
    return replace(hop, user=user or hop.user, port=port, key_name=name, asked=asked)


def _asked(name: str, port: int | None) -> str:
    shown = f"[{name}]" if ":" in name else name
    return f"{shown}:{port}" if port else shown


def _hop(
    found: Mapping[str, Any], asked: str, files: ClientFiles, target: SshTarget | None
) -> Hop:
    host = host_name(str(found.get("hostname") or asked))
    port = (target.port if target else None) or port_number(found.get("port") or SSH_PORT)
    user = (target.user if target else "") or user_name(str(found.get("user") or _login()))
    alias = found.get("hostkeyalias")
    only = _yes(found, "identitiesonly") or bool(target and target.identities_only)
    return Hop(
        host=host,
        port=port,
        user=user,
        identities=_identities(found, files, target),
        certificates=_paths(found.get("certificatefile"), files),
        agent=_agent(found, files),
        identities_only=only,
        known_hosts=_known_hosts(found, files),
        key_name=host_name(str(alias)).lower() if alias else lookup_name(host, port),
        asked=_asked(asked, target.port if target else None),
        proxy_command=_proxy(found, host, port, user),
        password=target.password if target else "",
        key_password=target.private_key_password if target else "",
    )


def _login() -> str:
    return pwd.getpwuid(os.geteuid()).pw_name


def _yes(found: Mapping[str, Any], key: str) -> bool:
    return str(found.get(key, "no")).lower() in ("yes", "true")


def _paths(value: Any, files: ClientFiles) -> tuple[Path, ...]:
    words = [value] if isinstance(value, str) else value or []
    return tuple(_path(str(word), files) for word in words if str(word).lower() != "none")


def _path(text: str, files: ClientFiles) -> Path:
    text = text.strip('"').replace("%d", str(files.home)).replace("%%", "%")
    if text == "~" or text.startswith("~/"):
        return files.home / text[2:]
    return files.home / ".ssh" / text if not text.startswith("/") else Path(text)


def _identities(
    found: Mapping[str, Any], files: ClientFiles, target: SshTarget | None
) -> tuple[Path, ...]:
    if target and target.private_key:
        return (_path(target.private_key, files),)
    named = _paths(found.get("identityfile"), files)
    return named or tuple(files.home / ".ssh" / name for name in _IDENTITIES)


def _agent(found: Mapping[str, Any], files: ClientFiles) -> str:
    asked = str(found.get("identityagent") or "SSH_AUTH_SOCK")
    if asked.lower() == "none":
        return ""
    if asked == "SSH_AUTH_SOCK":
        return files.agent
    if asked.startswith("$"):
        return os.environ.get(asked[1:], "")
    return str(_path(asked, files))


def _known_hosts(found: Mapping[str, Any], files: ClientFiles) -> tuple[Path, ...]:
    theirs = str(found.get("userknownhostsfile") or "").split()
    globals_ = str(found.get("globalknownhostsfile") or "").split()
    default = tuple(files.home / ".ssh" / name for name in ("known_hosts", "known_hosts2"))
    mine = _paths(theirs, files) if theirs else default
    return (files.own_known_hosts, *mine, *(_paths(globals_, files) if globals_ else _GLOBAL))


def _proxy(found: Mapping[str, Any], host: str, port: int, user: str) -> tuple[str, ...]:
    """Return ProxyCommand as a list of arguments, which no shell interprets."""
    text = found.get("proxycommand")
    if not text or str(found.get("proxyjump") or "none").lower() != "none":
        return ()
    try:
        words = shlex.split(str(text))
    except ValueError as error:
        raise ConfigError(f"ProxyCommand: {error}") from None
    if words and words[0] == "exec":
        words = words[1:]
    values = {"h": host, "p": str(port), "r": user, "n": host}
    token = re.compile(f"{_PERCENT}([hprn{_PERCENT}])")
    return tuple(
        token.sub(lambda sign: values.get(sign[1], "%"), word).replace(_PERCENT, "%")
        for word in words
    )


# -- the files ---------------------------------------------------------------------------------


def _text(files: ClientFiles) -> str:
    texts: list[str] = []
    for path in files.configs:
        lines = "\n".join(_read(path, files, 0))
        # Each file starts outside any Host block; this line ends the block of the previous file.
        texts.append(lines if not texts else f"Host *\n{lines}")
    return "\n".join(texts)


def _read(path: Path, files: ClientFiles, depth: int) -> Iterator[str]:
    if depth > DEPTH_LIMIT:
        raise ConfigError(f"{path}: Include goes deeper than {DEPTH_LIMIT}")
    try:
        text = read_limited(path, SIZE_LIMIT).decode("utf-8", "replace")
    except FileNotFoundError:
        return
    except PermissionError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    _check_owner(path)
    for line in text.splitlines():
        included = _INCLUDE.match(line)
        if included is None:
            yield _directive(line, path, files)
            continue
        for word in shlex.split(included[1]):
            for file in _included(word, path, files):
                yield from _read(file, files, depth + 1)


def _directive(line: str, path: Path, files: ClientFiles) -> str:
    """Return *line*; refuse one that would run a program while the file is parsed."""
    if re.match(r"\s*match\b.*\bexec\b", line, re.IGNORECASE):
        raise UsageError(f"{path}: Match exec is not supported: it runs a shell for every host")
    if _PROXY.match(line):
        # paramiko does not know the roster's port and user; `_proxy` inserts them.
        return line.replace("%", _PERCENT)
    # paramiko would expand "~" from the environment variable HOME.
    key = _IDENTITY.match(line)
    return f"{key[0][:-2]}{files.home}/{line[key.end() :]}" if key else line


def _included(word: str, path: Path, files: ClientFiles) -> Sequence[Path]:
    folder = files.home / ".ssh" if files.home in path.parents else path.parent
    if word.startswith("~/"):
        word = str(files.home / word[2:])
    pattern = Path(word) if word.startswith("/") else folder / word
    base = Path(pattern.anchor)
    return sorted(base.glob(str(pattern.relative_to(base))))


def _check_owner(path: Path) -> None:
    """Refuse a file that another user could have written, as ssh does."""
    found = path.stat()
    if found.st_uid not in (0, os.geteuid()) or stat.S_IMODE(found.st_mode) & 0o022:
        raise ConfigError(f"{path}: others may write to it, or it is somebody else's")
