"""The start of a Flex Template: runs our command line.

It turns the template's parameters (metadata.json) into arguments. Dataflow's launcher gives every
parameter as ``--name=value``, and Beam's options too. One of these is ``--template_location``: the
job is written there, and Dataflow starts it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from beam_pipelines.cli import main as main_module

FLAGS = (
    "overwrite",
)  # parameters that are true or false, where our command line has a flag or none


def command_of(arguments: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Returns the arguments of our command line.

    Args:
      arguments: as the launcher gives them.
      environment: variables of the container.

    Raises:
      ValueError: there is no recipe, or a flag that is neither true nor false.
    """
    recipe, command = "", []
    for argument in arguments:
        name, _, value = argument.removeprefix("--").partition("=")
        if name == "recipe":
            recipe = value
        elif name in FLAGS:
            if value not in ("true", "false"):
                raise ValueError(f"--{name}: found '{value}', expected true or false.")
            command += [f"--{name}"] if value == "true" else []
        else:
            command.append(argument)
    if not recipe:
        raise ValueError("found no --recipe, expected the gs:// URL of one.")
    image = environment.get("BEAM_PIPELINES_IMAGE")
    if image and not any(argument.startswith("--sdk_container_image") for argument in command):
        command += [f"--sdk_container_image={image}", "--sdk_location=container"]
    return ["convert", recipe, *command]


if __name__ == "__main__":
    try:
        ours = command_of(sys.argv[1:], os.environ)
    except ValueError as error:
        sys.exit(f"error: {error}")
    sys.exit(main_module.run(ours))
