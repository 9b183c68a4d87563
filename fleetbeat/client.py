"""The public door for other services: ask for a sync, follow it, learn how it ended.

    fleetbeat = Fleetbeat.from_environment()
    request = fleetbeat.request_sync("shop", by="ci/build-812", reason="release 2.4", idempotency_key="build-812")
    outcome = fleetbeat.outcome("shop", request.id, timeout=300)
    if not outcome.ok: ...

A service that has a Celery application of its own on the same Redis (with ``global_keyprefix`` ``fleetbeat:``) may
instead send the task by name, from anywhere, without this package::

    app.send_task("fleetbeat.reconcile", args=["shop"], queue="fleetbeat.work")

That is a doorbell only: it makes a worker look, which syncs when anything differs. It cannot say who asked or why,
and gives nothing to follow; ``request_sync`` does both.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from fleetbeat import wire
from fleetbeat.client_following import follow
from fleetbeat.client_results import Outcome, Progress, Request
from fleetbeat.clients.catalogs import Catalogs
from fleetbeat.clients.departures import Departures
from fleetbeat.clients.events import Events
from fleetbeat.clients.holds import Holds
from fleetbeat.clients.orders import Orders
from fleetbeat.clients.pulse import override_marks
from fleetbeat.clients.runs import Look, Runs
from fleetbeat.clients.store import Store
from fleetbeat.decisions import overrides
from fleetbeat.decisions.choice import is_suspension
from fleetbeat.decisions.events import Event
from fleetbeat.decisions.holds import Hold, HoldKind, Scope
from fleetbeat.decisions.problems import shown
from fleetbeat.decisions.spoken import spoken
from fleetbeat.errors import CatalogError, ConfigurationError, NotYet, Refused, StillRunning
from fleetbeat.settings import Settings, load, nearest

__all__ = ["Fleetbeat", "Outcome", "Progress", "Request"]

_ANSWER = 3.0
"""Seconds to wait for the first worker to say whether it asks for signatures. Without an answer it says so later."""


class Fleetbeat:
    """One installation, reached through its Redis. Thread-safe. Raises StoreUnavailable when Redis is away."""

    def __init__(self, settings: Settings, *, store: Store | None = None) -> None:
        """Raises ConfigurationError when the key is missing. Connects at the first call."""
        self._settings = settings
        self._store = store or Store.open(settings)
        self._runs = Runs(self._store, settings)

    @classmethod
    def from_environment(cls) -> Fleetbeat:
        """From ``FLEETBEAT_REDIS_URL`` and ``FLEETBEAT_KEY``."""
        return cls(load())

    @cached_property
    def _departures(self) -> Departures:
        return Departures(self._store)

    @cached_property
    def _broker(self) -> Any:
        from fleetbeat.clients.broker import make_app

        return make_app(self._settings, "fleetbeat.client")

    def request_sync(
        self,
        app: str,
        *,
        by: str,
        reason: str = "",
        idempotency_key: str | None = None,
        confirm_prune: bool = False,
        override_windows: bool = False,
        plan: str = "",
    ) -> Request:
        """Ask for a sync now, whether or not anything seems to differ.

        A request replaces one that has not begun: ten of them are one sync. ``by`` and ``reason`` are kept in history.
        With an ``idempotency_key`` a request that was made before, finished or not, is found again instead of made
        twice (as long as history remembers it). ``confirm_prune``: agree to deleting what has left the bundle and asks
        for a confirmation (``Prune=confirm``), and everything if the last sync has said that its bundle is empty.
        ``override_windows``: go past sync windows that are shut; history keeps which and the ``reason``, without which
        it is refused. Where the workers have a ``FLEETBEAT_OVERRIDE_KEY``, ours signs the request. ``plan``: id of a
        saved plan, carried out exactly or not at all. Raises CatalogError naming the nearest application,
        ConfigurationError for a missing reason or key or one that no terminal should show, Refused for an application
        that is suspended and a plan that is not there or another application's.
        """
        by, reason = spoken(by, "name of who asks"), spoken(reason)
        if idempotency_key is not None and not idempotency_key.strip():
            raise ConfigurationError(
                "an empty idempotency key would find any other sync asked for so. Give one, or none"
            )
        if override_windows and not reason:
            raise ConfigurationError("overriding sync windows needs a reason, which history keeps. Give one")
        request = _request_id(app, idempotency_key)
        look = self._runs.look(app)
        if idempotency_key is not None and self._is_known(app, request, look):
            return Request(request, look.run.get("run", ""))
        if self._departures.departs(app):
            raise CatalogError([f"{app} has left the catalog and is being deleted. Put it back to sync it"])
        if is_suspension(look.state.get("held_back", "")):  # as the last look found it; the catalog has the word
            entry = Catalogs(self._store).application(app)
            if entry is not None and entry[0].suspended:
                raise Refused(suspended(app, entry[0].suspended))
        if plan:
            self._check_plan(app, plan)
        past = self._override(app, request, by, reason) if override_windows else ""
        return self._request(app, request, by, reason, confirm_prune=confirm_prune, override_windows=past, plan=plan)

    def _check_plan(self, app: str, plan: str) -> None:
        """What cannot be carried out is refused here: no run begins, and none fails, for a slip of the hand."""
        saved = Orders(self._store).promised(plan)
        if saved is None or saved.app != app:
            why = f"it was made for {saved.app}" if saved else "it has expired, or never was"
            named = plan if plan.isalnum() and len(plan) <= 20 else shown(plan)
            raise Refused(f"plan {named} is not carried out: {why}. Make a new one: fleetbeat plan {app}")

    def _override(self, app: str, request: str, by: str, reason: str) -> str:
        """What the request carries to go past sync windows: a signature where we have the key for one."""
        key = self._settings.signing_key()
        if key is not None:
            return overrides.sign(key, app=app, request=request, by=by, reason=reason, now=self._runs.now())
        if any(override_marks(self._broker, _ANSWER, most=1).values()):
            raise ConfigurationError(
                f"overriding sync windows is a right of its own here: the workers ask for a signature, and "
                f"{overrides.VARIABLE} is not set. Whoever may override has it"
            )
        return overrides.UNSIGNED

    def _request(
        self,
        app: str,
        request: str,
        by: str,
        reason: str,
        *,
        confirm_prune: bool = False,
        override_windows: str = "",
        plan: str = "",
    ) -> Request:
        run = self._runs.request(
            app,
            request,
            by=by,
            reason=reason,
            confirm_prune=confirm_prune,
            override_windows=override_windows,
            promise=plan,
        )
        if run is None:
            raise self._unknown(app)
        # Also when it has a run under way: that one may be waiting for this, or be about to.
        self.ring([app])
        return Request(request, run)

    def delete(
        self, app: str, *, by: str, reason: str = "", confirmed: bool = False, skip_hooks: bool = False
    ) -> Request:
        """Go on at once with deleting an application that has left the catalog, whatever holds it.

        ``confirmed``: objects that ask for a confirmation (``Delete=confirm``) go too. ``skip_hooks``: without its
        PreDelete and PostDelete hooks. Raises CatalogError when it is in the catalog, or nothing is known of it.
        """
        by, reason = spoken(by, "name of who asks"), spoken(reason)
        if not self._departures.note(app, confirmed=confirmed, skip_hooks=skip_hooks):
            raise self._not_departing(app)
        return self._request(app, _request_id(app, None), by, reason)

    def stop(self, app: str, *, by: str, reason: str = "") -> str:
        """End the run of ``app`` that is under way, between two waves. Returns its id.

        It ends as Failed, and the same bundle is not begun again before a request, another bundle or catalog entry.
        What is written stays; a hook at work goes on by itself. Raises Refused when there is no run.
        """
        run, by = self._runs.look(app).run.get("run", ""), spoken(by, "name of who asks")
        why = f": {said}" if (said := spoken(reason)) else ""
        if not run or not self._runs.note(app, run, {"stop": f"{by}{why}"}):
            raise Refused(
                f"{app}: no sync is under way. To keep one from beginning: fleetbeat hold app {app} --for 1h --reason …"
            )
        self.ring([app])
        return run

    def ring(self, apps: Sequence[str]) -> None:
        """Have these applications looked at now, without asking for a sync."""
        if apps:
            from fleetbeat.clients.broker import publish_reconcile

            publish_reconcile(self._broker, apps, wire.WORK_QUEUE)

    def forget(self, app: str) -> None:
        """Leave what is left of an application that is being deleted as it is. Raises as ``delete`` does."""
        departure = self._departures.get(app)
        if departure is None or not self._departures.end(app, departure.since):
            raise self._not_departing(app)
        Catalogs(self._store).forget([app])

    def hold(
        self,
        kind: HoldKind,
        target: str,
        *,
        seconds: float,
        by: str,
        reason: str,
        scope: Scope = "sync",
        cluster: str = "",
    ) -> Hold:
        """Keep Fleetbeat from writing, for a time (``decisions/holds.py`` says what ``target`` is for each kind).

        Raises ConfigurationError for a time longer than 30 days or a missing reason.
        """
        made = Holds(self._store).add(kind, target, seconds=seconds, scope=scope, by=by, reason=reason, cluster=cluster)
        if kind == "app":
            self.ring([target])  # it is noted in the cluster
        else:
            self.have_noted(target if kind == "cluster" else cluster)
        return made

    def lift(self, hold: str) -> Hold | None:
        """End a hold before its time: what it held is looked at now. None when no hold of this id stands."""
        lifted = Holds(self._store).lift(hold)
        if lifted is not None:
            looks = {app: self._runs.look(app) for app in (*Catalogs(self._store).names(), *self._departures.held())}
            waiting = [app for app, look in looks.items() if look.state.get("held") or look.run.get("window")]
            self.ring(sorted({*waiting, *([lifted.target] if lifted.kind == "app" else [])}))
            if lifted.kind != "app":
                self.have_noted(lifted.target if lifted.kind == "cluster" else lifted.cluster)
        return lifted

    def have_noted(self, cluster: str = "") -> None:
        """Have orders for the whole fleet noted in this cluster, or in all, now: one application of each is looked at.

        It would be noted by any later look. Applications that are suspended are not looked at.
        """
        catalogs, first = Catalogs(self._store), dict[str, str]()
        for app in catalogs.names():
            try:
                entry = catalogs.application(app)
            except (NotYet, ConfigurationError):
                continue  # the order stands whatever is wrong with one application
            if entry is not None and not entry[0].suspended and cluster in ("", entry[1].name):
                first.setdefault(entry[1].name, app)
        self.ring(sorted(first.values()))

    def follow(self, app: str, request: str, *, timeout: float) -> Iterator[Progress | Outcome]:
        """Progress as it comes, the Outcome last. Raises StillRunning after ``timeout`` seconds.

        A request that a later one has replaced is followed as that one.
        """
        return follow(self._runs, app, timeout, request=request)

    def follow_next(self, app: str, *, after: str, timeout: float) -> Iterator[Progress | Outcome]:
        """Like ``follow``, for the next run to end, asked for or not. ``after``: what ``last_run`` said before."""
        return follow(self._runs, app, timeout, after=after)

    def outcome(self, app: str, request: str, *, timeout: float) -> Outcome:
        """Wait for the end. Raises StillRunning after ``timeout`` seconds."""
        *_, last = self.follow(app, request, timeout=timeout)
        if not isinstance(last, Outcome):  # follow ends with one or raises
            raise StillRunning(f"{app}: the sync was left before its end")
        return last

    def events(self, app: str = "", *, since: str = "0-0", follow: bool = False) -> Iterator[Event]:
        """What has happened after the id ``since``, oldest first; of one application or, with "", of all.

        With ``follow`` it goes on for ever with what comes. Whoever keeps the ``id`` of the last event and goes on from
        there misses nothing and gets nothing twice, as long as ``settings.events.kept`` reach back that far.
        """
        stream = Events(self._store)
        found = stream.follow(app, since=since) if follow else stream.read(app, since=since)
        return (event for event in found if event is not None)

    def last_run(self, app: str) -> str:
        """Id of the newest finished run, "" when there is none."""
        return self._runs.look(app).state.get("last_run", "")

    def _is_known(self, app: str, request: str, look: Look) -> bool:
        if request in (look.request.get("id"), look.run.get("request"), look.state.get("handled")):
            return True
        return any(json.loads(text).get("request") == request for text in self._runs.history(app))

    def _not_departing(self, app: str) -> CatalogError:
        if app not in Catalogs(self._store).names():
            return CatalogError([f"{shown(app)} is not being deleted, nor is it in the catalog. See: fleetbeat status"])
        return CatalogError(
            [
                f"{app} is in the catalog, so it would come back. Give it spec.deletionPolicy: Delete there, and when "
                "that is in force take it out: its objects go with it"
            ]
        )

    def _unknown(self, app: str) -> CatalogError:
        names = Catalogs(self._store).names()
        if not names:
            return CatalogError([f"no application is called {app!r}: no catalog is in force. Does beat run?"])
        return CatalogError([f"no application is called {app!r}.{nearest(app, names)} All: fleetbeat status"])


def suspended(app: str, why: str) -> str:
    """The refusal of a sync."""
    return f"{app} is suspended by {why} in the catalog, and is not synced. Take that away there to sync it"


def _request_id(app: str, idempotency_key: str | None) -> str:
    if idempotency_key is None:
        return secrets.token_hex(8)
    return "key-" + hashlib.sha256(f"{app}\n{idempotency_key}".encode()).hexdigest()[:24]
