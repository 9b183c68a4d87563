"""Results as people see them: by wave, hooks under their phase."""

from __future__ import annotations

import re

from fleetbeat.cli.results import lines_of
from fleetbeat.model import ObjectId
from fleetbeat.model_results import ObjectResult


def test_hooks_stand_under_their_phase_in_the_order_of_a_sync() -> None:
    job = ObjectId("batch", "Job", "shop", "notify")
    web = ObjectId("", "ConfigMap", "shop", "web")
    results = [
        ObjectResult(job, "created", phase="PostSync"),
        ObjectResult(web, "created", "new", 5),
        ObjectResult(job, "created", "deleted (HookSucceeded)", -5, phase="PreSync"),
        ObjectResult(web._replace(name="other"), "configured", "data.key"),
        ObjectResult(job._replace(name="seed"), "created", phase="Sync"),
        ObjectResult(job._replace(name="alarm"), "failed", "no", phase="SyncFail"),
    ]
    shown = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines_of(results)]
    assert shown == [
        "PreSync wave -5",
        "  created    Job shop/notify   deleted (HookSucceeded)",
        "wave 0",
        "  configured ConfigMap shop/other   data.key",
        "Sync wave 0",
        "  created    Job shop/seed",
        "wave 5",
        "  created    ConfigMap shop/web",
        "PostSync wave 0",
        "  created    Job shop/notify",
        "SyncFail wave 0",
        "  failed     Job shop/alarm   no",
    ]


def test_hooks_of_a_deletion_stand_before_and_after_what_is_deleted() -> None:
    job = ObjectId("batch", "Job", "shop", "dump")
    results = [
        ObjectResult(job, "created", phase="PostDelete"),
        ObjectResult(job._replace(name="web"), "pruned"),
        ObjectResult(job, "created", phase="PreDelete"),
    ]
    headings = [line for line in lines_of(results) if not line.startswith(" ")]
    assert headings == ["PreDelete wave 0", "wave 0", "PostDelete wave 0"]
