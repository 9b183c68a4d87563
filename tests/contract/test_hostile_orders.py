"""Holds, vetoes, pins, plans and questions as nobody should give them: told in a sentence, and nothing is done.

Redis alone is real: what is refused never reaches a worker or a cluster.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fleetbeat import keys
from fleetbeat.cli.key import new_key
from fleetbeat.cli.main import cli
from fleetbeat.cli.session import Session
from fleetbeat.client import Fleetbeat
from fleetbeat.clients.catalogs import Catalogs
from fleetbeat.clients.holds import Holds
from fleetbeat.clients.orders import Orders
from fleetbeat.clients.store import Store
from fleetbeat.decisions.holds import MOST_ON_ONE
from fleetbeat.decisions.promise import Promise
from fleetbeat.errors import ConfigurationError, FleetbeatError
from fleetbeat.settings import Settings, load
from workers.holds import _remembered

DIGEST = "sha256:" + "0" * 64
BIG = "a" * 10_000
HEAD = {"apiVersion": "fleetbeat.dev/v1alpha1"}
Command = Callable[..., Result]


def application(name: str) -> dict[str, Any]:
    spec = {"source": {"oci": "registry.example.com/x"}, "destination": {"cluster": "prod", "namespace": name}}
    return {**HEAD, "kind": "Application", "metadata": {"name": name, "labels": {"team": "web"}}, "spec": spec}


@pytest.fixture
def settings(redis_url: str) -> Settings:
    return load({"FLEETBEAT_REDIS_URL": redis_url, "FLEETBEAT_KEY": new_key()})


@pytest.fixture
def store(settings: Settings) -> Store:
    """A catalog of ``shop`` and ``bank`` on cluster ``prod`` is in force; no process runs."""
    store = Store.open(settings)
    cluster = {**HEAD, "kind": "Cluster", "metadata": {"name": "prod"}, "spec": {"inCluster": True}}
    documents = {f"Application/{name}": application(name) for name in ("shop", "bank")} | {"Cluster/prod": cluster}
    Catalogs(store).publish(documents, "d1")
    store.redis.hset(keys.PERIODS, mapping={"shop": "180000:0", "bank": "180000:0"})
    return store


@pytest.fixture
def command(store: Store, settings: Settings, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("FLEETBEAT_REDIS_URL", redis_url)
    monkeypatch.setenv("FLEETBEAT_KEY", settings.key.reveal())
    return lambda *words: CliRunner().invoke(cli, list(words), obj=Session())


def everything(store: Store) -> dict[bytes, bytes]:
    return {key: store.redis.dump(key) for key in store.redis.scan_iter()}


HOLD = ("--reason", "x")
REFUSED: dict[str, tuple[tuple[str, ...], int, str]] = {
    "a hold of a hundred years": (("hold", "app", "shop", "--for", "36500d", *HOLD), 3, "30 days, not 36500 days"),
    "a hold of nothing": (("hold", "app", "shop", "--for", "0s", *HOLD), 3, "not 0 seconds"),
    "a negative hold": (("hold", "app", "shop", "--for=-5s", *HOLD), 2, "'-5s' is not a duration"),
    "a hold of 1e308": (("hold", "app", "shop", "--for", "1e308", *HOLD), 2, "'1e308' is not a duration"),
    "a hold of 400 digits": (("hold", "app", "shop", "--for", "9" * 400 + "d", *HOLD), 2, "is not a duration"),
    "digits of another script": (("hold", "app", "shop", "--for", "٣s", *HOLD), 2, "'٣s' is not a duration"),
    "a hold of nobody": (("hold", "app", "nope", "--for", "1h", *HOLD), 3, "no application is called 'nope'"),
    "a hold of a glob": (("hold", "app", "*", "--for", "1h", *HOLD), 3, "no application is called '*'"),
    "no such cluster": (
        ("hold", "cluster", "mars", "--for", "1h", *HOLD),
        3,
        "no cluster is called 'mars'. Known: prod",
    ),
    "objects by a glob": (("hold", "object", "deployment/*", "--for", "1h", *HOLD), 3, "'*' is no name of an object"),
    "an object's name of two lines": (("hold", "object", "deployment/a\nb", "--for", "1h", *HOLD), 3, "'a\\nb' is no"),
    "a hold that says why in colour": (
        ("hold", "app", "shop", "--for", "1h", "--reason", "\x1b[31mred"),
        3,
        "the reason holds the control character U+001B",
    ),
    "a hold that says why for long": (
        ("hold", "app", "shop", "--for", "1h", "--reason", BIG),
        3,
        "the reason has 10,000 characters; at most 1,000 are kept",
    ),
    "a sync that says why for long": (("sync", "shop", "--reason", BIG), 3, "at most 1,000 are kept"),
    "a veto that says why for long": (("veto", DIGEST, "--reason", BIG), 3, "at most 1,000 are kept"),
    "a deletion of what is there": (("delete", "shop", "--confirm"), 3, "is in the catalog, so it would come back"),
    "a deletion of a glob": (("delete", "*"), 3, "'*' is not being deleted, nor is it in the catalog"),
    "a deletion of an escape": (("delete", "\x1b[31m"), 3, "'\\x1b[31m' is not being deleted"),
    "a deletion that orphans and confirms": (
        ("delete", "shop", "--orphan", "--confirm"),
        2,
        "--orphan deletes nothing",
    ),
    "lifting by a glob": (("hold", "--lift", "*"), 3, "no hold has the id '*'"),
    "a veto of a glob": (("veto", "sha256:*"), 2, "is no digest"),
    "back to what is no digest": (("rollback", "shop", "../../etc", "--yes"), 1, "no run and no bundle of its history"),
    "back to a long word": (("rollback", "shop", BIG, "--yes"), 1, "…"),
    "a plan that is a path": (("sync", "shop", "--plan", "../../x"), 1, "plan '../../x' is not carried out"),
    "a plan of a hundred kilobytes": (("sync", "shop", "--plan", "a" * 100_000), 1, "…"),
    "a plan nobody has saved": (("sync", "shop", "--plan", "0123456789ab"), 1, "it has expired, or never was"),
    "an empty idempotency key": (("sync", "shop", "--key", ""), 3, "an empty idempotency key would find any other"),
    "an empty plan": (("sync", "shop", "--plan", ""), 2, "--plan is empty"),
    "a run with a long name": (("history", "shop", "--run", BIG), 1, "history has no run 'aaaa"),
    "windows for a kind as people say it": (("windows", "shop", "--kind", "deployments"), 2, "is no kind such as"),
    "events of nobody": (("events", "nope"), 3, "no application is called 'nope'"),
    "following nobody": (("events", "--follow", "nope"), 3, "no application is called 'nope'"),
    "events of an empty name": (("events", ""), 3, "no application is called ''"),
    "events after the last id there can be": (
        ("events", "--since", "18446744073709551615-18446744073709551615"),
        2,
        "is yet to come",
    ),
    "events after an id too large": (("events", "--since", "9" * 400), 2, "is neither a duration"),
    "events after digits of another script": (("events", "--since", "٣" * 13), 2, "is neither a duration"),
    "following from the year 9999": (("events", "-f", "--since", "9999-12-31T23:59:59Z"), 2, "is yet to come"),
    "an audit since for ever": (("audit", "--since", "9" * 400), 2, "is neither a duration"),
    "why of a long name": (("why", BIG), 3, "no application is called 'aaaa"),
    "status of an option": (("status", "--", "--wait"), 3, "no application is called '--wait'"),
}


@pytest.mark.parametrize(("words", "code", "told"), REFUSED.values(), ids=REFUSED.keys())
def test_it_is_told_in_a_sentence_and_nothing_is_done(
    command: Command, store: Store, words: tuple[str, ...], code: int, told: str
) -> None:
    before = everything(store)
    done = command(*words)
    assert (done.exit_code, told in done.stderr) == (code, True), done.output
    assert not isinstance(done.exception, FleetbeatError | OverflowError | ValueError)
    assert len(done.output) < 1000
    assert everything(store) == before


def test_an_id_beyond_any_number_of_its_millisecond_is_the_last_of_it(command: Command) -> None:
    assert command("events", "--since", "1600000000000-99999999999999999999").exit_code == 0
    assert command("events", "--since", "0-0").exit_code == 0


def test_a_hold_that_hits_nothing_says_so(command: Command) -> None:
    """Who misspells an object would see the one that was meant healed."""
    nothing = "note: no application is known that "
    for words in (("object", "deployment/wbe"), ("namespace", "nope"), ("label", "team=nope")):
        done = command("hold", *words, "--for", "1h", *HOLD)
        assert (done.exit_code, nothing in done.stderr) == (0, True), done.output
    for words in (("namespace", "shop"), ("label", "team=web"), ("app", "shop"), ("cluster", "prod")):
        done = command("hold", *words, "--for", "1h", *HOLD)
        assert (done.exit_code, nothing in done.stderr) == (0, False), done.output


def test_a_commit_message_is_a_reason_in_one_line(command: Command, store: Store) -> None:
    assert command("hold", "app", "shop", "--for", "1h", "--reason", "Mend it\n\nIt lost orders.\n").exit_code == 0
    assert [one.reason for one in Holds(store).read().holds] == ["Mend it It lost orders."]


def test_so_many_holds_stand_on_one_target(command: Command, store: Store) -> None:
    """All of an application are noted in the cluster, where no more than 256 KiB fit."""
    for _ in range(MOST_ON_ONE):
        Holds(store).add("app", "shop", seconds=60, scope="sync", by="ada@ops", reason="x" * 1000)
    refused = command("hold", "app", "shop", "--for", "1h", *HOLD)
    assert refused.exit_code == 3
    assert "20 holds of one app or 1,000 of all are enough. Lift what is needed no more" in refused.stderr
    assert command("hold", "app", "bank", "--for", "1h", *HOLD).exit_code == 0


@pytest.mark.parametrize("target", ["deployment/web", "apps/Deployment/shop/*", ""])
def test_no_program_can_hold_what_cannot_be(settings: Settings, store: Store, target: str) -> None:
    with pytest.raises(ConfigurationError):
        Fleetbeat(settings, store=store).hold("object", target, seconds=60, by="ci", reason="x")
    assert Holds(store).read().holds == ()


def test_two_people_hold_and_lift_at_once(store: Store) -> None:
    """Each hold stands, each is lifted by one of them, and each change is seen by the application's next look."""
    holds = Holds(store)

    def add(number: int) -> str:
        return holds.add("app", "shop", seconds=60, scope="sync", by=f"p{number}", reason="x").id

    with ThreadPoolExecutor(8) as people:
        ids = list(people.map(add, range(16)))
        assert {one.id for one in holds.read().holds} == set(ids)
        mark = store.redis.hget(keys.orders("shop"), "holds")
        lifted = [one.id for one in people.map(holds.lift, ids * 4) if one is not None]
    assert sorted(lifted) == sorted(ids)
    assert holds.read().holds == ()
    assert store.redis.hget(keys.orders("shop"), "holds") not in (None, mark)


def test_a_deletion_of_several_of_which_one_is_none_deletes_none(command: Command, store: Store) -> None:
    gone = application("shop") | {"spec": application("shop")["spec"] | {"deletionPolicy": "Delete"}}
    cluster = {**HEAD, "kind": "Cluster", "metadata": {"name": "prod"}, "spec": {"inCluster": True}}
    Catalogs(store).publish({"Application/shop": gone, "Cluster/prod": cluster}, "d2")
    Catalogs(store).publish({"Cluster/prod": cluster}, "d3")
    refused = command("delete", "shop", "nope", "--orphan")
    assert (refused.exit_code, "'nope' is not being deleted" in refused.stderr) == (3, True)
    assert command("delete", "shop", "--orphan").stdout == "shop: forgotten; what is left of it in the cluster stays\n"


def test_a_plan_of_another_application(command: Command, store: Store) -> None:
    plan = Orders(store).promise(Promise("bank", DIGEST, "spec"))
    refused = command("sync", "shop", "--plan", plan)
    assert refused.exit_code == 1
    assert (
        f"plan {plan} is not carried out: it was made for bank. Make a new one: fleetbeat plan shop" in refused.stderr
    )
    assert not store.redis.exists(keys.request("shop"))
    assert command("sync", "bank", "--plan", plan).exit_code == 0


HOSTILE = {
    "no JSON": "[",
    "no list": '{"id": "3fa9c1"}',
    "a number": "7",
    "deep": "[" * 5000 + "]" * 5000,
    "of nothing": "[{}]",
    "an id that is a list": {"id": ["x"]},
    "a name that is a number": {"by": 5},
    "for ever": {"until": 10**17},
    "beyond all calendars": {"since": 10**20, "until": 10**20 + 1},
    "in the year 3000": {"since": 32_503_680_000_000, "until": 32_503_680_000_001},
    "before all time": {"since": -(10**20), "until": 1 - 10**20},
    "another application's": {"target": "bank"},
    "a whole cluster": {"kind": "cluster", "target": "prod"},
    "a field of ours that is none": {"colour": "red"},
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_somebody_writes_on_the_parent_holds_nothing(text: Any) -> None:
    """It is asked for once: when Redis has lost its data."""
    now = 1_796_040_000_000
    good = {"id": "3fa9c1", "kind": "app", "target": "shop", "scope": "sync", "by": "ada@ops", "reason": "x"}
    good |= {"since": now - 1000, "until": now + 1000, "cluster": ""}
    assert len(_remembered(json.dumps([good]), "shop", now)) == 1
    written = text if isinstance(text, str) else json.dumps([good | text])
    assert _remembered(written, "shop", now) == []
    assert len(_remembered(json.dumps([good] * 1000), "shop", now)) == MOST_ON_ONE
