"""cert-manager: certificates, who signs them, and the requests and orders in between."""

from __future__ import annotations

from collections.abc import Callable

from fleetbeat.decisions.health.conditions import behind
from fleetbeat.decisions.health.live import Condition, Live
from fleetbeat.model_results import Health

#: Seconds for which an issuer may be unusable: the Secret it signs with is often made by the same sync.
_ISSUER_GRACE = 60.0
#: Seconds for which a certificate may be not ready without being issued: two controllers, each with its own condition.
_CERTIFICATE_GRACE = 60.0

_NOT_YET = Health("Progressing", "no Ready condition reported yet")


def certificate(live: Live) -> Health:
    """Ready. While it is issued or renewed, by ACME for minutes, it is Progressing; what failed is Degraded."""
    ready, issuing = live.condition("Ready"), live.condition("Issuing")
    if issuing and issuing.status == "True":
        return Health("Progressing", issuing.text)
    if ready and ready.status == "True" and not behind(live, ready):
        return Health("Healthy", ready.text)
    if issuing and issuing.status == "False" and issuing.reason == "Failed":
        return Health("Degraded", issuing.text)
    if ready is None:
        return _NOT_YET
    late = ready.status == "False" and not behind(live, ready) and live.lasts(ready.since, _CERTIFICATE_GRACE)
    return Health("Degraded" if late or ready.reason == "Expired" else "Progressing", ready.text)


def issuer(live: Live) -> Health:
    """Issuer and ClusterIssuer."""
    ready = live.condition("Ready")
    if ready is None or behind(live, ready):
        return _NOT_YET
    if ready.status == "True":
        return Health("Healthy", ready.text)
    late = ready.status == "False" and live.lasts(ready.since, _ISSUER_GRACE)
    return Health("Degraded" if late else "Progressing", ready.text)


def request(live: Live) -> Health:
    """CertificateRequest: denied, invalid and failed are final; a new request is made instead."""
    for final in ("Denied", "InvalidRequest"):
        if (condition := live.condition(final)) and condition.status == "True":
            return Health("Degraded", condition.text)
    ready: Condition | None = live.condition("Ready")
    if ready is None:
        return _NOT_YET
    if ready.status == "True":
        return Health("Healthy", ready.text)
    return Health("Degraded" if ready.reason in ("Failed", "Denied") else "Progressing", ready.text)


def acme(live: Live) -> Health:
    """Order and Challenge: their state in ACME's words."""
    state, reason = str(live.status.get("state") or ""), str(live.status.get("reason") or "")
    told = reason or (f"state {state}" if state else "no state reported yet")
    if state == "valid":
        return Health("Healthy", told)
    return Health("Degraded" if state in ("invalid", "errored", "expired", "revoked") else "Progressing", told)


RULES: dict[str, Callable[[Live], Health]] = {
    "Certificate.cert-manager.io": certificate,
    "Issuer.cert-manager.io": issuer,
    "ClusterIssuer.cert-manager.io": issuer,
    "CertificateRequest.cert-manager.io": request,
    "Order.acme.cert-manager.io": acme,
    "Challenge.acme.cert-manager.io": acme,
}
