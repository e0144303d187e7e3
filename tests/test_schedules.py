"""The schedules of docs/daily.md can be read."""

from __future__ import annotations

import ast

import yaml

from tests.test_documentation import blocks_of

BLOCKS = list(blocks_of("docs/daily.md"))


def test_python_compiles() -> None:
    """Each program of a scheduler is Python, and runs our command."""
    programs = [block.text for block in BLOCKS if block.text.startswith("# ")]
    for program in programs:
        texts = [node.value for node in ast.walk(ast.parse(program)) if type(node) is ast.Constant]
        assert any(str(text).startswith("beam-pipelines") for text in texts)
    assert len(programs) == 2


def test_cron_job_has_the_fields_of_kubernetes() -> None:
    """The CronJob has the fields that ``batch/v1`` asks for."""
    (text,) = (block.text for block in BLOCKS if block.text.startswith("apiVersion"))
    job = yaml.safe_load(text)
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "CronJob")
    assert len(job["spec"]["schedule"].split()) == 5
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert pod["restartPolicy"] in {"Never", "OnFailure"}
    (container,) = pod["containers"]
    assert {"name", "image", "command", "args", "resources"} <= set(container)
    assert container["args"][0].startswith("beam-pipelines transform ")
    assert {mount["name"] for mount in container["volumeMounts"]} == {
        volume["name"] for volume in pod["volumes"]
    }
