"""Small objects of twelve kinds, and the ways in which others make each of them drift.

What is right depends on who owns what. A value of the bundle, and a list or map that belongs to one owner as a whole
(``x-kubernetes-list-type: atomic`` and its like), are put back. A key of its own beside the bundle's is nobody's
business: it stays, and costs no write (field case b11).
"""

from __future__ import annotations

import base64
import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fleet import config_map
from people import Hands

Body = dict[str, Any]

#: nothing makes a Deployment available or gives an Ingress an address where no controllers are
NO_WAIT = {"argocd.argoproj.io/ignore-healthcheck": "true"}


@dataclass(frozen=True)
class Kind:
    """One kind; the changes are merge patches of an object (RFC 7386)."""

    plural: str
    body: Body  #: the manifest, without name and namespace
    edit: Body  #: one of the bundle's values becomes another one
    more: Body  #: one entry more in something of the bundle that has one owner as a whole; {} = there is none
    theirs: Body  #: a key of somebody else's beside the bundle's

    @property
    def name(self) -> str:
        return str(self.body["kind"]).lower()


def _kind(api: str, kind: str, plural: str, *, edit: Body, more: Body, theirs: Body, **content: Any) -> Kind:
    return Kind(plural, {"apiVersion": api, "kind": kind, "metadata": {}, **content}, edit, more, theirs)


def _spec(**fields: Any) -> Body:
    return {"spec": fields}


def _secret(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _container(**more: Any) -> Body:
    return {"name": "c", "image": "none:1", "args": ["--serve"], **more}


def _template(container: Body) -> Body:
    return {"template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [container]}}}


def _job(container: Body) -> Body:
    return {"jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}}}


def _backend(port: int) -> Body:
    return {"service": {"name": "x", "port": {"number": port}}}


def _rule(verb: str) -> Body:
    return {"apiGroups": [""], "resources": ["pods"], "verbs": [verb]}


def _user(name: str) -> Body:
    return {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}


_SELECTOR = {"matchLabels": {"app": "x"}}
_RBAC = "rbac.authorization.k8s.io"
_NOTE: Body = {"metadata": {"annotations": {"example.com/note": "theirs"}}}

KINDS = (
    Kind(
        "configmaps",
        config_map("", data={"greeting": "hello"}),
        edit={"data": {"greeting": "hacked"}},
        more={},
        theirs={"data": {"extra": "theirs"}},
    ),
    _kind(
        *("v1", "Secret", "secrets"),
        stringData={"password": "hunter2"},
        edit={"data": {"password": _secret("hacked")}},
        more={},
        theirs={"data": {"extra": _secret("theirs")}},
    ),
    _kind(
        *("v1", "Service", "services"),
        spec={"ports": [{"name": "http", "port": 80, "targetPort": 8080}], "selector": {"app": "x"}},
        edit=_spec(ports=[{"name": "http", "port": 80, "targetPort": 9090}]),
        more=_spec(selector={"track": "canary"}),
        theirs=_spec(ports=[{"name": "http", "port": 80, "targetPort": 8080}, {"name": "metrics", "port": 9100}]),
    ),
    _kind(
        *("v1", "ServiceAccount", "serviceaccounts"),
        automountServiceAccountToken=False,
        imagePullSecrets=[{"name": "pull"}],
        edit={"automountServiceAccountToken": True},
        more={"imagePullSecrets": [{"name": "pull"}, {"name": "more"}]},
        theirs={"secrets": [{"name": "theirs"}]},
    ),
    _kind(
        *("v1", "LimitRange", "limitranges"),
        spec={"limits": [{"type": "Pod", "max": {"cpu": "4"}}]},
        edit=_spec(limits=[{"type": "Pod", "max": {"cpu": "8"}}]),
        more=_spec(limits=[{"type": "Pod", "max": {"cpu": "4"}}, {"type": "Container", "max": {"cpu": "2"}}]),
        theirs=_NOTE,
    ),
    _kind(
        *("apps/v1", "Deployment", "deployments"),
        spec={"replicas": 1, "selector": _SELECTOR, **_template(_container())},
        edit=_spec(replicas=5),
        more=_spec(**_template(_container(args=["--serve", "--debug"]))),
        theirs=_spec(**_template(_container(env=[{"name": "DEBUG", "value": "1"}]))),
    ),
    _kind(
        *("batch/v1", "CronJob", "cronjobs"),
        spec={"schedule": "0 3 * * *", "suspend": True, **_job(_container())},
        edit=_spec(schedule="* * * * *"),
        more=_spec(**_job(_container(args=["--serve", "--debug"]))),
        theirs=_spec(successfulJobsHistoryLimit=9),
    ),
    _kind(
        *("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets"),
        spec={"minAvailable": 0, "selector": _SELECTOR},
        edit=_spec(minAvailable=1),
        more=_spec(selector={"matchLabels": {"track": "canary"}}),
        theirs=_spec(unhealthyPodEvictionPolicy="AlwaysAllow"),
    ),
    _kind(
        *("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies"),
        spec={"podSelector": _SELECTOR, "policyTypes": ["Ingress"]},
        edit=_spec(podSelector={"matchLabels": {"app": "y"}}),
        more=_spec(policyTypes=["Ingress", "Egress"]),
        theirs=_spec(egress=[{"ports": [{"port": 53, "protocol": "UDP"}]}]),
    ),
    _kind(
        *("networking.k8s.io/v1", "Ingress", "ingresses"),
        spec={"defaultBackend": _backend(80), "rules": [{"host": "a.example.com"}]},
        edit=_spec(defaultBackend=_backend(81)),
        more=_spec(rules=[{"host": "a.example.com"}, {"host": "b.example.com"}]),
        theirs=_spec(tls=[{"hosts": ["a.example.com"], "secretName": "theirs"}]),
    ),
    _kind(
        *(f"{_RBAC}/v1", "Role", "roles"),
        rules=[_rule("get")],
        edit={"rules": [_rule("delete")]},
        more={"rules": [_rule("get"), _rule("delete")]},
        theirs=_NOTE,
    ),
    _kind(
        *(f"{_RBAC}/v1", "RoleBinding", "rolebindings"),
        roleRef={"apiGroup": _RBAC, "kind": "Role", "name": "role"},
        subjects=[_user("ada")],
        edit={"subjects": [_user("eve")]},
        more={"subjects": [_user("ada"), _user("eve")]},
        theirs=_NOTE,
    ),
)


@dataclass(frozen=True)
class Object:
    """One object of an application, which one of the ways is for."""

    kind: Kind
    name: str
    namespace: str

    @property
    def path(self) -> str:
        group, _, version = self.kind.body["apiVersion"].rpartition("/")
        root = f"/apis/{group}/{version}" if group else f"/api/{version}"
        return f"{root}/namespaces/{self.namespace}/{self.kind.plural}/{self.name}"

    @property
    def words(self) -> str:
        """As ``fleet.words`` and history name it."""
        return f"{self.kind.body['kind']} {self.namespace}/{self.name}"

    @property
    def manifest(self) -> Body:
        body = copy.deepcopy(self.kind.body)
        body["metadata"] = {
            "name": self.name,
            "namespace": self.namespace,
            "labels": {"team": "web"},
            "annotations": dict(NO_WAIT),
        }
        return body

    @property
    def otherwise(self) -> Body:
        """The manifest as another tool has it: one value differs."""
        body: Body = merged(self.manifest, self.kind.edit)
        body.pop("stringData", None)
        return body


def merged(body: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, Mapping):
        return copy.deepcopy(patch)
    found = dict(body) if isinstance(body, Mapping) else {}
    for key, value in patch.items():
        found[key] = merged(found.get(key), value)
    return {key: value for key, value in found.items() if value is not None}


def content(live: Body) -> Body:
    """All that somebody may want otherwise: without what the API server counts, allots or reports."""
    kept = {word: live["metadata"].get(word) for word in ("labels", "annotations")}
    found = {key: value for key, value in live.items() if key not in ("metadata", "status")}
    if live["kind"] == "Service":
        found["spec"] = {key: value for key, value in live["spec"].items() if not key.startswith("clusterIP")}
    return {**found, "metadata": kept}


# ── the ways ─────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Way:
    """How somebody makes an object drift, and what is right then."""

    act: Callable[[Hands, Object], object]
    manager: str = ""  #: whom history names; "" = managedFields do not say who it was
    kinds: tuple[Kind, ...] = KINDS
    healed: bool = True
    anew: bool = False  #: the object is another one afterwards
    slow: bool = False  #: takes more than one request: nobody may look in between

    def objects(self, name: str, namespace: str) -> list[Object]:
        return [Object(kind, f"{kind.name}-{name}", namespace) for kind in self.kinds]


def _replace(hands: Hands, one: Object) -> None:
    """``kubectl replace``: the file and nothing else, so that even the ApplySet's label is gone."""
    body = one.otherwise
    body["metadata"]["resourceVersion"] = hands.get(one.path)["metadata"]["resourceVersion"]
    hands.replace(one.path, body, "kubectl-replace")


def _anew(hands: Hands, one: Object) -> None:
    """``kubectl replace --force``."""
    hands.delete(one.path)
    hands.create(one.path.rpartition("/")[0], one.otherwise, "kubectl-replace")


_NO_LABEL: Body = {"metadata": {"labels": {"team": None}}}

WAYS = {
    "edited": Way(lambda hands, one: hands.merge(one.path, one.kind.edit), "kubectl-edit"),
    "deleted": Way(lambda hands, one: hands.delete(one.path), anew=True),
    "label-removed": Way(lambda hands, one: hands.merge(one.path, _NO_LABEL)),
    "one-more": Way(
        lambda hands, one: hands.merge(one.path, one.kind.more),
        "kubectl-edit",
        kinds=tuple(kind for kind in KINDS if kind.more),
    ),
    "theirs": Way(lambda hands, one: hands.merge(one.path, one.kind.theirs), healed=False),
    "applied": Way(lambda hands, one: hands.apply(one.path, one.otherwise, "other-tool"), "other-tool"),
    "replaced": Way(_replace, "kubectl-replace"),
    "made-anew": Way(_anew, "kubectl-replace", anew=True, slow=True),
}


@dataclass(frozen=True)
class Drifting:
    """The objects of one application: those of each way apart, so that nothing is healed more than once."""

    namespace: str
    ways: dict[str, list[Object]] = field(default_factory=dict)

    @classmethod
    def make(cls, namespace: str) -> Drifting:
        return cls(namespace, {name: way.objects(name, namespace) for name, way in WAYS.items()})

    @property
    def objects(self) -> list[Object]:
        return [one for objects in self.ways.values() for one in objects]
