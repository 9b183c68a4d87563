"""audit: what is asked of it, and what it says of logs and chains it cannot use."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fleetbeat.cli.exits import Exit
from fleetbeat.cli.main import cli
from fleetbeat.cli.session import Session
from fleetbeat.clients.ledger import Chain
from fleetbeat.decisions.audit_join import moment
from fleetbeat.decisions.ledger import START, Entry, Execution, Place, Write, faults, line
from fleetbeat.model import ObjectId

NOW = 1_796_047_200_000  # 2026-11-30T14:00:00Z
WEB = Place(ObjectId("", "ConfigMap", "shop", "web"), "configmaps")
BY = Execution(
    *("shop", "prod", "r1", 7, "wave 0", "Request", "ann", "it is time"),
    *("sha256:" + "ab" * 32, "stable", "https://git.example.com/shop", "main@sha1:" + "c" * 40),
)


def mac(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def chain(*, cluster: str = "prod", at: int = NOW - 60_000) -> Chain:
    by = Execution(**{**BY.__dict__, "cluster": cluster})
    kept, head = line(Entry(1, "", at, by, (Write(at, "apply", WEB, "a-1", "", "h", "new"),), note="a note"), mac)
    return Chain("shop", (kept,), START, head)


class Ledger:
    def __init__(self, *chains: Chain) -> None:
        self._chains = {f"{one.app}{number or ''}": one for number, one in enumerate(chains)}

    def apps(self) -> list[str]:
        return sorted(self._chains)

    def read(self, app: str) -> Chain:
        return self._chains.get(app, Chain(app, (), START, START))

    def faults(self, kept: Chain) -> list[str]:
        return faults(kept.lines, kept.anchor, kept.head, mac)


class Names:
    def names(self) -> list[str]:
        return ["quiet", "shop"]

    def clusters(self) -> dict[str, Any]:
        return {}


class Clock:
    def now(self) -> int:
        return NOW


class Fake(Session):
    def __init__(self, *chains: Chain) -> None:
        self.ledger = Ledger(*chains)  # type: ignore[assignment]
        self.catalogs = Names()  # type: ignore[assignment]
        self.runs = Clock()  # type: ignore[assignment]


def invoke(session: Session, *words: str) -> Any:
    return CliRunner().invoke(cli, ["audit", *words], obj=session)


def event(at: int = NOW - 60_000, **changed: Any) -> dict[str, Any]:
    return {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "stage": "ResponseComplete",
        "auditID": "a-1",
        "verb": "patch",
        "userAgent": "fleetbeat/0.1.0 app/shop run/r1 fence/7 rev/abababababab",
        "objectRef": {"resource": "configmaps", "namespace": "shop", "name": "web"},
        "responseStatus": {"code": 200},
        "stageTimestamp": moment(at),
        **changed,
    }


def log(folder: Path, *events: dict[str, Any], name: str = "audit.log") -> str:
    """Covers ten minutes on either side of the events."""
    edges = [event(NOW + minutes * 60_000, verb="get") for minutes in (-11, 9)]
    text = "".join(json.dumps(one) + "\n" for one in (*edges, *events)).encode()
    (folder / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return str(folder / name)


def test_a_row_names_everything_a_write_is_led_back_to() -> None:
    row = json.loads(invoke(Fake(chain()), "shop", "-o", "json").output)
    assert {word: row[word] for word in ("time", "verb", "object", "auditId", "state", "run", "commit", "by")} == {
        "time": "2026-11-30T13:59:00.000Z",
        "verb": "apply",
        "object": "ConfigMap shop/web",
        "auditId": "a-1",
        "state": "written",
        "run": "r1",
        "commit": "c" * 40,
        "by": "ann",
    }
    shown = invoke(Fake(chain()), "shop")
    assert "ConfigMap shop/web" in shown.output
    assert "cccccccccccc" in shown.output


@pytest.mark.parametrize(
    ("since", "rows"),
    [("2m", 1), ("90s", 1), ("30s", 0), ("2026-11-30T13:58:00Z", 1), ("2026-11-30T15:00:00+01:00", 0)],
)
def test_since(since: str, rows: int) -> None:
    shown = invoke(Fake(chain()), "--since", since, "-o", "json")
    assert shown.exit_code == Exit.OK
    assert len(shown.output.splitlines()) == rows


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["--since", "yesterday"], Exit.USAGE, "neither a duration"),
        (["--since", "2026-11-30T12:00:00"], Exit.USAGE, "no time zone"),
        (["shopp"], Exit.CONFIGURATION, "Did you mean shop?"),
        (["quiet"], Exit.OK, "No write is known"),
        (["--cluster", "prd"], Exit.CONFIGURATION, "no cluster is called 'prd'. Did you mean prod? Known: prod"),
        (["--join", "nowhere.log"], Exit.CONFIGURATION, "nowhere.log: cannot be read: No such file or directory\n"),
    ],
)
def test_what_is_asked_wrongly_and_what_is_not_there(words: list[str], code: Exit, told: str) -> None:
    shown = invoke(Fake(chain()), *words)
    assert (shown.exit_code, told in shown.output) == (code, True), shown.output


def test_verify() -> None:
    whole = invoke(Fake(chain()), "--verify")
    assert whole.exit_code == Exit.OK
    assert "shop: whole, entries 1 to 1 (1 writes), head " in whole.output
    assert "begins anew: a note" in whole.output
    kept = chain()
    broken = Fake(Chain("shop", (kept.lines[0].replace(b"it is time", b"why not"),), kept.anchor, kept.head))
    shown = invoke(broken, "--verify")
    assert shown.exit_code == Exit.FAILED
    assert "error: shop: the entry after 0 was altered" in shown.output
    assert json.loads(invoke(Fake(chain()), "--verify", "-o", "json").output)["faults"] == []


@pytest.mark.parametrize("name", ["audit.log", "audit.log.gz"])
def test_join(tmp_path: Path, name: str) -> None:
    shown = invoke(Fake(chain()), "--join", log(tmp_path, event(), name=name))
    assert (shown.exit_code, shown.output) == (Exit.OK, "1 writes are in both\n")
    missing = invoke(Fake(chain()), "--join", log(tmp_path, event(auditID="a-2", verb="delete"), name=name))
    assert missing.exit_code == Exit.FAILED
    assert "error: in the ledger only: 2026-11-30T13:59:00.000Z apply ConfigMap shop/web" in missing.output
    other = event(objectRef={"resource": "configmaps", "namespace": "shop", "name": "other"})
    both = invoke(Fake(chain()), "--join", log(tmp_path, other, name=name))
    assert both.exit_code == Exit.FAILED
    assert "error: the log says " in both.output


def test_logs_that_cannot_be_used(tmp_path: Path) -> None:
    path = Path(log(tmp_path, event()))
    with path.open("a") as file:
        file.write('{"kind": "Pod"}\n')
    shown = invoke(Fake(chain()), "--join", str(path))
    assert shown.exit_code == Exit.CONFIGURATION
    assert f"{path}, line 4: is not an event of audit.k8s.io" in shown.output
    path.write_text("")
    assert "no audit event in there" in invoke(Fake(chain()), "--join", str(path)).output
    whole = log(tmp_path, event())
    with Path(whole).open("a") as file:
        file.write('{"kind": "Ev')  # being written at this moment
    assert invoke(Fake(chain()), "--join", whole).exit_code == Exit.OK


def test_a_log_is_one_clusters(tmp_path: Path) -> None:
    session, path = Fake(chain(), chain(cluster="test")), log(tmp_path, event())
    shown = invoke(session, "--join", path)
    assert shown.exit_code == Exit.CONFIGURATION
    assert "name it with --cluster: prod, test" in shown.output
    assert invoke(session, "--join", path, "--cluster", "prod").exit_code == Exit.OK
