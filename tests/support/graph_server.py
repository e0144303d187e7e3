"""A process with TensorFlow, forked for every serving graph.

Loading TensorFlow takes seconds of CPU time, and building a graph takes a part of a second. So the
tests start one such process, where a conversion starts an interpreter of its own. The build is the
same function, with the same environment.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from typing import IO, Any

# The longest message of a request: arguments and environment.
_MOST_BYTES = 1 << 20


class GraphServer:
    """The process; ``start`` has the signature of ``python_process.start``."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = tempfile.TemporaryDirectory()
        self._address = os.path.join(self._folder.name, "socket")

    def start(
        self, _: str, arguments: list[str], environment: dict[str, str], **__: Any
    ) -> ForkedProcess:
        """Forks the process, with pipes to standard input and from standard error."""
        env = {**os.environ, **environment}
        with self._lock:
            self._start(env)
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self._address)
        return ForkedProcess(connection, {"folder": arguments[0], "env": env, "path": sys.path})

    def _start(self, env: dict[str, str]) -> None:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.graph_server", self._address],
                stdout=subprocess.PIPE,
                env=env,
                cwd=f"{os.path.dirname(__file__)}/../..",  # tests may change folders
            )
            assert self._process.stdout is not None
            self._process.stdout.readline()

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
        self._folder.cleanup()


class ForkedProcess:
    """A fork of the server, with methods of ``Popen``."""

    def __init__(self, connection: socket.socket, request: dict[str, Any]) -> None:
        reading, writing = os.pipe(), os.pipe()
        socket.send_fds(connection, [json.dumps(request).encode()], [reading[0], writing[1]])
        os.close(reading[0])
        os.close(writing[1])
        self.stdin: IO[bytes] = os.fdopen(reading[1], "wb")
        self.stderr: IO[bytes] = os.fdopen(writing[0], "rb")
        self._answers = connection.makefile("r")
        self._pid = int(self._answers.readline())
        self.returncode: int | None = None

    def communicate(self, data: bytes) -> tuple[None, bytes]:
        """Writes input, reads standard error and waits for the end."""
        with contextlib.suppress(BrokenPipeError):
            self.stdin.write(data)
            self.stdin.close()
        complaint = self.stderr.read()
        self.wait()
        return None, complaint

    def kill(self) -> None:
        """Kills the process, if it still runs."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)

    def wait(self) -> int:
        """Returns the exit status, or the negative number of the signal."""
        if self.returncode is None:
            self.returncode = int(self._answers.readline())
            self._answers.close()
        return self.returncode


def _serve(address: str) -> None:
    """Forks for each connection, for ever."""
    from beam_pipelines.serving.__main__ import load_tensorflow

    load_tensorflow()
    parent = os.getppid()
    server = socket.socket(socket.AF_UNIX)
    server.bind(address)
    server.listen()
    server.settimeout(1)
    print("ready", flush=True)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while os.getppid() == parent:
        with contextlib.suppress(TimeoutError):
            connection, _ = server.accept()
            if not os.fork():
                server.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                connection.setblocking(True)
                _answer(connection)
                os._exit(0)
            connection.close()


def _answer(connection: socket.socket) -> None:
    """Forks the process that builds; tells its id, then its status."""
    message, descriptors, _, _ = socket.recv_fds(connection, _MOST_BYTES, 2)
    request = json.loads(message)
    child = os.fork()
    if not child:
        connection.close()
        os._exit(_build(request, descriptors))
    for descriptor in descriptors:
        os.close(descriptor)
    connection.sendall(f"{child}\n".encode())
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    connection.sendall(f"{status}\n".encode())


def _build(request: dict[str, Any], descriptors: list[int]) -> int:
    from beam_pipelines.serving import __main__ as builder

    os.dup2(descriptors[0], 0)
    os.dup2(descriptors[1], 2)
    os.environ.clear()
    os.environ.update(request["env"])
    sys.path[:] = request["path"]
    sys.argv[1:] = [request["folder"], str(os.getppid())]
    sys.stdin = os.fdopen(0, encoding="utf-8")
    sys.stderr = os.fdopen(2, "w", encoding="utf-8")
    status = builder.main()
    sys.stderr.flush()
    return status


if __name__ == "__main__":
    _serve(sys.argv[1])
