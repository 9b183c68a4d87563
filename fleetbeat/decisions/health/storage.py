"""PersistentVolumeClaim and PersistentVolume."""

from __future__ import annotations

from collections.abc import Callable

from fleetbeat.decisions.health.live import Live
from fleetbeat.model import Body
from fleetbeat.model_results import Health

#: set by the scheduler when a Pod that uses the claim has got a node: from then on a volume is on its way
_SELECTED_NODE = "volume.kubernetes.io/selected-node"


def claim(live: Live) -> Health:
    """Bound. A claim that waits for its first Pod passes: that Pod may be in a later wave (field case h7)."""
    phase = live.status.get("phase")
    if phase == "Bound":
        return Health("Healthy", f"bound to {live.spec.get('volumeName', 'a volume')}")
    if phase == "Lost":
        return Health("Degraded", "its volume is lost")
    if live.spec.get("storageClassName") in live.late_binding and _SELECTED_NODE not in live.annotations:
        return Health("Healthy", "waits for the first Pod that uses it")
    return Health("Progressing", "not bound to a volume yet")


def binds_late(storage_class: Body) -> bool:
    """Whether volumes of this StorageClass are made for the first Pod that uses them, not before."""
    return storage_class.get("volumeBindingMode") == "WaitForFirstConsumer"


def volume(live: Live) -> Health:
    phase = live.status.get("phase")
    if phase == "Failed":
        return Health("Degraded", str(live.status.get("message") or "the volume failed"))
    if phase in ("Available", "Bound", "Released"):
        return Health("Healthy", str(phase))
    return Health("Progressing", f"phase {phase or 'not reported yet'}")


RULES: dict[str, Callable[[Live], Health]] = {
    "PersistentVolumeClaim": claim,
    "PersistentVolume": volume,
}
