"""The stage of the benchmarks: a real control plane, a registry, Redis, an observer, and Fleetbeat as `up` starts it.

etcd syncs to disk, the controller-manager runs only the controllers the workload needs, audit logging is off, Redis
appends to a file synced every second. Everything is a process of its own on this machine and ends with the rig.
"""

from __future__ import annotations

import base64
import contextlib
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import workload

from fleetbeat import keys
from fleetbeat.cli.parts import Parts
from fleetbeat.clients.broker import make_app, publish_reconcile
from fleetbeat.clients.runs import Runs
from fleetbeat.clients.store import Store
from fleetbeat.local.cluster import Cluster
from fleetbeat.local.process import Process
from fleetbeat.local.redis import RedisServer
from fleetbeat.local.registry import Registry
from fleetbeat.settings import load
from fleetbeat.wire import WORK_QUEUE

CONTROLLERS = [
    f"{name}-controller" for name in ("namespace", "serviceaccount", "deployment", "replicaset", "garbage-collector")
]


class Rig:
    """Use as a context manager. ``audit``: count requests by User-Agent too; costs time, so not in timed runs."""

    def __init__(
        self,
        apps: int,
        *,
        workers: int,
        interval: str = "1h",
        audit: bool = False,
        watch: bool = False,
        **settings: str,
    ) -> None:
        self.apps = workload.names(apps)
        self._interval = interval
        self._stack = contextlib.ExitStack()
        self.folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="fleetbeat-bench-")))
        quiet = () if audit else ("--audit-policy-file=", "--audit-log-path=")
        self.cluster = Cluster(name="bench", controllers=CONTROLLERS, fsync=True, api_flags=quiet)
        memory = Path("/dev/shm")  # the peers' registry was on tmpfs too
        base = tempfile.mkdtemp(prefix="fleetbeat-bench-", dir=memory if memory.is_dir() else None)
        self._stack.callback(shutil.rmtree, base, ignore_errors=True)
        self.registry = Registry(folder=Path(base))
        self.redis = RedisServer()
        self.catalog = self.folder / "catalog"
        self.catalog.mkdir()
        self.env = {
            "FLEETBEAT_REDIS_URL": self.redis.url,
            "FLEETBEAT_KEY": base64.b64encode(secrets.token_bytes(32)).decode(),
            "FLEETBEAT_CATALOG": str(self.catalog),
            "PYTHONDONTWRITEBYTECODE": "",  # an installation compiles its modules once, not at each start
            **settings,
        }
        parts = Parts(self.folder, self.env)
        self.beat = parts.beat()
        self.workers = [parts.worker(number) for number in range(1, workers + 1)]
        self.watch = parts.watch() if watch else None
        self.settings = load(self.env)
        self.store = Store.open(self.settings)
        self.runs = Runs(self.store, self.settings)
        self.celery = make_app(self.settings, "fleetbeat.bench")
        self.looks = 0  #: commands of this driver while it waited

    def __enter__(self) -> Rig:
        try:
            self._stack.enter_context(self.redis)
            self._stack.enter_context(self.registry)
            self._stack.enter_context(self.cluster)
            workload.make_namespaces(self.cluster, self.apps)
            workload.push_bundles(self.registry, self.apps)
            for process in (self.beat, *self.workers, *self._watching()):
                self._stack.callback(process.kill)
                process.start()
            for worker in self.workers:
                worker.wait_ready(lambda worker=worker: " ready." in worker.tail(), timeout=60)  # type: ignore[misc]
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.celery.close()
        if keep := os.environ.get("KEEP"):  # logs and profiles of a run worth a closer look
            shutil.copytree(self.folder, keep, dirs_exist_ok=True)
        self._stack.close()

    def _watching(self) -> list[Process]:
        return [self.watch] if self.watch else []

    # ── processes ────────────────────────────────────────────────────────────────────────────────────────────────

    def ours(self) -> dict[str, int]:
        """Name → process id of everything that is Fleetbeat, its Redis included."""
        found = {process.name: process.pid or 0 for process in (self.beat, *self.workers, *self._watching())}
        return {**found, "redis": self.redis.pid or 0}

    def everything(self) -> dict[str, int]:
        """As ``ours``, with the control plane, the registry and this driver."""
        return {**self.ours(), **self.cluster.parts, "registry": self.registry.pid or 0, "driver": os.getpid()}

    # ── the workload ─────────────────────────────────────────────────────────────────────────────────────────────

    def register(self) -> float:
        """Write the catalog; returns the monotonic time right before its first file."""
        documents = {app: workload.application(app, self.registry, "bench", self._interval) for app in self.apps}
        target = workload.target(self.cluster)
        began = time.monotonic()
        self.write("cluster", target)
        for app, document in documents.items():
            self.write(app, document)
        return began

    def write(self, name: str, document: str) -> None:
        """One file of the catalog; beat never reads half of it."""
        temporary = self.catalog / f"{name}.tmp"
        temporary.write_text(document)
        temporary.rename(self.catalog / f"{name}.yaml")

    def request(self, app: str) -> str:
        """Ask for a sync as `fleetbeat sync` does; returns the request's id, which the state names once it is done."""
        request = secrets.token_hex(6)
        if self.runs.request(app, request, by="bench", reason="bench") is None:
            raise SystemExit(f"{app} is not in the catalog")
        publish_reconcile(self.celery, [app], WORK_QUEUE)
        return request

    def wait_state(self, app: str, timeout: float = 60.0, **wanted: str) -> dict[str, str]:
        """The application's state once it has these values. Each look is one command to Redis, and counted."""
        end, client = time.monotonic() + timeout, self.store.redis
        while True:
            answer: Any = client.hgetall(keys.state(app))
            self.looks += 1
            state = {name.decode(): value.decode() for name, value in answer.items()}
            if wanted.items() <= state.items():
                return state
            if time.monotonic() > end:
                raise SystemExit(f"{app} is not {wanted} after {timeout:.0f} s: {state}")
            time.sleep(0.005)

    def state(self, app: str) -> dict[str, str]:
        """The "sync", "health", "finished" (ms since epoch) and "phase" of one application."""
        fields = ("sync", "health", "finished", "phase")
        client: Any = self.store.redis
        values = client.hmget(keys.state(app), *fields)
        return {name: (value or b"").decode() for name, value in zip(fields, values, strict=True)}

    def wait_synced(self, timeout: float) -> int:
        """Until every application is Synced and Healthy; when the last one's run ended, ms since epoch.

        One after the other, so that looking costs Redis next to nothing.
        """
        end, last = time.monotonic() + timeout, 0
        for app in self.apps:
            while (state := self.state(app))["sync"] != "Synced" or state["health"] != "Healthy":
                if time.monotonic() > end:
                    raise SystemExit(f"{app} is not Synced and Healthy after {timeout:.0f} s: {state}")
                time.sleep(0.02)
            last = max(last, int(state["finished"]))
        return last

    def commands(self) -> Counter[str]:
        """How often Redis has carried out each command."""
        client: Any = self.store.redis
        return Counter({name[8:]: row["calls"] for name, row in client.info("commandstats").items()})

    def by_agent(self, since: int) -> Counter[tuple[str, str]]:
        """(User-Agent's first word, "verb resource") → requests, from the audit log."""
        found: Counter[tuple[str, str]] = Counter()
        for event in self.cluster.audit(since):
            reference = event.get("objectRef") or {}
            dry = " dry-run" if "dryRun=All" in event["requestURI"] else ""
            resource = "/".join(filter(None, (reference.get("resource", "-"), reference.get("subresource"))))
            if reference.get("namespace") == "fleetbeat":
                resource += " (parent)"
            found[event.get("userAgent", "").split("/")[0], f"{event['verb']} {resource}{dry}"] += 1
        return found


class Observer:
    """The observer's process and what it has said so far."""

    def __init__(self, cluster: Cluster, label: str, paths: Iterable[str], folder: Path) -> None:
        ca, token = folder / "observer-ca.pem", folder / "observer-token"
        ca.write_text(cluster.ca_pem)
        token.write_text(cluster.admin_token)
        script = Path(__file__).with_name("observer.py")
        command = [sys.executable, "-u", str(script), cluster.server, str(ca), str(token), label, *paths]
        self._child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.pid = self._child.pid
        self.seen: list[tuple[float, str]] = []  #: (monotonic seconds, "namespace/name")
        self._news = threading.Condition()
        self._ready = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Observer:
        self._wait(lambda: self._ready, 30)
        return self

    def __exit__(self, *_: object) -> None:
        self._child.kill()
        self._child.wait()
        self._reader.join()

    def wait(self, count: int, timeout: float) -> list[tuple[float, str]]:
        """What was seen, once it is ``count`` objects."""
        self._wait(lambda: len(self.seen) >= count, timeout)
        return self.seen

    def _read(self) -> None:
        for line in self._child.stdout or ():
            words = line.split()
            with self._news:
                if words == ["ready"]:
                    self._ready = True
                else:
                    self.seen.append((float(words[0]), words[2]))
                self._news.notify_all()

    def _wait(self, condition: Any, timeout: float) -> None:
        with self._news:
            if not self._news.wait_for(condition, timeout):
                raise SystemExit(f"after {timeout:.0f} s the observer has seen {len(self.seen)} objects")
