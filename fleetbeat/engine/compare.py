"""Comparing what is wanted with what is live, by the API server's own dry-run. Writes nothing.

Every object that is not known to be as wanted is dry-run before the first write of the sync, so that whatever the
schema or admission refuses is found while nothing is half-applied. Exempt are only objects that the server cannot
judge yet: their kind, their namespace or their service account is created by the same bundle.

Requests: none for an object whose manifest and fingerprint are unchanged; one dry-run for one that is absent (the 201
says so); a read and a dry-run for one that is there.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fleetbeat.decisions.bypasses import Bypasses
from fleetbeat.decisions.changes import GONE, fingerprint, moved
from fleetbeat.decisions.fights import WHOLE, Dispute, told
from fleetbeat.decisions.holds import Held
from fleetbeat.decisions.ledger import object_hash
from fleetbeat.decisions.manifests import RawManifest, bundle_kinds
from fleetbeat.decisions.ownership import changed_by
from fleetbeat.decisions.treatment import is_immutable
from fleetbeat.decisions.waves import wave_of
from fleetbeat.engine.judging import Judge
from fleetbeat.engine.parallel import Requests
from fleetbeat.engine.plan import LEFT, Change, Known
from fleetbeat.engine.weigh import Weighed, Weigher
from fleetbeat.errors import Conflict, NotYet, Refused, Rejected, Shared, Unauthorized
from fleetbeat.model import ApiSet, Body, Manifest, ObjectId
from fleetbeat.model_results import Drifted, Manager, ObjectResult
from fleetbeat.ports import ClusterPort


@dataclass(frozen=True)
class Verdict:
    """What is to be done with one wanted object."""

    change: Change | None = None  #: to be written
    result: ObjectResult | None = None  #: or settled without a write
    known: Known | None = None  #: of a settled one that is as wanted
    live: Body | None = None  #: as read, when it was read
    wanted: Body | None = None  #: as the dry-run answered, when there was one
    absent: bool = False
    truces: Mapping[str, Dispute] = field(default_factory=dict)  #: fields that differ and are left alone for now
    left: tuple[Drifted, ...] = ()  #: drift that is left as it is, for whatever reason
    shared: bool = False  #: another application's: left to it, and claimed
    held: Held | None = None  #: why it differs and is left as it is
    yielded: str | None = None  #: which fields are left to whom, "" = none; None = it was not compared


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
    def shared(self) -> tuple[ObjectId, ...]:
        return tuple(key for key, v in self.verdicts.items() if v.shared)

    @property
    def known(self) -> dict[ObjectId, Known]:
        return {key: v.known for key, v in self.verdicts.items() if v.known}

    @property
    def held(self) -> dict[ObjectId, Held]:
        return {key: v.held for key, v in self.verdicts.items() if v.held}

    @property
    def truces(self) -> dict[ObjectId, Mapping[str, Dispute]]:
        return {key: v.truces for key, v in self.verdicts.items() if v.truces}

    @property
    def left(self) -> dict[ObjectId, tuple[Drifted, ...]]:
        return {key: v.left for key, v in self.verdicts.items() if v.left}

    @property
    def yielded(self) -> dict[ObjectId, str]:
        return {key: v.yielded for key, v in self.verdicts.items() if v.yielded is not None}


class Comparer:
    """One comparison of one application with one cluster."""

    def __init__(
        self,
        cluster: ClusterPort,
        apis: ApiSet,
        *,
        weigher: Weigher,
        judge: Judge,
        live: Mapping[ObjectId, Body],
        known: Mapping[ObjectId, Known],
        bypasses: Bypasses,
        absent_namespaces: Iterable[str] = (),
    ) -> None:
        """``live``: metadata of ours (``observe``); ``known``: what the last sync left; ``bypasses``: what is to
        stay as it is.

        ``absent_namespaces``: created by this sync although no object of its does it (CreateNamespace, hooks).
        """
        self._cluster = cluster
        self._apis = apis
        self._weigher = weigher
        self._judge_health = judge.health
        self._live = live
        self._known = known
        self._bypasses = bypasses
        self._absent_namespaces = set(absent_namespaces)
        self._absent_accounts: set[tuple[str, str]] = set()
        self._absent_kinds: set[tuple[str, str]] = set()

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
            asked = []
            for numbered in batch:
                if untouched := self._untouched(numbered[1]):
                    found[numbered[1].id] = untouched
                else:
                    asked.append(numbered)
            for (_, manifest), verdict in zip(asked, pool.map(self._judge, asked), strict=True):
                found[manifest.id] = verdict
                if verdict.absent and manifest.id.kind == "Namespace":
                    self._absent_namespaces.add(manifest.id.name)
                elif verdict.absent and manifest.id.kind == "ServiceAccount":
                    self._absent_accounts.add((manifest.id.namespace, manifest.id.name))
                elif verdict.absent:
                    kinds = bundle_kinds([RawManifest(manifest.body, manifest.origin)])
                    self._absent_kinds |= {(kind.group, kind.kind) for kind in kinds}
        return Comparison({m.id: found[m.id] for m in manifests if m.id in found})

    def _untouched(self, manifest: Manifest) -> Verdict | None:
        """The verdict on what needs no request. Not a thread's work: handing it over costs more than doing it."""
        key = manifest.id
        meta, known = self._live.get(key), self._known.get(key)
        if meta is None or known is None or known.hash != self._weigher.hash(manifest):
            return None
        if moved(known.fingerprint, fingerprint(meta, key.group_kind)) not in ("same", "status"):
            return None
        # The old fingerprint stays where only the status moved: the next look then asks for the health.
        return Verdict(result=ObjectResult(key, "unchanged", wave=wave_of(manifest)), known=known)

    def _judge(self, numbered: tuple[int, Manifest]) -> Verdict:
        """Errors that concern this object alone become its failed result, so that all of them are told at once."""
        index, manifest = numbered
        try:
            return self._look(index, manifest)
        except Shared as error:
            # Remembered as not there: it is not ours, and the day it carries our label is the day to look again.
            result = ObjectResult(manifest.id, "skipped", str(error), wave_of(manifest))
            return Verdict(result=result, known=Known("", GONE, "Healthy"), shared=True)
        except (Rejected, Refused, Unauthorized, NotYet) as error:
            meta = self._live.get(manifest.id)
            if held := self._bypasses.writes_not(manifest.id, meta):
                return self._held(manifest, held, f"{error}; ", meta)
            return Verdict(result=ObjectResult.failure(manifest.id, error, wave_of(manifest)))

    def _look(self, index: int, manifest: Manifest) -> Verdict:
        key, wave = manifest.id, wave_of(manifest)
        rendered = self._weigher.hash(manifest)
        meta, known = self._live.get(key), self._known.get(key)
        same_manifest = known is not None and known.hash in (rendered, rendered + LEFT)
        treated = self._weigher.treatment(manifest, meta)
        if treated.mode == "leave":
            return self._left_alone(manifest, meta, rendered, treated.why)
        if self.exempt(manifest):
            if held := self._bypasses.writes_not(key, None):
                return self._held(manifest, held, "", None)
            return Verdict(change=Change(key, index, wave, None, "new"), absent=True)

        resource = self._apis.find(key.group, key.kind, manifest.version)
        if resource is None:  # resolve() has refused unknown kinds; this one vanished since
            raise Rejected(f"{key}: the cluster does not serve {manifest.api_version} {key.kind} any more")
        current = self._cluster.get(resource, key.namespace, key.name) if meta is not None else None
        if current is None:
            try:
                answer = self._cluster.apply(resource, self._weigher.wanted(manifest), dry_run=True)
                if answer.created:
                    gone = "was deleted" if same_manifest else "new"
                    drift = (Drifted(WHOLE),) if same_manifest else ()
                    if held := self._stays(manifest, None, same_manifest):
                        stays = self._held(manifest, held, "was deleted; " if same_manifest else "", None)
                        return replace(stays, left=drift)
                    if same_manifest and (truces := self._weigher.truce_of_all(key)):
                        notes = "; ".join(told(*one) for one in truces.items())
                        result = ObjectResult(key, "skipped", notes, wave)
                        left = Known(rendered + LEFT, GONE, "Missing")
                        return Verdict(result=result, known=left, truces=truces, left=drift)
                    change = Change(key, index, wave, None, gone, healed=drift)
                    return Verdict(change=change, wanted=answer.body, absent=True)
            except Conflict:
                pass  # it is there, and others own fields of it: read it and decide
            except Rejected as error:
                # An object that is there may be refused for a field that cannot be changed, which is weighed below.
                current = self._cluster.get(resource, key.namespace, key.name) if is_immutable(str(error)) else None
                if current is None:
                    raise
            current = current or self._cluster.get(resource, key.namespace, key.name)
            if current is None:
                raise NotYet(f"{key} comes and goes; it is looked at again")
        weighed = self._weigher.weigh(resource, manifest, current)
        verdict = self._verdict(index, manifest, weighed, rendered, same_manifest)
        return replace(verdict, yielded=weighed.yielded)

    def _left_alone(self, manifest: Manifest, meta: Body | None, rendered: str, why: str) -> Verdict:
        result = ObjectResult(manifest.id, "unchanged", f"left alone: {why}", wave_of(manifest))
        if meta is None:
            return Verdict(result=result)
        health = self._known[manifest.id].health if manifest.id in self._known else "Healthy"
        return Verdict(result=result, known=Known(rendered, fingerprint(meta, manifest.id.group_kind), health))

    def _verdict(self, index: int, manifest: Manifest, weighed: Weighed, rendered: str, same_manifest: bool) -> Verdict:
        """What to do about what was found."""
        key, wave, current = manifest.id, wave_of(manifest), weighed.live
        mark = Known(rendered, fingerprint(current, key.group_kind), self._judge_health(current).status)
        # A takeover alone waits for a new manifest: only then can something that others hold too have left it.
        if not weighed.differs and not weighed.truces and (weighed.takeover is None or same_manifest):
            result = ObjectResult(key, "unchanged", "; ".join(weighed.notes), wave)
            return Verdict(None, result, mark, current, weighed.answer)
        editors = changed_by(current, weighed.paths)
        managers = tuple(dict.fromkeys(editor.name for editor in editors))
        reason = _why(weighed, editors, same_manifest)
        if not weighed.differs and weighed.truces:
            return Verdict(
                result=ObjectResult(key, "skipped", reason, wave),
                known=mark._replace(hash=rendered + LEFT),
                live=current,
                wanted=weighed.answer,
                truces=weighed.truces,
                left=weighed.left,
            )
        if held := self._stays(manifest, current, same_manifest):
            left = self._held(manifest, held, f"{reason}; " if reason else "", current, mark.health)
            told_by = replace(left.result, managers=managers, editors=editors) if left.result else None
            drift = (*weighed.left, *weighed.fields) if same_manifest or self._again(key) else ()
            return replace(left, result=told_by, live=current, wanted=weighed.answer, left=drift)
        change = Change(
            key,
            index,
            wave,
            weighed.seen,
            reason,
            managers if same_manifest else (),
            weighed.how,
            weighed.edits,
            weighed.patch,
            object_hash(current),
            editors if same_manifest else (),
            weighed.fields if same_manifest else (),
        )
        return Verdict(change=change, live=current, wanted=weighed.answer, truces=weighed.truces, left=weighed.left)

    def _stays(self, manifest: Manifest, live: Body | None, same_manifest: bool) -> Held | None:
        """Why this object is left as it is although it differs."""
        key = manifest.id
        if held := self._bypasses.writes_not(key, live):
            return held
        drifted = same_manifest or self._again(key)
        return self._bypasses.heals_not(key, manifest.annotations) if drifted else None

    def _again(self, key: ObjectId) -> bool:
        """Redis has lost what was applied of this bundle, but the cluster says that it was: what differs is drift."""
        return self._bypasses.same_bundle and key not in self._known and key in self._live

    def _held(self, manifest: Manifest, held: Held, before: str, live: Body | None, health: str = "") -> Verdict:
        """It is compared each time, and as what it was: drift stays drift, and a manifest that was not applied new."""
        key, rendered = manifest.id, self._weigher.hash(manifest)
        known = self._known.get(key)
        hash_ = known.hash if known else ""
        if hash_ in (rendered, rendered + LEFT) or (known is None and self._bypasses.same_bundle and live is not None):
            hash_ = rendered + LEFT
        mark = fingerprint(live, key.group_kind) if live is not None else GONE
        if not health:  # not read, or not there
            health = "Missing" if live is None else known.health if known else "Healthy"
        return Verdict(
            result=ObjectResult(key, "skipped", f"{before}{held.why}", wave_of(manifest)),
            known=Known(hash_, mark, health),
            held=held,
        )

    def exempt(self, manifest: Manifest) -> bool:
        """Can the server not judge it yet, because of something this bundle creates?"""
        key = manifest.id
        if key.namespace in self._absent_namespaces:
            return True
        if (key.group, key.kind) in self._absent_kinds:
            return True  # whatever discovery still remembers of it
        if self._apis.find(key.group, key.kind, manifest.version) is None:
            return True  # resolve() let it through, so a CRD of the bundle defines it
        return (key.namespace, account_of(manifest)) in self._absent_accounts


def account_of(manifest: Manifest) -> str | None:
    """Name of the ServiceAccount that a Pod runs as, without which it is refused; None for every other kind.

    What cannot be read is for the API server to refuse.
    """
    if manifest.id.group_kind != "Pod":
        return None
    spec: Any = manifest.body.get("spec")
    name = spec.get("serviceAccountName") if isinstance(spec, dict) else None
    return name if isinstance(name, str) and name else "default"


#: Batches in which manifests are judged: whether these are absent decides what of the rest can be judged at all.
_FIRST = {"Namespace": 0, "CustomResourceDefinition.apiextensions.k8s.io": 0, "ServiceAccount": 1}


def _why(weighed: Weighed, editors: Sequence[Manager], drifted: bool) -> str:
    """What differs: ``data.greeting, spec.replicas`` for a new manifest, for drift with those who changed it:
    ``data.greeting changed by kubectl-edit (Update, 2026-11-30T14:03:11Z)``."""
    more = [weighed.takeover.reason] if weighed.takeover else []
    more += weighed.notes
    shown = ", ".join(weighed.shown[:3])
    if len(weighed.shown) > 3:
        shown += f" and {len(weighed.shown) - 3} more"
    if weighed.adopted:
        shown = f"adopted; sets {shown}" if shown else "adopted"
    elif drifted and shown and not editors:
        # The API server records the owners of fields that are there, not who took one away.
        shown = f"{shown} removed by somebody whom only the cluster's audit log knows"
    elif drifted and shown:
        shown = f"{shown} changed by {' and '.join(map(str, editors))}"
    return "; ".join(filter(None, (shown, *more)))
