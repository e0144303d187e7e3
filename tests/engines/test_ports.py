"""Engines that a command starts open few ports to other machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engines import test_commands
from tests.support.listening import ports_during

pytestmark = pytest.mark.runners

# Beam's gRPC servers, which bind all interfaces (docs/reliability.md): Prism's one; the job server's
# two, and six for the workers: control, data, state, logs, artifacts and settings.
OPEN = {"prism": ("prism", 1), "flink": ("java", 8)}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=getattr(pytest.mark, name)) for name in OPEN]
)
def test_ports_of_an_engine(name: str, tmp_path: Path) -> None:
    """All ports are on loopback, but those of Beam's own servers."""
    options = test_commands.options_of(name)
    rows = "".join(f"{row},{row % 7}\n" for row in range(100))
    (tmp_path / "t.csv").write_text(f"a,b\n{rows}")
    command = [*test_commands.CONVERT, "t.csv", "--output=out", *options]
    ports = ports_during(command, tmp_path)
    outside = {port for port in ports if port.host not in ("127.0.0.1", "::1")}
    program, number = OPEN[name]
    assert {port.program for port in outside} == {program}
    assert len(outside) == number, sorted(outside)
    assert len(ports) > len(outside), "the workers' pool, at least"
