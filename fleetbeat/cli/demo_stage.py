"""What the demo runs: every part of an installation, on free ports, in one folder that goes at the end."""

from __future__ import annotations

import json
import secrets
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from types import TracebackType
from typing import Any

import yaml

from fleetbeat.cli.demo_repository import EXAMPLE, Repository
from fleetbeat.cli.demo_screen import Screen
from fleetbeat.cli.installation import Installation
from fleetbeat.cli.key import new_key
from fleetbeat.cli.parts import USER, EmbeddedRedis, Parts, need_flower
from fleetbeat.cli.supervisor import Supervisor
from fleetbeat.client import Fleetbeat
from fleetbeat.clients.cluster import KubernetesCluster
from fleetbeat.clients.runs import Runs
from fleetbeat.clients.store import Store
from fleetbeat.local import cluster as local_cluster
from fleetbeat.local.folders import Folder
from fleetbeat.local.process import free_port
from fleetbeat.local.redis import RedisServer
from fleetbeat.local.registry import Registry
from fleetbeat.model import Cluster
from fleetbeat.settings import Settings, load

APP = "shop"
INTERVAL = "3s"
"""Between looks. A fleet takes minutes; a demo is waited for."""


class Stage:
    """A context manager: everything is started when it is entered but beat, and ended when it is left."""

    client: Fleetbeat
    cluster: KubernetesCluster  #: the target, as Fleetbeat reaches it
    repository: Repository
    settings: Settings

    def __init__(self, screen: Screen, context: str) -> None:
        """``context`` "": a simulated cluster, else a context of the user's kubeconfig."""
        self._screen = screen
        self._context = context
        self._stack = ExitStack()
        self._supervisor = Supervisor(lambda text: screen.line(text, "yellow"))
        self.simulated: local_cluster.Cluster | None = None
        self.flower_port = free_port()
        self.flower_password = secrets.token_urlsafe(9)

    def __enter__(self) -> Stage:
        folder = Folder("demo")
        self._stack.callback(folder.remove)
        self.folder = folder.path
        try:
            self._start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._supervisor.stop()  # whoever uses the others ends before them
        self._stack.close()

    def start_beat(self) -> None:
        """From now on things happen by themselves."""
        self._supervisor.start(self._parts.beat())

    def stay(self, stop: threading.Event) -> None:
        """Keep everything running until ``stop``."""
        self._supervisor.run(stop)

    def history(self) -> list[dict[str, Any]]:
        """The shop's finished runs, newest first."""
        runs = Runs(Store.open(self.settings), self.settings)
        return [json.loads(text) for text in runs.history(APP)]

    @property
    def reference(self) -> str:
        """Where the shop's bundles are pushed to."""
        return f"{self.registry.host}/{APP}/manifests:stable"

    @property
    def flower_url(self) -> str:
        return f"http://127.0.0.1:{self.flower_port}"

    @property
    def flower_login(self) -> str:
        return f"{USER} / {self.flower_password}"

    @property
    def shell_line(self) -> str:
        return self._installation.shell_line

    def last_words(self) -> str:
        """The ends of the logs of beat and workers, for a step that failed."""
        logs = sorted((self.folder / "logs").glob("*.log"))
        tails = [f"{log.name}:\n" + "\n".join(log.read_text(errors="replace").splitlines()[-8:]) for log in logs]
        return "\n".join(tails)

    def _start(self) -> None:
        need_flower()
        self._screen.heading("Starting an installation on this machine")
        with ThreadPoolExecutor(2) as pool:
            # The API server takes the longest; workers load their imports meanwhile.
            target = pool.submit(self._start_cluster)
            self._start_rest()
            definition = target.result()
        self._write_catalog(definition)
        self.cluster = KubernetesCluster.connect(definition, http=self.settings.http)

    def _start_cluster(self) -> Cluster:
        if self._context:
            return Cluster("local", context=self._context)
        with self._screen.timed("Kubernetes API server, controllers, scheduler, one node"):
            simulated = local_cluster.Cluster(name="fleetbeat-demo", controllers=True)
            self.simulated = self._stack.enter_context(simulated)
        return Cluster("local", kubeconfig=str(simulated.kubeconfig), context=simulated.name)

    def _start_rest(self) -> None:
        with self._screen.timed("Redis"):
            redis = self._stack.enter_context(RedisServer(folder=self.folder / "redis"))
        with self._screen.timed("OCI registry"):
            self.registry = self._stack.enter_context(Registry(folder=self.folder / "registry"))
        self._installation = self._stack.enter_context(Installation(self.folder).held())
        env = {"FLEETBEAT_REDIS_URL": redis.url, "FLEETBEAT_KEY": new_key()}
        self._installation.publish(env)
        self.settings = load(env)
        self.client = Fleetbeat(self.settings)
        self.repository = Repository(self.folder / "repository")
        self._parts = Parts(self.folder, {**env, "FLEETBEAT_CATALOG": str(self.folder / "catalog")})
        self._supervisor.start(EmbeddedRedis(redis))
        for part in (self._parts.worker(1), self._parts.worker(2)):
            self._supervisor.start(part)
        self._supervisor.start(self._parts.flower(self.flower_port, self.flower_password))
        self._screen.line("2 workers, Flower: started, they load while the cluster starts")

    def _write_catalog(self, cluster: Cluster) -> None:
        """The example's catalog with the addresses of this demo."""
        folder = self.folder / "catalog"
        folder.mkdir()
        application = yaml.safe_load((EXAMPLE / "catalog" / "shop.yaml").read_text())
        application["spec"]["source"]["oci"] = f"{self.registry.host}/{APP}/manifests"
        application["spec"]["sync"]["interval"] = INTERVAL
        target: dict[str, Any] = yaml.safe_load((EXAMPLE / "catalog" / "local.yaml").read_text())
        target["spec"] = {"context": cluster.context}
        if cluster.kubeconfig:
            target["spec"]["kubeconfig"] = cluster.kubeconfig
        for document in (application, target):
            path = folder / f"{document['kind'].lower()}.yaml"
            path.write_text(yaml.safe_dump(document, sort_keys=False))
