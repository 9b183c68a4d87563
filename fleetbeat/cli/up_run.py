"""What ``fleetbeat up`` does between its first line and Ctrl-C."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from fleetbeat import catalog as catalogs
from fleetbeat.cli import output as out
from fleetbeat.cli.installation import Installation
from fleetbeat.cli.parts import USER, EmbeddedRedis, Parts, need_flower
from fleetbeat.cli.session import Session
from fleetbeat.cli.supervisor import Supervisor
from fleetbeat.errors import CatalogError, FleetbeatError, StoreUnavailable
from fleetbeat.local.process import free_port, listens
from fleetbeat.local.redis import RedisServer
from fleetbeat.settings import variable


@dataclass(frozen=True)
class Plan:
    """What to run. ``flower_port`` None: no Flower."""

    catalog: Path
    workers: int
    watch: bool
    flower_port: int | None
    flower_password: str


def run(session: Session, installation: Installation, plan: Plan, stop: threading.Event) -> None:
    """Start, supervise until ``stop``, end. Raises LocalError when a part does not start."""
    if plan.flower_port is not None:
        need_flower(", or leave it out: --no-flower")
    mistakes = _check_catalog(plan.catalog)
    key = variable("FLEETBEAT_KEY") or installation.key()
    supervisor = Supervisor(_say)
    with _redis(installation, supervisor) as url:
        env = {"FLEETBEAT_REDIS_URL": url, "FLEETBEAT_KEY": key}
        _say_when_away(_opened(session, env))
        parts = Parts(installation.folder, {**env, "FLEETBEAT_CATALOG": str(plan.catalog)})
        try:
            supervisor.start(parts.beat())
            for number in range(1, plan.workers + 1):
                supervisor.start(parts.worker(number))
            if plan.watch:
                supervisor.start(parts.watch())
            watch = ", a watch" if plan.watch else ""
            _say(f"beat{watch} and {plan.workers} worker{'s' * (plan.workers > 1)} started")
            if plan.flower_port is not None:
                port = plan.flower_port
                if listens(port):
                    port = free_port()
                    _say(f"Port {plan.flower_port} is taken; Flower gets another one")
                supervisor.start(parts.flower(port, plan.flower_password))
                _say(f"Flower   http://127.0.0.1:{port}   user {USER}, password {plan.flower_password}")
            installation.publish(env)
            _say(f"Logs     {installation.folder / 'logs'}")
            _say(f"Shell    {installation.shell_line} && fleetbeat status")
            _say("Ctrl-C stops everything.")
            supervisor.run(stop, _News(_opened(session, env), mistakes))
        finally:
            _say("stopping …")
            supervisor.stop()
    _say("stopped; key, state and logs are kept for the next time")


@contextlib.contextmanager
def _redis(installation: Installation, supervisor: Supervisor) -> Iterator[str]:
    """URL of the Redis to use: the given one, else an embedded one that lives as long as we do."""
    given = variable("FLEETBEAT_REDIS_URL")
    if given and not installation.made(given):
        _say("Redis    the one of FLEETBEAT_REDIS_URL")
        yield given
        return
    port = installation.redis_port(free_port())
    if listens(port):
        installation.forget_redis_port()
        port = installation.redis_port(free_port())
    folder = installation.folder / "redis"
    with RedisServer(folder=folder, port=port, password=installation.redis_password()) as server:
        _say(f"Redis    127.0.0.1:{port}, data in {folder}")
        supervisor.start(EmbeddedRedis(server))
        yield server.url


def _say_when_away(session: Session) -> None:
    """A Redis that was given and does not answer: everything starts, waits, and would say so in its log alone."""
    try:
        session.pulse()
    except StoreUnavailable as error:
        for line in str(error).splitlines():
            _say(click.style("warning: ", fg="yellow") + line)
        _say("Nothing is done before it answers. To run an embedded one: unset FLEETBEAT_REDIS_URL")


def _check_catalog(folder: Path) -> str:
    """Say early what beat will say in its log. A broken catalog stops nothing: the last good one may be in force.

    Returns what is wrong, a line for each problem.
    """
    try:
        loaded = catalogs.load(folder)
    except CatalogError as error:
        for problem in error.problems:
            _say(click.style("catalog: ", fg="yellow") + problem)
        _say("The catalog is not taken over before this is mended; a last good one stays in force.")
        return "\n".join(error.problems)
    apps, clusters = len(loaded.catalog.applications), len(loaded.catalog.clusters)
    _say(f"Catalog  {folder}: {apps} application{'s' * (apps != 1)}, {clusters} cluster{'s' * (clusters != 1)}")
    return ""


def _opened(session: Session, env: dict[str, str]) -> Session:
    """A session on what runs here, with the settings of ours."""
    from fleetbeat.settings import load

    other = type(session)()
    other.settings = load({**env})
    return other


class _News:
    """Says what changes in the catalog and in the applications' status, once a second.

    Silent while Redis cannot be asked.
    """

    _MOST = 50  # applications; more would be a wall of text, and `fleetbeat status` tells it better

    def __init__(self, session: Session, mistakes: str) -> None:
        """``mistakes``: of the catalog on disk, that have been told already."""
        self._session = session
        self._told: dict[str, tuple[str, ...]] = {}
        self._mistakes = mistakes
        self._old: int | None = None  # when the catalog was last read before we began: not news
        self._next = 0.0

    def __call__(self) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + 1.0
        with contextlib.suppress(FleetbeatError):
            catalog = self._session.catalogs.status()
            self._tell_mistakes(catalog.at, catalog.error)
            apps = sorted({*self._session.catalogs.names(), *catalog.departing})
            for app in apps[: self._MOST]:
                self._tell(app, self._session.runs.look(app).state)
            for app in self._told.keys() - set(apps):
                del self._told[app]
                _say(f"{app}: gone from the catalog")

    def _tell_mistakes(self, at: int, error: str) -> None:
        if self._old is None:
            self._old = at
        if at == self._old or error == self._mistakes:
            return
        self._mistakes = error
        for problem in error.splitlines():
            _say(click.style("catalog: ", fg="yellow") + problem)
        _say("The last good catalog stays in force." if error else "The catalog is in order again.")

    def _tell(self, app: str, state: dict[str, str]) -> None:
        words = tuple(state.get(name, "") for name in ("sync", "health", "phase", "message"))
        if any(words) and words != self._told.get(app):
            self._told[app] = words
            *standing, message = words  # of an application that is new some are not known yet
            told = ", ".join(out.word(word) for word in standing if word)
            _say(f"{app}: " + ": ".join(filter(None, (told, message.partition("\n")[0]))))


def _say(text: str) -> None:
    click.echo(f"{time.strftime('%H:%M:%S')}  {text}")
