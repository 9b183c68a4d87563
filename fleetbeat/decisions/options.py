"""What the labels and annotations of one object ask for, read into one value.

Source of every rule: the code of Argo CD, Flux, cli-utils and Helm, as docs/conventions.md tells; it also says which
options have an effect in this version. Argo CD's words count exactly and with case, Flux's keys may be labels or
annotations and their values have any case, Helm's values have any case too.

Nothing is guessed: what cannot be read is a *problem*, and a sync refuses it. What can be read and does nothing (a
name that resembles none we know, an option that belongs to the application) is a *remark*: a sync tells it and goes
on, since it may be of a later version of the other tool, or for it alone; ``fleetbeat check`` counts it as a problem.
What is meant for us and not built yet is *idle*: told by both, so that nobody relies on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fleetbeat.decisions import self_heal
from fleetbeat.decisions.hooks import items
from fleetbeat.decisions.option_keys import KNOWN, OF_A_MANIFEST, OURS, is_stranger, misspelt
from fleetbeat.decisions.order import Order, order_of
from fleetbeat.decisions.problems import Problem, did_you_mean, nearest, shown
from fleetbeat.model import Manifest

SYNC_OPTIONS = "argocd.argoproj.io/sync-options"
COMPARE_OPTIONS = "argocd.argoproj.io/compare-options"

#: Values of Argo CD's sync options on an object, the default first where it has one.
_SYNC_OPTIONS: dict[str, tuple[str, ...]] = {
    "Prune": ("true", "false", "confirm"),
    "Delete": ("true", "false", "confirm"),
    "PruneLast": ("false", "true"),
    "Validate": ("true", "false"),
    "SkipDryRunOnMissingResource": ("false", "true"),
    "ApplyOutOfSyncOnly": ("false", "true"),
    "Replace": ("false", "true"),
    "Force": ("false", "true"),
    "ServerSideApply": ("true", "false"),
    "ClientSideApplyMigration": ("true", "false"),
}
_OF_THE_APPLICATION = (
    "CreateNamespace",
    "PrunePropagationPolicy",
    "FailOnSharedResource",
    "RespectIgnoreDifferences",
)
_COMPARE_OF_THE_APPLICATION = ("ServerSideDiff=true", "ServerSideDiff=false", "IncludeMutationWebhook=true")

#: What is read and has no effect yet. To be shortened by whoever gives one of them its effect.
_IDLE_SYNC_OPTIONS = ("Validate=false", "ServerSideApply=false")
_IDLE_KEYS = ("config.kubernetes.io/apply-time-mutation",)

#: Flux's words, default first; the first one changes nothing.
_FLUX: dict[str, tuple[str, ...]] = {
    "reconcile": ("enabled", "disabled"),
    "prune": ("enabled", "disabled"),
    "force": ("disabled", "enabled"),
    "substitute": ("enabled", "disabled"),
    "decrypt": ("enabled", "disabled"),
    "ssa": ("Override", "Merge", "IfNotPresent", "Ignore"),
}

#: Annotations with one of few values. None of them has a default that could be written.
_WORDS: dict[str, tuple[str, ...]] = {
    "argocd.argoproj.io/ignore-healthcheck": ("true", "false"),
    "argocd.argoproj.io/ignore-restart-policy": ("true", "false"),
    "argocd.argoproj.io/ignore-resource-updates": ("true", "false"),
    "config.kubernetes.io/local-config": ("true", "false"),
    "client.lifecycle.config.k8s.io/deletion": ("detach",),
    "client.lifecycle.config.k8s.io/mutation": ("ignore",),
    "cli-utils.sigs.k8s.io/on-remove": ("keep",),
}


@dataclass(frozen=True)
class Options:
    """Everything one object asks for. Each default is "it asks for nothing"; ``docs/conventions.md`` has the words."""

    order: Order = field(default_factory=Order)
    prune: str = "true"  #: "false", "confirm"
    delete: str = "true"  #: "false", "confirm": when the whole application goes
    prune_last: bool = False
    validate: bool = True
    skip_dry_run_on_missing_resource: bool = False
    apply_out_of_sync_only: bool = False
    replace: bool = False
    force: bool = False  #: delete and create where a field cannot be changed (Argo CD's Force, Flux's force)
    server_side_apply: bool = True
    client_side_apply_migration: bool = True
    ignore_extraneous: bool = False
    ignore_json_pointers: tuple[str, ...] = ()
    ignore_healthcheck: bool = False
    ignore_restart_policy: bool = False
    ignore_resource_updates: bool | None = None
    reconcile: bool = True  #: False: Flux's ``reconcile: disabled``
    ssa: str = "Override"  #: "Merge", "IfNotPresent", "Ignore"
    keep: tuple[str, ...] = ()  #: marks of Flux, Helm and cli-utils that ask never to prune it, ``key: value``
    create_only: bool = False  #: cli-utils' ``mutation: ignore``
    problems: tuple[Problem, ...] = ()  #: what cannot be read, those of ``order`` included
    remarks: tuple[Problem, ...] = ()  #: what is readable and does nothing
    idle: tuple[Problem, ...] = ()  #: what this version does not do yet


def read(manifest: Manifest) -> Options:
    """The object's options. Never raises."""
    return _Reader(manifest).options()


class _Reader:
    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._annotations = manifest.annotations
        self._labels: Mapping[str, Any] = manifest.body.get("metadata", {}).get("labels") or {}
        self._problems: list[Problem] = []
        self._remarks: list[Problem] = []
        self._idle: list[Problem] = []

    def options(self) -> Options:
        order = order_of(self._manifest)
        self._problems += order.problems
        self._check_keys()
        for key, wrong in self_heal.read(self._annotations).problems:
            self._problem(f"annotation {key} {wrong}")
        sync = self._sync_options()
        words = {key: self._word(key, self._annotations.get(key), values) for key, values in _WORDS.items()}
        flux = {name: self._flux(f"kustomize.toolkit.fluxcd.io/{name}", values) for name, values in _FLUX.items()}
        updates = words["argocd.argoproj.io/ignore-resource-updates"]
        return Options(
            order=order,
            prune=sync["Prune"],
            delete=sync["Delete"],
            prune_last=sync["PruneLast"] == "true",
            validate=sync["Validate"] == "true",
            skip_dry_run_on_missing_resource=sync["SkipDryRunOnMissingResource"] == "true",
            apply_out_of_sync_only=sync["ApplyOutOfSyncOnly"] == "true",
            replace=sync["Replace"] == "true",
            force=sync["Force"] == "true" or flux["force"] == "enabled",
            server_side_apply=sync["ServerSideApply"] == "true",
            client_side_apply_migration=sync["ClientSideApplyMigration"] == "true",
            ignore_extraneous=self._ignore_extraneous(),
            ignore_json_pointers=self._json_pointers(),
            ignore_healthcheck=words["argocd.argoproj.io/ignore-healthcheck"] == "true",
            ignore_restart_policy=words["argocd.argoproj.io/ignore-restart-policy"] == "true",
            ignore_resource_updates=None if updates is None else updates == "true",
            reconcile=flux["reconcile"] == "enabled",
            ssa=flux["ssa"],
            keep=self._keep(words, flux["prune"]),
            create_only=words["client.lifecycle.config.k8s.io/mutation"] == "ignore",
            problems=tuple(self._problems),
            remarks=tuple(self._remarks),
            idle=tuple(self._idle),
        )

    # ── values ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _sync_options(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for item in items(self._annotations.get(SYNC_OPTIONS, "")):
            name, _, value = item.partition("=")
            allowed = _SYNC_OPTIONS.get(name)
            if allowed is None:
                self._unknown_option(name, value)
            elif value not in allowed:
                options = ", ".join(f"{name}={word}" for word in allowed)
                self._problem(f"annotation {SYNC_OPTIONS}: {shown(item)} is not one of {options}")
            elif found.setdefault(name, value) != value:
                self._problem(f"annotation {SYNC_OPTIONS} has both {name}={found[name]} and {item}")
            elif item in _IDLE_SYNC_OPTIONS:
                self._say_idle("annotation", SYNC_OPTIONS, item)
        return {name: found.get(name, values[0]) for name, values in _SYNC_OPTIONS.items()}

    def _unknown_option(self, name: str, value: str) -> None:
        item = f"{name}={value}" if value else name
        if name in _OF_THE_APPLICATION:
            self._remark(
                f"annotation {SYNC_OPTIONS}: {name} is an option of the application (spec.sync.options); on an object "
                "it does nothing"
            )
        elif near := nearest(name, (*_SYNC_OPTIONS, *_OF_THE_APPLICATION)):
            self._problem(f"annotation {SYNC_OPTIONS}: unknown option {shown(item)}. Did you mean {near}={value}?")
        else:
            self._remark(f"annotation {SYNC_OPTIONS}: unknown option {shown(item)}. Known: {', '.join(_SYNC_OPTIONS)}")

    def _ignore_extraneous(self) -> bool:
        found = items(self._annotations.get(COMPARE_OPTIONS, ""))
        # On an Argo CD Application that a bundle brings they are for that application, not for its own object.
        of_an_application = self._manifest.id.group == "argoproj.io"
        for item in found:
            if item == "IgnoreExtraneous" or (item in _COMPARE_OF_THE_APPLICATION and of_an_application):
                continue
            if item in _COMPARE_OF_THE_APPLICATION:
                self._remark(f"annotation {COMPARE_OPTIONS}: {item} belongs on an Argo CD Application; here it is idle")
            else:
                hint = did_you_mean(item, ("IgnoreExtraneous", *_COMPARE_OF_THE_APPLICATION))
                text = f"annotation {COMPARE_OPTIONS}: unknown option {shown(item)}.{hint} Known: IgnoreExtraneous"
                (self._problem if hint else self._remark)(text)
        return "IgnoreExtraneous" in found

    def _json_pointers(self) -> tuple[str, ...]:
        """RFC 6901, absolute."""
        key = "argocd.argoproj.io/ignore-differences-json-pointers"
        pointers = items(self._annotations.get(key, ""))
        for pointer in pointers:
            if not pointer.startswith("/") or "~" in pointer.replace("~0", "").replace("~1", ""):
                self._problem(f"annotation {key}: {shown(pointer)} is no JSON pointer such as /spec/replicas")
        return tuple(pointers)

    def _keep(self, words: Mapping[str, str | None], flux_prune: str) -> tuple[str, ...]:
        marks = []
        if flux_prune == "disabled":
            marks.append("kustomize.toolkit.fluxcd.io/prune: disabled")
        policy = self._annotations.get("helm.sh/resource-policy")
        policy = policy.strip() if isinstance(policy, str) else policy  # Helm does; nobody else does
        if self._word("helm.sh/resource-policy", policy, ("keep",), True):
            marks.append("helm.sh/resource-policy: keep")
        marks += [
            f"{key}: {words[key]}"
            for key in ("client.lifecycle.config.k8s.io/deletion", "cli-utils.sigs.k8s.io/on-remove")
            if words[key]
        ]
        return tuple(marks)

    def _flux(self, key: str, values: tuple[str, ...]) -> str:
        """Label or annotation; where they differ, the one that asks for something counts, as in Flux."""
        found = [
            word
            for where, marks in (("label", self._labels), ("annotation", self._annotations))
            if (word := self._word(key, marks.get(key), values, True, where))
        ]
        return next((word for word in found if word != values[0]), values[0])

    def _word(
        self, key: str, value: object, allowed: tuple[str, ...], any_case: bool = False, where: str = "annotation"
    ) -> str | None:
        """One of ``allowed`` as spelt there; None when the key is not there, or its value is none of them."""
        if value is None:
            return None
        text = str(value).casefold() if any_case else value
        match = next((word for word in allowed if (word.casefold() if any_case else word) == text), None)
        if match is None:
            self._problem(f"{where} {key} must be {' or '.join(allowed)}, not {shown(value)}")
        return match

    # ── keys ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _check_keys(self) -> None:
        for key in _IDLE_KEYS:
            if key in self._annotations:
                self._say_idle("annotation", key, str(self._annotations[key]))
        for where, marks in (("annotation", self._annotations), ("label", self._labels)):
            for key in marks:
                if key in OF_A_MANIFEST and where == "label":
                    self._problem(f"label {key} does nothing as a label; make it an annotation")
                elif key.startswith(OURS) and key not in OF_A_MANIFEST:
                    near = nearest(key.removeprefix(OURS), [known.removeprefix(OURS) for known in OF_A_MANIFEST], 0.75)
                    hint = f". Did you mean {OURS}{near}?" if near else ""
                    self._problem(f"{where} {key}: Fleetbeat knows no such key on a manifest; remove it{hint}")
                elif meant := misspelt(key):
                    self._problem(f"{where} {key} means nothing. Did you mean {meant}?")
                elif is_stranger(key):
                    self._remark(f"{where} {key} is not known to this version and does nothing")
                elif where == "label" and KNOWN.get(key) == "annotation":
                    self._problem(f"label {key} does nothing as a label; make it an annotation")

    def _problem(self, message: str) -> None:
        self._problems.append(self._say(message))

    def _remark(self, message: str) -> None:
        self._remarks.append(self._say(message))

    def _say_idle(self, where: str, key: str, value: str) -> None:
        self._idle.append(self._say(f"{where} {key}: {shown(value)} has no effect in this version"))

    def _say(self, message: str) -> Problem:
        return Problem.at(self._manifest.origin, message, subject=str(self._manifest.id))
