"""Comparing what is wanted with what is live, by the API server's own dry-run. Writes nothing.

Every object that is not known to be as wanted is dry-run before the first write of the sync, so that whatever the
schema or admission refuses is found while nothing is half-applied. Exempt are only objects that the server cannot
judge yet: their kind, their namespace or their service account is created by the same bundle.

Requests: none for an object whose manifest and fingerprint are unchanged; one dry-run for one that is absent (the 201
says so); a read and a dry-run for one that is there.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from fleetbeat.decisions.changes import changed_paths, fingerprint, format_path, moved
from fleetbeat.decisions.inventory import PART_OF
from fleetbeat.decisions.manifests import digest
from fleetbeat.decisions.ownership import Foreign, changed_by, owner_of
from fleetbeat.decisions.waves import wave_of
from fleetbeat.engine.judging import Judge
from fleetbeat.engine.parallel import Requests
from fleetbeat.engine.plan import Change, Known
from fleetbeat.errors import Conflict, NotYet, Refused, Rejected, Unauthorized
from fleetbeat.model import ApiSet, Body, Manifest, ObjectId, ObjectResult
from fleetbeat.ports import ClusterPort, Seen


@dataclass(frozen=True)
class Verdict:
    """What is to be done with one wanted object."""

    change: Change | None = None  #: to be written
    result: ObjectResult | None = None  #: or settled without a write
    known: Known | None = None  #: of a settled one that is as wanted
    live: Body | None = None  #: as read, when it was read
    wanted: Body | None = None  #: as the dry-run answered, when there was one
    absent: bool = False


@dataclass(frozen=True)
class Comparison:
    """Verdicts in the order of the manifests."""

    verdicts: Mapping[ObjectId, Verdict]

    @property
    def changes(self) -> tuple[Change, ...]:
        return tuple(v.change for v in self.verdicts.values() if v.change)

    @property
    def settled(self) -> tuple[ObjectResult, ...]:
        return tuple(v.result for v in self.verdicts.values() if v.result)

    @property
    def known(self) -> dict[ObjectId, Known]:
        return {key: v.known for key, v in self.verdicts.items() if v.known}


def labelled(body: Body, applyset: str) -> Body:
    """The manifest as it is sent: with the label that makes it a member of the application's ApplySet."""
    wanted = copy.copy(body)
    wanted["metadata"] = dict(body["metadata"])
    wanted["metadata"]["labels"] = {**(body["metadata"].get("labels") or {}), PART_OF: applyset}
    return wanted


class Comparer:
    """One comparison of one application with one cluster."""

    def __init__(
        self,
        cluster: ClusterPort,
        apis: ApiSet,
        *,
        applyset: str,
        judge: Judge,
        live: Mapping[ObjectId, Body],
        known: Mapping[ObjectId, Known],
        owner_name: Callable[[str], str] = lambda mark: mark,
        heal: bool = True,
        absent_namespaces: Iterable[str] = (),
    ) -> None:
        """``live``: metadata of ours (``observe``); ``known``: what the last sync left; ``heal`` False: drift stays.

        ``owner_name`` tells the application behind a foreign ApplySet id, asked only when one is met.
        ``absent_namespaces``: created by this sync although no manifest says so (CreateNamespace).
        """
        self._cluster = cluster
        self._apis = apis
        self._applyset = applyset
        self._judge_health = judge.health
        self._live = live
        self._known = known
        self._owner_name = owner_name
        self._heal = heal
        self._absent_namespaces = set(absent_namespaces)
        self._absent_accounts: set[tuple[str, str]] = set()

    def compare(
        self, manifests: Sequence[Manifest], pool: Requests, *, left_out: Container[ObjectId] = ()
    ) -> Comparison:
        """Namespaces and CRDs first, then service accounts: whether they are absent decides who is exempt.

        ``left_out``: manifests that are not applied; there is no verdict on them.
        """
        batches: dict[int, list[tuple[int, Manifest]]] = {0: [], 1: [], 2: []}
        for index, manifest in enumerate(manifests):
            if manifest.id not in left_out:
                batches[_FIRST.get(manifest.id.group_kind, 2)].append((index, manifest))
        found: dict[ObjectId, Verdict] = {}
        for batch in batches.values():
            for (_, manifest), verdict in zip(batch, pool.map(self._judge, batch), strict=True):
                found[manifest.id] = verdict
                if verdict.absent and manifest.id.kind == "Namespace":
                    self._absent_namespaces.add(manifest.id.name)
                elif verdict.absent and manifest.id.kind == "ServiceAccount":
                    self._absent_accounts.add((manifest.id.namespace, manifest.id.name))
        return Comparison({m.id: found[m.id] for m in manifests if m.id in found})

    def _judge(self, numbered: tuple[int, Manifest]) -> Verdict:
        """Errors that concern this object alone become its failed result, so that all of them are told at once."""
        index, manifest = numbered
        try:
            return self._look(index, manifest)
        except (Rejected, Refused, Unauthorized, NotYet) as error:
            return Verdict(result=ObjectResult(manifest.id, "failed", str(error), wave_of(manifest)))

    def _look(self, index: int, manifest: Manifest) -> Verdict:
        key, wave = manifest.id, wave_of(manifest)
        rendered = digest(manifest)
        meta, known = self._live.get(key), self._known.get(key)
        same_manifest = known is not None and known.hash == rendered
        if meta is not None and known is not None and same_manifest:
            if moved(known.fingerprint, fingerprint(meta, key.group_kind)) in ("same", "status"):
                # The old fingerprint stays where only the status moved: the next look then asks for the health.
                return Verdict(result=ObjectResult(key, "unchanged", wave=wave), known=known)
        if self._exempt(manifest):
            return Verdict(change=Change(key, index, wave, None, "new"), absent=True)

        resource = self._apis.find(key.group, key.kind, manifest.version)
        if resource is None:  # resolve() has refused unknown kinds; this one vanished since
            raise Rejected(f"{key}: the cluster does not serve {manifest.api_version} {key.kind} any more")
        wanted = labelled(manifest.body, self._applyset)
        current = self._cluster.get(resource, key.namespace, key.name) if meta is not None else None
        if current is None:
            try:
                answer = self._cluster.apply(resource, wanted, dry_run=True)
                if answer.created:
                    gone = "was deleted" if same_manifest else "new"
                    if same_manifest and not self._heal:
                        return Verdict(result=ObjectResult(key, "skipped", "was deleted; self-heal is off", wave))
                    return Verdict(change=Change(key, index, wave, None, gone), wanted=answer.body, absent=True)
            except Conflict:
                pass  # it is there, and others own fields of it: read it and decide
            current = self._cluster.get(resource, key.namespace, key.name)
            if current is None:
                raise NotYet(f"{key} comes and goes; it is looked at again")
        return self._against(index, manifest, current, wanted, rendered, same_manifest)

    def _against(
        self, index: int, manifest: Manifest, current: Body, wanted: Body, rendered: str, same_manifest: bool
    ) -> Verdict:
        """The object is there: whose is it, and what would an apply change?"""
        key, wave = manifest.id, wave_of(manifest)
        owner = owner_of(current, self._applyset)
        if isinstance(owner, Foreign):
            name = self._owner_name(owner.name) if owner.tool == "ApplySet" else owner.name
            raise Refused(f"{key} belongs to {owner.tool} {name} ({owner.mark}); it is not touched")
        metadata = current["metadata"]
        if metadata.get("deletionTimestamp"):
            raise NotYet(f"{key} is being deleted; it is created again when it is gone")
        resource = self._apis.find(key.group, key.kind, manifest.version)
        assert resource is not None  # noqa: S101  (the caller has looked)
        answer = self._cluster.apply(resource, wanted, dry_run=True, force=True)
        paths = changed_paths(current, answer.body)
        if not paths:
            mark = Known(rendered, fingerprint(current, key.group_kind), self._judge_health(current).status)
            return Verdict(None, ObjectResult(key, "unchanged", wave=wave), mark, current, answer.body)
        managers = tuple(dict.fromkeys(m.name for m in changed_by(current, paths)))
        drifted = same_manifest
        reason = _why(paths, managers, drifted, adopted=PART_OF not in (metadata.get("labels") or {}))
        if drifted and not self._heal:
            return Verdict(
                result=ObjectResult(key, "skipped", f"{reason}; self-heal is off", wave, managers=managers),
                known=Known("", fingerprint(current, key.group_kind), self._judge_health(current).status),
                live=current,
                wanted=answer.body,
            )
        seen = Seen(metadata["uid"], metadata["resourceVersion"])
        return Verdict(
            change=Change(key, index, wave, seen, reason, managers if drifted else ()), live=current, wanted=answer.body
        )

    def _exempt(self, manifest: Manifest) -> bool:
        """Can the server not judge it yet, because of something this bundle creates?"""
        key = manifest.id
        if key.namespace in self._absent_namespaces:
            return True
        if self._apis.find(key.group, key.kind, manifest.version) is None:
            return True  # resolve() let it through, so a CRD of the bundle defines it
        account = manifest.body.get("spec", {}).get("serviceAccountName", "default") if key.kind == "Pod" else None
        return (key.namespace, account) in self._absent_accounts


#: Batches in which manifests are judged: whether these are absent decides what of the rest can be judged at all.
_FIRST = {"Namespace": 0, "CustomResourceDefinition.apiextensions.k8s.io": 0, "ServiceAccount": 1}


def _why(paths: Sequence[tuple[str, ...]], managers: Sequence[str], drifted: bool, *, adopted: bool) -> str:
    """``data.greeting changed by kubectl-edit`` for drift, ``data.greeting, spec.replicas`` for a new manifest."""
    shown = ", ".join(format_path(path) for path in paths[:3])
    if len(paths) > 3:
        shown += f" and {len(paths) - 3} more"
    if adopted:
        return f"adopted; sets {shown}"
    if not drifted:
        return shown
    if not managers:
        # The API server records the owners of fields that are there, not who took one away.
        return f"{shown} removed by somebody whom only the cluster's audit log knows"
    return f"{shown} changed by {' and '.join(managers)}"
