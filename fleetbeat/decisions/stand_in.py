"""May what is in force be put back while something newer cannot be had? Pure. (Field case d5)

A bundle that cannot be read, a registry that does not answer, a tag that is gone: none of them is a reason to leave
what was synced before to whoever changes it. It is not touched where it is not what stands there any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fleetbeat.model_results import ObjectResult, Phase

_WRITES = ("created", "configured", "pruned", "handed-over")


def stands_in(state: Mapping[str, str], spec: str) -> bool:
    """``state``: the application's state hash; ``spec``: digest of its catalog entry now.

    The bundle in force must have been applied by that same entry, and no run since may have written anything of another
    one. A heal and a try of what is newer take turns: neither may keep the other from its own (``stood_in``).
    """
    return bool(
        state.get("digest")
        and state.get("digest_spec") == spec
        and not state.get("half_way")
        and not state.get("stood_in")
    )


def failed_beside(state: Mapping[str, str]) -> bool:
    """Has the last run failed with another bundle than the one in force?"""
    return state.get("phase") == "Failed" and state.get("attempted") != state.get("digest")


def half_way(before: Mapping[str, str], phase: Phase, results: Iterable[ObjectResult]) -> bool:
    """After a run: may there be something in the cluster that belongs to a bundle that is not in force?

    Hooks count: a migration that has run is of the newer one.
    """
    if phase == "Succeeded":
        return False
    return bool(before.get("half_way")) or any(result.outcome in _WRITES for result in results)
