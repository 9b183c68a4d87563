"""Service and Ingress: what a load balancer gives, and whether it has."""

from __future__ import annotations

from collections.abc import Callable

from fleetbeat.decisions.health.live import Live, mapping, mappings
from fleetbeat.model_results import Health


def service(live: Live) -> Health:
    if live.spec.get("type") != "LoadBalancer":
        return Health("Healthy")
    return _by_address(live)


def ingress(live: Live) -> Health:
    return _by_address(live)


def _by_address(live: Live) -> Health:
    """Argo CD's reading: an address must be there. Without a load balancer that ends with the time-out (h4)."""
    entries = mappings(mapping(live.status.get("loadBalancer")).get("ingress"))
    addresses = [str(entry.get("hostname") or entry.get("ip")) for entry in entries if _has_address(entry)]
    if not addresses:
        return Health("Progressing", "no load balancer has given it an address yet")
    return Health("Healthy", ", ".join(addresses))


def _has_address(entry: dict[str, object]) -> bool:
    return bool(entry.get("hostname") or entry.get("ip"))


RULES: dict[str, Callable[[Live], Health]] = {
    "Service": service,
    "Ingress.networking.k8s.io": ingress,
}
