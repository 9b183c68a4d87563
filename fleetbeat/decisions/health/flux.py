"""Flux's kinds: Ready, Reconciling and Stalled, as its controllers mean them."""

from __future__ import annotations

from collections.abc import Callable

from fleetbeat.decisions.health.conditions import behind
from fleetbeat.decisions.health.live import Live
from fleetbeat.model_results import Health

_DOMAIN = "toolkit.fluxcd.io"

#: reasons of Ready=False that time alone cures: something else has to become ready first
_WAITING = ("DependencyNotReady", "Progressing", "ProgressingWithRetry", "ReconciliationPaused", "ArtifactNotReady")


def suspended(live: Live) -> Health | None:
    """The controller does not look at a suspended object: nothing else it says counts, not even its generation."""
    if live.group_kind in RULES and live.spec.get("suspend") is True:
        return Health("Suspended", "its reconciliation is suspended")
    return None


def ready(live: Live) -> Health:
    """Ready=False without Reconciling is a failure; while its controller retries, the object says Reconciling."""
    condition = live.condition("Ready")
    if condition is None:
        return Health("Progressing", "no Ready condition reported yet")
    if behind(live, condition):
        return Health("Progressing", "the Ready condition speaks of an earlier generation")
    if condition.status == "True":
        return Health("Healthy", condition.text)
    failed = condition.status == "False" and condition.reason not in _WAITING
    return Health("Degraded" if failed else "Progressing", condition.text)


def source(live: Live) -> Health:
    """Ready, and what was fetched is there to be read by others."""
    return _with(live, "ArtifactInStorage")


def helm_release(live: Live) -> Health:
    return _with(live, "Released", "TestSuccess")


def _with(live: Live, *types: str) -> Health:
    """Ready, and one of these conditions True: Ready alone, which sums them up, is not taken at its word."""
    found = ready(live)
    if found.status != "Healthy" or any(map(live.is_true, types)):
        return found
    told = next(
        (condition.text for condition in map(live.condition, types) if condition), f"{types[0]} is not reported"
    )
    return Health("Degraded", f"Ready, but {told}")


def helm_repository(live: Live) -> Health:
    """One of type ``oci`` is data: its charts are fetched by others, and it never gets a status."""
    return Health("Healthy") if live.spec.get("type") == "oci" and not live.conditions else source(live)


def notification(live: Live) -> Health:
    """Alert and Provider are data since v1beta3; before that they had a Ready condition."""
    return ready(live) if live.conditions else Health("Healthy")


RULES: dict[str, Callable[[Live], Health]] = {
    f"Kustomization.kustomize.{_DOMAIN}": ready,
    f"HelmRelease.helm.{_DOMAIN}": helm_release,
    f"HelmRepository.source.{_DOMAIN}": helm_repository,
    **{f"{kind}.notification.{_DOMAIN}": notification for kind in ("Alert", "Provider")},
    f"Receiver.notification.{_DOMAIN}": ready,
    **{f"{kind}.source.{_DOMAIN}": source for kind in ("GitRepository", "OCIRepository", "HelmChart", "Bucket")},
    f"ExternalArtifact.source.{_DOMAIN}": ready,
    **{f"{kind}.image.{_DOMAIN}": ready for kind in ("ImageRepository", "ImagePolicy", "ImageUpdateAutomation")},
}
