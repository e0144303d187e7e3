"""Reads a job's state from Beam's job server and from Flink.

The job server has the job's state, Flink its tasks and slots.
"""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import grpc
from apache_beam.options.pipeline_options import (
    FlinkRunnerOptions,
    PipelineOptions,
    PortableOptions,
)
from apache_beam.portability.api import beam_job_api_pb2, beam_job_api_pb2_grpc

from beam_pipelines.remote.web import read_answer

_TIMEOUT_SECS = 5
_MOST_BYTES = 64 << 20


def describe_state(options: PipelineOptions) -> str:
    """Describes the newest job and a Flink cluster's tasks and slots.

    The newest job is the job server's.

    Args:
      options: for Beam; ``job_endpoint`` is the address of the job server.
    """
    endpoint = options.view_as(PortableOptions).job_endpoint
    parts = [_job_state(endpoint) if endpoint else "the job is not submitted yet"]
    master = options.view_as(FlinkRunnerOptions).flink_master
    if master.strip("[]") not in ("local", "auto"):
        parts.append(_flink_state(master if "://" in master else f"http://{master}"))
    return "; ".join(parts)


def _job_state(endpoint: str) -> str:
    try:
        with grpc.insecure_channel(endpoint) as channel:
            stub = beam_job_api_pb2_grpc.JobServiceStub(channel)
            jobs = stub.GetJobs(beam_job_api_pb2.GetJobsRequest(), timeout=_TIMEOUT_SECS).job_info
    except grpc.RpcError as error:
        return f"the job server at {endpoint} does not answer ({error.code().name})"
    states = [beam_job_api_pb2.JobState.Enum.Name(job.state) for job in jobs]
    return f"the job server says {states[-1]}" if states else "the job server has no job yet"


def _flink_state(master: str) -> str:
    try:
        overview, jobs = _ask(f"{master}/overview"), _ask(f"{master}/jobs/overview")["jobs"]
    except (OSError, ValueError, KeyError) as error:
        return f"Flink at {master} does not answer ({error})"
    running = [job["tasks"] for job in jobs if job["state"] in ("CREATED", "RUNNING", "RESTARTING")]
    tasks = {
        kind: sum(job[kind] for job in running)
        for kind in ("running", "created", "scheduled", "finished")
    }
    waiting = tasks["created"] + tasks["scheduled"]
    text = (
        f"Flink at {master}: {tasks['finished']} tasks are finished, {tasks['running']} run, "
        f"{waiting} wait; "
        f"{overview['slots-available']} of {overview['slots-total']} slots are free"
    )
    if tasks["scheduled"] and not overview["slots-available"] and not tasks["running"]:
        text += ". The tasks wait for slots: add TaskManagers, or lower --parallelism"
    return text


def _ask(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=_TIMEOUT_SECS) as answer:  # noqa: S310 - the address that the user gave
        return json.loads(read_answer(answer.read1, answer.length, _MOST_BYTES))
