"""``fleetbeat local``: one part at a time on this machine, in the foreground, until Ctrl-C."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from fleetbeat.local.process import LocalError

PORT = click.option("--port", type=click.IntRange(1, 65535), help="TCP port on 127.0.0.1. Default: a free one.")
FOLDER = click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep data here for the next time. Default: a temporary folder, removed at the end.",
)
_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@click.group()
def local() -> None:
    """Run one part Fleetbeat needs on this machine: a cluster, a registry or Redis.

    Each runs in the foreground on 127.0.0.1, prints how to reach it and stops on Ctrl-C; nothing is left behind. They
    are for trying and testing, not for production. `fleetbeat demo` starts all of them together.
    """


@local.command(
    short_help="A Kubernetes cluster without containers.",
    epilog="""\b
Example: fleetbeat local cluster --port 6443

The first start on a machine builds the program from source, which needs Go 1.26 and takes some minutes.""",
)
@PORT
@click.option(
    "--controllers/--no-controllers",
    default=True,
    show_default=True,
    help="Workloads become ready (simulated: no container ever runs). Without, objects are only stored.",
)
@click.option("--context", default="fleetbeat-local", show_default=True, help="Context name in the kubeconfig.")
def cluster(port: int | None, controllers: bool, context: str) -> None:
    """A Kubernetes cluster without containers: the real API server, controllers and scheduler, simulated nodes.

    It has no ingress controller, load balancer or metrics server: an Ingress or HorizontalPodAutoscaler never becomes
    healthy here. The annotation argocd.argoproj.io/ignore-healthcheck: "true" lets a sync go on without it.
    """
    from fleetbeat.local.build import KUBERNETES
    from fleetbeat.local.cluster import Cluster

    with _interruptible(), Cluster(name=context, controllers=controllers, port=port) as running:
        kind = "with controllers and one node" if controllers else "API server only"
        _say(
            f"Kubernetes {KUBERNETES} ({kind}) is ready at {running.server}",
            "",
            "For kubectl and other tools:",
            f"  export KUBECONFIG={running.kubeconfig}",
            "",
            "For a Fleetbeat catalog:",
            "  apiVersion: fleetbeat.dev/v1alpha1",
            "  kind: Cluster",
            f"  metadata: {{name: {context}}}",
            f"  spec: {{kubeconfig: {running.kubeconfig}, context: {context}}}",
            "",
            f"Audit log: {running.audit_log}",
        )
        _until_interrupted(lambda: running.alive, "The cluster")


@local.command(epilog="Example: fleetbeat local registry --port 5000 --folder ~/registry")
@PORT
@FOLDER
def registry(port: int | None, folder: Path | None) -> None:
    """An OCI registry (CNCF distribution): anonymous, plain HTTP."""
    from fleetbeat.local.registry import Registry

    with _interruptible(), Registry(port=port, folder=folder) as running:
        _say(
            f"The registry is ready at {running.url}",
            "",
            "Push a folder of manifests:",
            f"  fleetbeat push FOLDER {running.host}/shop/manifests:v1 --plain-http",
            "",
            "In an Application of a Fleetbeat catalog:",
            f"  source: {{oci: {running.host}/shop/manifests, tag: v1, plainHTTP: true}}",
        )
        _until_interrupted(lambda: running.alive, "The registry")


@local.command(
    short_help="A Redis server (Valkey), set up the way Fleetbeat wants it.",
    epilog="Example: fleetbeat local redis --port 6379 --folder ~/redis",
)
@PORT
@FOLDER
def redis(port: int | None, folder: Path | None) -> None:
    """A Redis server (Valkey), set up the way Fleetbeat wants it: append-only file, nothing evicted."""
    from fleetbeat.local.redis import RedisServer

    with _interruptible(), RedisServer(port=port, folder=folder) as running:
        _say(
            f"Redis is ready at {running.url}",
            "",
            "For every Fleetbeat process:",
            f"  export FLEETBEAT_REDIS_URL={running.url}",
        )
        _until_interrupted(lambda: running.alive, "Redis")


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C, SIGTERM and a closed terminal all end the block in order, during the start too.

    Also where a shell has started us in the background, with Ctrl-C ignored.
    """

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in _ENDINGS}
    try:
        yield
    except KeyboardInterrupt:
        click.echo("Stopped.", err=True)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _say(*lines: str) -> None:
    for line in (*lines, "", "Ctrl-C stops it."):
        click.echo(line)


def _until_interrupted(alive: Callable[[], bool], what: str) -> None:
    """Raises LocalError when it ends by itself."""
    while alive():
        time.sleep(0.5)
    raise LocalError(f"{what} ended by itself.")
