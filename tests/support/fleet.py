"""A whole Fleetbeat on real parts, for tests: Redis, registry, cluster, beat and workers as processes of their own.

``Fleet`` gives tests the words of a user: push a bundle, put an application into the catalog, wait for its sync, read
its history, look at the cluster and at the API server's audit log.
"""

from __future__ import annotations

import base64
import json
import re
import secrets
import subprocess
import time
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import nursery
import orjson
import yaml
from nursery import Child, worker_arguments
from waiting import wait_for

from fleetbeat import keys
from fleetbeat.clients.broker import make_app, publish_reconcile
from fleetbeat.clients.catalogs import Catalogs
from fleetbeat.clients.oci_push import push
from fleetbeat.clients.runs import Runs
from fleetbeat.clients.store import Store
from fleetbeat.decisions.schedule import next_slot, slot_offset
from fleetbeat.local.cluster import Cluster
from fleetbeat.local.redis import RedisServer
from fleetbeat.local.registry import Registry
from fleetbeat.model import Revision, SecretText
from fleetbeat.settings import Settings, load
from fleetbeat.wire import RECONCILE, WORK_QUEUE

#: For an installation whose processes nobody kills: the locks and leases of production. A process that stands still for
#: some seconds on a busy machine keeps its turn, and nothing is done or asked twice; a server that does is no outage.
PATIENT: dict[str, Any] = {"lock_ttl": 15.0, "lease": 30.0, "FLEETBEAT_HTTP_CONNECT": "30"}

WRITE_VERBS = {"create", "update", "patch", "delete", "deletecollection"}
#: Words of a look that has not looked.
_GAVE_WAY = re.compile(r"another worker is asking|another run has begun|run \S+ is (working|queued)")


def config_map(
    name: str, namespace: str = "", data: Mapping[str, str] | None = None, **metadata: Any
) -> dict[str, Any]:
    """A ConfigMap manifest; ``metadata`` adds labels, annotations."""
    place = {"namespace": namespace} if namespace else {}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **place, **metadata},
        "data": dict(data or {"key": "value"}),
    }


def in_wave(wave: int, manifest: dict[str, Any]) -> dict[str, Any]:
    manifest["metadata"].setdefault("annotations", {})["argocd.argoproj.io/sync-wave"] = str(wave)
    return manifest


def far_interval(app: str) -> str:
    """About an hour, and such that the application's next slot is more than half of it away.

    Where slots lie is a matter of name, interval and time of day: with one interval for all, a suite that keeps some
    hundred applications for some seconds each has a tick come into a test now and then, which nobody expects there.
    """
    now = int(time.time() * 1000)
    for seconds in range(3600, 0, -1):
        period = seconds * 1000
        if next_slot(now, period, slot_offset(app, period)) - now > period / 2:
            return f"{seconds}s"
    raise AssertionError(f"{app} has no interval with a slot far away")


class Fleet:
    """Processes of one installation. Stop it with ``stop``; the parts given to it stay."""

    def __init__(
        self,
        folder: Path,
        redis: RedisServer,
        registry: Registry,
        clusters: Iterable[Cluster],
        *,
        workers: int = 2,
        concurrency: int = 4,
        lock_ttl: float = 3.0,
        lease: float = 4.0,
        **settings: str,
    ) -> None:
        self.folder, self.redis, self.registry = folder, redis, registry
        self.clusters = {cluster.name: cluster for cluster in clusters}
        self.catalog = folder / "catalog"
        self.catalog.mkdir(parents=True, exist_ok=True)
        self.env = {
            "FLEETBEAT_REDIS_URL": redis.url,
            "FLEETBEAT_KEY": base64.b64encode(secrets.token_bytes(32)).decode(),
            "FLEETBEAT_CATALOG": str(self.catalog),
            "FLEETBEAT_LOCK_TTL": str(lock_ttl),
            "FLEETBEAT_LOCK_MARGIN": "0.5",
            "FLEETBEAT_BEAT_LEASE": str(lease),
            "FLEETBEAT_BEAT_CATALOG_EVERY": "0.2",
            "FLEETBEAT_BEAT_REMOVAL_GRACE": "0.2",
            "FLEETBEAT_RESOLVE_TTL": "0.2",
            "FLEETBEAT_OBSERVE_LONGEST": "0.001",  # a test that rings wants to know how things are now
            **settings,
        }
        self.settings: Settings = load(self.env)
        self.store = Store(SecretText(redis.url), self.settings.sealing_key())
        self.runs = Runs(self.store, self.settings)
        self.catalogs = Catalogs(self.store)
        self.celery = make_app(self.settings, "fleetbeat.tests")
        self._concurrency = concurrency
        self._intervals: dict[str, str] = {}  # an application that is put there again keeps its own
        self.beats = [self._beat(1)]
        self.workers = [self._worker(number) for number in range(1, workers + 1)]
        for cluster in self.clusters.values():
            self.describe_cluster(cluster)

    # ── processes ────────────────────────────────────────────────────────────────────────────────────────────────

    def _beat(self, number: int) -> Child:
        arguments = ["-A", "scheduler.app", "beat", "-l", "INFO", "--pidfile="]
        return Child(arguments, log=self.folder / f"beat-{number}.log", env=self.env)

    def _worker(self, number: int) -> Child:
        name = f"w{number}-{uuid.uuid4().hex[:6]}@fleet"
        log = self.folder / f"worker-{number}.log"
        return Child(worker_arguments(name, self._concurrency), log=log, env=self.env)

    def start(self) -> Fleet:
        for process in (*self.beats, *self.workers):
            process.start()
        return self

    def stop(self) -> None:
        for process in (*self.beats, *self.workers):
            process.kill()
        self.celery.close()
        self.store.redis.close()

    def __enter__(self) -> Fleet:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def logs(self) -> str:
        """Everything the processes have said; for a failing test's message and for looking for secrets."""
        return "\n".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("*.log")))

    # ── what a user does ─────────────────────────────────────────────────────────────────────────────────────────

    @staticmethod
    def name(word: str) -> str:
        """A name of its own for an application in a shared fleet."""
        return f"{word}-{uuid.uuid4().hex[:6]}"

    def push(
        self,
        app: str,
        manifests: Iterable[dict[str, Any]] | Mapping[str, str],
        tag: str = "stable",
        *,
        annotations: Mapping[str, str] | None = None,
    ) -> Revision:
        """A bundle of these objects (one file each, in this order) or of these files.

        ``annotations``: of the artifact, as ``fleetbeat push`` takes them from git.
        """
        source = self.folder / "bundles" / uuid.uuid4().hex
        source.mkdir(parents=True)
        if isinstance(manifests, Mapping):
            files = dict(manifests)
        else:
            files = {f"{number:04}.yaml": yaml.safe_dump(body) for number, body in enumerate(manifests)}
        for name, text in files.items():
            path = source / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        place = f"{self.repository(app)}:{tag}"
        revision = push(source, place, annotations=annotations, plain_http=True, allow_empty=True)
        self._forget_tags()
        return revision

    def _forget_tags(self) -> None:
        """What a look found out a moment ago, or finds out just now, is shared for `resolve_ttl`.

        A test that rings at once means the new bundle.
        """
        redis = self.store.redis
        asking = {key: redis.get(key) for key in redis.scan_iter(match=keys.asking("*"))}
        for key, token in asking.items():
            wait_for(lambda key=key, token=token: not token or redis.get(key) != token, what="a look at a tag to end")  # type: ignore[misc]
        for key in redis.scan_iter(match=keys.resolved("*")):
            redis.delete(key)

    def repository(self, app: str) -> str:
        return f"{self.registry.host}/{app}-{self.folder.name.lower()}"

    def application(
        self,
        app: str,
        *,
        namespace: str = "",
        cluster: str = "",
        interval: str = "",
        source: Mapping[str, Any] | None = None,
        spec: Mapping[str, Any] | None = None,
        annotations: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        **sync: Any,
    ) -> None:
        """Put it into the catalog; beat sees it within the second. ``spec``: more fields of it.

        Without an ``interval`` it is about an hour, and no tick comes into a test.
        """
        document = {
            "apiVersion": "fleetbeat.dev/v1alpha1",
            "kind": "Application",
            "metadata": {"name": app, "annotations": dict(annotations or {}), "labels": dict(labels or {})},
            "spec": {
                "source": {"oci": self.repository(app), "tag": "stable", "plainHTTP": True, **(source or {})},
                "destination": {"cluster": cluster or next(iter(self.clusters))},
                "sync": {"interval": interval or self._intervals.setdefault(app, far_interval(app)), **sync},
                **(spec or {}),
            },
        }
        if namespace:
            document["spec"]["destination"]["namespace"] = namespace
        self._write(f"app-{app}.yaml", document)

    def project(self, name: str, **spec: Any) -> None:
        """Put a project into the catalog, before the applications that name it."""
        head = {"apiVersion": "fleetbeat.dev/v1alpha1", "kind": "Project", "metadata": {"name": name}}
        self._write(f"project-{name}.yaml", {**head, "spec": spec})

    def leave(self, app: str) -> None:
        """Take it out of the catalog; beat sees it within the second."""
        (self.catalog / f"app-{app}.yaml").unlink()

    def describe_cluster(
        self, cluster: Cluster, name: str = "", *, annotations: Mapping[str, str] | None = None
    ) -> None:
        """Put it into the catalog; ``name``: another one than its own, for an entry that a test may change."""
        self._write(
            f"cluster-{name or cluster.name}.yaml",
            {
                "apiVersion": "fleetbeat.dev/v1alpha1",
                "kind": "Cluster",
                "metadata": {"name": name or cluster.name, "annotations": dict(annotations or {})},
                "spec": {
                    "server": cluster.server,
                    "ca": {"inline": cluster.ca_pem},
                    "token": {"inline": cluster.token},
                },
            },
        )

    def forget_cluster(self, name: str) -> None:
        """Take such an entry out again, when nothing in the catalog names it any more: tests ask what is where."""
        (self.catalog / f"cluster-{name}.yaml").unlink()
        wait_for(lambda: name not in self.catalogs.clusters(), what=f"the catalog without cluster {name}")

    def _write(self, name: str, document: Mapping[str, Any]) -> None:
        temporary = self.folder / f"{name}.tmp"
        temporary.write_text(yaml.safe_dump(dict(document)))
        temporary.rename(self.catalog / name)  # beat never reads half a file

    def request(self, app: str, reason: str = "test", *, confirm_prune: bool = False) -> str:
        """Ask for a sync as `fleetbeat sync` does; returns the request's id."""
        # Long: the first to ask waits for beat to start, on a machine that has other things to do.
        wait_for(lambda: app in self.catalogs.names(), what=f"{app} in the catalog")
        request = uuid.uuid4().hex[:12]
        wait_for(
            lambda: (
                self.runs.request(app, request, by="tester", reason=reason, confirm_prune=confirm_prune) is not None
            ),
            what=f"{app} registered",
        )
        publish_reconcile(self.celery, [app], WORK_QUEUE)
        return request

    def ring(self, app: str) -> None:
        """What a tick does."""
        publish_reconcile(self.celery, [app], WORK_QUEUE)

    def tick(self, app: str, *, timeout: float = 120) -> str:
        """Ring, and wait until the look and the run it may begin are over. Returns what Flower shows of the look.

        One that gave way to the look of another application at the same kind is rung again, as beat would. So is one
        that met a run of somebody else's ring at work: it has not seen what was done after that run had looked.
        """
        while _GAVE_WAY.match(words := self._look(app, timeout)):
            wait_for(lambda: self.runs.look(app).run.get("state") in (None, "waiting"), timeout=timeout, what=words)
        return words

    def _look(self, app: str, timeout: float) -> str:
        task = uuid.uuid4().hex
        self.celery.send_task(RECONCILE, args=[app], queue=WORK_QUEUE, task_id=task, declare=[])
        logs = list(self.folder.glob("worker-*.log"))

        def said() -> str | None:
            for path in logs:
                found = re.search(rf"\[{task}\] succeeded in [^:]+: '(.*)'", path.read_text(errors="replace"))
                if found:
                    return found[1]
            return None

        words = wait_for(said, timeout=timeout, what=f"the look at {app}", every=0.05)
        if run := re.match(r"run (\S+) began", words):
            # Another one may have followed by now.
            wait_for(lambda: self.runs.look(app).run.get("run") != run[1], timeout=timeout, what=f"the end of {words}")
        return words

    # ── what a user sees ─────────────────────────────────────────────────────────────────────────────────────────

    def state(self, app: str) -> dict[str, str]:
        return self.runs.look(app).state

    def runs_ended(self, app: str) -> int:
        """One entry of history may stand for several: the same failure, or the same drift, again."""
        return sum(int(entry["count"]) for entry in self.history(app))

    def history(self, app: str) -> list[dict[str, Any]]:
        return [orjson.loads(entry) for entry in self.runs.history(app)]

    def wait_run(
        self, app: str, *, digest: str = "", phase: str = "", since: int = 0, timeout: float = 120
    ) -> dict[str, Any]:
        """The newest ended run, once there are more than ``since`` and it has this digest and phase."""

        def ended() -> dict[str, Any] | None:
            left = self.runs_ended(app) - since
            for entry in self.history(app):
                if left <= 0:
                    return None
                left -= int(entry["count"])
                if (not digest or entry["revision"]["digest"] == digest) and (not phase or entry["phase"] == phase):
                    return entry
            return None

        try:
            return wait_for(ended, timeout=timeout, what=f"a run of {app} {phase} {digest[:19]}")
        except AssertionError as error:
            look = self.runs.look(app)
            raise AssertionError(f"{error}\nrun: {look.run}\nstate: {look.state}\n{self.logs()[-6000:]}") from None

    def sync(self, app: str, *, timeout: float = 120, confirm_prune: bool = False) -> dict[str, Any]:
        """Request a sync and wait for the run that answers it."""
        request = self.request(app, confirm_prune=confirm_prune)

        def answered() -> dict[str, Any] | None:
            return next((entry for entry in self.history(app) if entry["request"] == request), None)

        try:
            return wait_for(answered, timeout=timeout, what=f"the sync of {app}")
        except AssertionError as error:
            look = self.runs.look(app)
            raise AssertionError(f"{error}\nrun: {look.run}\nstate: {look.state}\n{self.logs()[-6000:]}") from None

    def get(self, path: str, cluster: str = "") -> dict[str, Any] | None:
        """One object by its API path, as administrator; None when it is not there."""
        status, body = self._cluster(cluster).request("GET", path)
        return body if status == 200 else None

    def writes(
        self, app: str = "", *, cluster: str = "", since: int = 0, parents: bool = False
    ) -> list[dict[str, Any]]:
        """Audit events of Fleetbeat's kept writes (no dry-runs, no Events), without those to ApplySet parents."""
        found = []
        for event in self._cluster(cluster).audit(since):
            agent = event.get("userAgent", "")
            if (
                not agent.startswith("fleetbeat/")
                or event["verb"] not in WRITE_VERBS
                or "dryRun=All" in event["requestURI"]
            ):
                continue
            if app and f" app/{app} " not in f"{agent} ":
                continue
            reference = event.get("objectRef", {})
            if reference.get("resource") == "events":
                continue
            if not parents and "fleetbeat" in (reference.get("namespace"), reference.get("name")):
                continue
            found.append(event)
        return found

    def _cluster(self, name: str) -> Cluster:
        return self.clusters[name] if name else next(iter(self.clusters.values()))


def run(fleet: Fleet, *arguments: str, timeout: float = 240, **env: str) -> subprocess.CompletedProcess[str]:
    """The command line, as a person of this installation has it; ``env``: variables of that person's own."""
    return nursery.command(*arguments, env={**fleet.env, **env}, timeout=timeout)


def outcomes(entry: Mapping[str, Any]) -> dict[str, str]:
    """``{"ConfigMap shop/web": "configured"}`` of a history entry."""
    from fleetbeat.model import ObjectId

    return {str(ObjectId.from_key(result["id"])): result["outcome"] for result in entry["results"]}


def words(events: Iterable[Mapping[str, Any]]) -> list[str]:
    """``["patch configmaps shop/web"]`` of audit events."""
    found = []
    for event in events:
        reference = event.get("objectRef", {})
        # A Namespace's own events name it as namespace too.
        place = reference.get("namespace") if reference.get("resource") != "namespaces" else None
        name = "/".join(filter(None, (place, reference.get("name"))))
        found.append(f"{event['verb']} {reference.get('resource')} {name}")
    return found


def dump(value: Any) -> str:
    return json.dumps(value, indent=1, default=str)
