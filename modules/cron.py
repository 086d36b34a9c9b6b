"""cron.*: users' crontabs, with managed lines marked as by Salt.

A managed line follows a comment that begins with "# Lines below here are managed" or contains
`SALT_CRON_IDENTIFIER:<id>`. Crontabs that Salt has written can therefore be used unchanged.
"""

from __future__ import annotations

import pwd
import re
import shutil
from typing import Any, Dict, List, Optional, Tuple

from catena.core.context import Context
from catena.core.dry_run import only_looking
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass
from catena.core.plugins import function
from catena.modules.shared.arguments import truth
from catena.modules.shared.command.options import RunOptions
from catena.modules.shared.command.run import run

TAG = "# Lines below here are managed by Salt, do not edit\n"
IDENTIFIER = "SALT_CRON_IDENTIFIER"
OFF = "#DISABLED#"
TIMES = ("minute", "hour", "daymonth", "month", "dayweek")
_SPECIALS = (
    "@reboot", "@hourly", "@daily", "@weekly", "@monthly", "@yearly", "@annually", "@midnight",
)  # fmt: skip
_ENV = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)\Z")
_FIELD = re.compile(r"[0-9A-Za-z*,/~?#LW-]+\Z")


@dataclass(frozen=True)
class CronJob:
    """One job line of a crontab."""

    cmd: str
    #: Five time fields, or one special word (@reboot).
    when: Tuple[str, ...] = ("*",) * 5
    identifier: str = ""
    comment: str = ""
    commented: bool = False

    def lines(self) -> List[str]:
        """Return the lines of the crontab."""
        head = ""
        if self.comment or self.identifier:
            head = "# " + self.comment.rstrip().replace("\n", "\n# ")
            if self.identifier:
                head = f"{head.rstrip()} {IDENTIFIER}:{self.identifier}"
        text = f"{' '.join(self.when)} {self.cmd}"
        return [*([head] if head else []), f"{OFF if self.commented else ''}{text}"]


@dataclass(frozen=True)
class Table:
    """A user's crontab: unmanaged lines first, then the managed ones."""

    before: Tuple[str, ...] = ()
    env: Tuple[Tuple[str, str], ...] = ()
    jobs: Tuple[CronJob, ...] = ()

    def text(self) -> str:
        """Return the text for crontab."""
        lines = list(self.before)
        if self.env or self.jobs:
            lines.append(TAG.rstrip("\n"))
        lines.extend(f"{name}={value}" for name, value in self.env)
        for job in self.jobs:
            lines.extend(job.lines())
        return "".join(f"{line}\n" for line in lines)


def _job(line: str, comment: List[str]) -> Optional[CronJob]:
    commented = line.startswith(OFF)
    body = line[len(OFF) :] if commented else line
    words = body.split(None, 1 if body.startswith("@") else 5)
    count = 1 if body.startswith("@") else 5
    if len(words) != count + 1:
        return None
    text, identifier = "\n".join(comment), ""
    if IDENTIFIER + ":" in text:
        text, _, identifier = text.partition(IDENTIFIER + ":")
    return CronJob(words[count], tuple(words[:count]), identifier.strip(), text.strip(), commented)


def parse(text: str) -> Table:
    """Parse a crontab; keep the text above the mark unchanged."""
    before, mark, below = text.partition(TAG)
    if not mark:
        return Table(tuple(text.splitlines()))
    env: List[Tuple[str, str]] = []
    jobs: List[CronJob] = []
    comment: List[str] = []
    for line in below.splitlines():
        if line.startswith("#") and not line.startswith(OFF):
            comment.append(line.lstrip("#").strip())
            continue
        found = _ENV.match(line)
        job = None if found else _job(line, comment)
        if found:
            env.append((found.group(1), found.group(2)))
        elif job:
            jobs.append(job)
        comment = []
    return Table(tuple(before.splitlines()), tuple(env), tuple(jobs))


def position(table: Table, cmd: str, identifier: Any) -> Optional[int]:
    """Return the position of a job, found by its identifier or else its command."""
    if identifier:
        for number, job in enumerate(table.jobs):
            if job.identifier == str(identifier):
                return number
    for number, job in enumerate(table.jobs):
        if job.cmd == cmd and (not job.identifier or not identifier):
            return number
    return None


def with_job(table: Table, job: CronJob) -> Table:
    """Return *table* with *job*, which replaces an existing line of the same job."""
    place = position(table, job.cmd, job.identifier)
    if place is None:
        return Table(table.before, table.env, (*table.jobs, job))
    return Table(table.before, table.env, (*table.jobs[:place], job, *table.jobs[place + 1 :]))


def without_job(table: Table, cmd: str, identifier: Any) -> Table:
    """Return *table* without a job."""
    place = position(table, cmd, identifier)
    if place is None:
        return table
    return Table(table.before, table.env, (*table.jobs[:place], *table.jobs[place + 1 :]))


def with_env(table: Table, name: str, value: Optional[str]) -> Table:
    """Return *table* with a variable set, or without it when *value* is None."""
    if value is not None and name in dict(table.env):
        env = tuple((key, value if key == name else old) for key, old in table.env)
    else:
        env = tuple(pair for pair in table.env if pair[0] != name)
        env += () if value is None else ((name, value),)
    return Table(table.before, env, table.jobs)


def _one_line(value: Any, what: str) -> str:
    text = str(value)
    if "\n" in text or "\0" in text:
        raise UsageError(f"{what} of a cron job must be one line")
    return text


def job_of(cmd: str, times: Dict[str, Any], special: Any = None, **more: Any) -> CronJob:
    """Return a job.

    Raises:
        UsageError: a time field or the special word is malformed, or a text has several lines.
    """
    if special:
        if str(special) not in _SPECIALS:
            raise UsageError(f"special: {special!r} is none of {', '.join(_SPECIALS)}")
        when: Tuple[str, ...] = (str(special),)
    else:
        when = tuple(str(times.get(name, "*")) for name in TIMES)
        for name, value in zip(TIMES, when):
            if not _FIELD.match(value):
                raise UsageError(f"{name}: {value!r} is not a field of a cron table")
    identifier = more.get("identifier")
    return CronJob(
        _one_line(cmd, "the command"),
        when,
        _one_line(identifier, "the identifier") if identifier else "",
        str(more.get("comment") or ""),
        truth(more.get("commented")),
    )


def _crontab(context: Context, user: str, words: List[str], stdin: Optional[str] = None) -> str:
    program = shutil.which("crontab")
    if program is None:
        raise CommandExecutionError("crontab is not available on this host")
    try:
        pwd.getpwnam(user)
    except KeyError:
        raise CommandExecutionError(f"User '{user}' does not exist") from None
    options = RunOptions(python_shell=False, stdin=stdin, cwd="/", timeout=60, rstrip=False)
    ran = run(context, [program, "-u", user, *words], options)
    if ran.retcode and "no crontab for" not in ran.stderr:
        raise CommandExecutionError(f"crontab: {ran.stderr.strip() or ran.stdout.strip()}")
    return "" if ran.retcode else ran.stdout


def load(context: Context, user: str) -> Table:
    """Return the crontab of *user*; an empty one if there is none."""
    with only_looking():
        return parse(_crontab(context, user, ["-l"]))


def save(context: Context, user: str, table: Table) -> None:
    """Install the crontab of *user*."""
    _crontab(context, user, ["-"], stdin=table.text())


@function(reads=True)
def raw_cron(context: Context, user: str) -> str:
    """Return the crontab of a user as text."""
    return _crontab(context, user, ["-l"])


@function(name="list_tab", reads=True)
def list_tab(context: Context, user: str) -> Dict[str, Any]:
    """Return the crontab of a user: crons, special, env and pre (unmanaged lines)."""
    table = load(context, user)
    shown: Dict[str, Any] = {"crons": [], "special": [], "env": [], "pre": list(table.before)}
    for job in table.jobs:
        entry: Dict[str, Any] = {
            "cmd": job.cmd,
            "comment": job.comment or None,
            "identifier": job.identifier or None,
            "commented": job.commented,
        }
        if len(job.when) == 1:
            shown["special"].append({"spec": job.when[0], **entry})
        else:
            shown["crons"].append({**dict(zip(TIMES, job.when)), **entry})
    shown["env"] = [{"name": name, "value": value} for name, value in table.env]
    return shown


@function(name="ls", reads=True)
def ls(context: Context, user: str) -> Dict[str, Any]:
    """Return the crontab of a user; an alias of cron.list_tab."""
    return dict(list_tab(context, user))


@function()
def set_job(
    context: Context, /, user: str, minute: Any, hour: Any, daymonth: Any, month: Any,
    dayweek: Any, cmd: str, **more: Any,
) -> str:  # fmt: skip
    """Set one job; return "new", "updated" or "present".

    Args:
        context: the call's context.
        user: owner of the crontab.
        minute: time field, as the next four.
        hour: field.
        daymonth: field.
        month: field.
        dayweek: field.
        cmd: command line.
        more: comment, identifier, commented.
    """
    times = dict(zip(TIMES, (minute, hour, daymonth, month, dayweek)))
    return put(context, user, job_of(cmd, times, **more))


@function()
def set_special(context: Context, /, user: str, special: str, cmd: str, **more: Any) -> str:
    """Set one job with a special time (@reboot); return "new", "updated" or "present"."""
    return put(context, user, job_of(cmd, {}, special, **more))


def put(context: Context, user: str, job: CronJob) -> str:
    """Set *job*; return "new", "updated" or "present"."""
    table = load(context, user)
    new = with_job(table, job)
    if new == table:
        return "present"
    save(context, user, new)
    return "new" if len(new.jobs) > len(table.jobs) else "updated"


@function()
def rm_job(
    context: Context, /, user: str, cmd: str, identifier: Any = None, **ignored: Any
) -> str:
    """Remove one job; return "removed" or "absent"."""
    table = load(context, user)
    new = without_job(table, cmd, identifier)
    if new == table:
        return "absent"
    save(context, user, new)
    return "removed"


@function()
def set_env(context: Context, user: str, name: str, value: Any = "") -> str:
    """Set a variable of a user's crontab; return "new", "updated" or "present"."""
    table = load(context, user)
    new = with_env(table, _one_line(name, "the name"), _one_line(value, "the value"))
    if new == table:
        return "present"
    save(context, user, new)
    return "new" if len(new.env) > len(table.env) else "updated"


@function()
def rm_env(context: Context, user: str, name: str) -> str:
    """Remove a variable of a user's crontab; return "removed" or "absent"."""
    table = load(context, user)
    new = with_env(table, name, None)
    if new == table:
        return "absent"
    save(context, user, new)
    return "removed"
