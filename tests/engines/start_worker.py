"""Starts one Python worker for an engine: the command of ``--environment_type PROCESS``.

Beam's containers have such a command of their own. The engine tells the worker its name and the
address for everything else.
"""

from __future__ import annotations

import argparse
import json
import os

import grpc
from apache_beam.portability.api import beam_provision_api_pb2, beam_provision_api_pb2_grpc
from apache_beam.runners.worker import sdk_worker_main
from google.protobuf import json_format


def main() -> None:
    """Asks the engine for its address, and works for it.

    It ends with the connection.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--id", required=True)
    parser.add_argument("--provision_endpoint", required=True)
    arguments, _ = parser.parse_known_args()
    with grpc.insecure_channel(arguments.provision_endpoint) as channel:
        answer = beam_provision_api_pb2_grpc.ProvisionServiceStub(channel).GetProvisionInfo(
            beam_provision_api_pb2.GetProvisionInfoRequest(),
            metadata=(("worker_id", arguments.id),),
        )
    told = answer.info
    os.environ["WORKER_ID"] = arguments.id
    os.environ["LOGGING_API_SERVICE_DESCRIPTOR"] = f'url: "{told.logging_endpoint.url}"'
    os.environ["CONTROL_API_SERVICE_DESCRIPTOR"] = f'url: "{told.control_endpoint.url}"'
    os.environ["PIPELINE_OPTIONS"] = json.dumps(json_format.MessageToDict(told.pipeline_options))
    os.environ["RUNNER_CAPABILITIES"] = " ".join(told.runner_capabilities)
    sdk_worker_main.main([])


if __name__ == "__main__":
    main()
