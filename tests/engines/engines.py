"""Starts real engines on this machine and ends them.

These are Prism, the job servers of Flink and Spark, clusters of both, and pools of workers. ``make
prism flink-jars spark-jars`` puts their files under ``.engines``. As a program this module starts a
Flink cluster and keeps it until it is interrupted: ``make flink``.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

REPOSITORY = Path(__file__).resolve().parent.parent.parent
ENGINES = REPOSITORY / ".engines"
PRISM = ENGINES / "prism"
FLINK_JOB_SERVER = ENGINES / "flink-job-server" / "flink-job-server.jar"
FLINK_CLUSTER = ENGINES / "flink-cluster" / "lib"
SPARK_JOB_SERVER = ENGINES / "spark-job-server" / "spark-job-server.jar"

START_WORKER = Path(__file__).resolve().parent / "start_worker.py"
# Only a server that hangs takes as long, also on a busy machine.
START_SECS = 1_800
EVENTS = "events"

# Java 17 closes these packages, which Spark, and Flink's serializers, look into.
OPENED = (
    "lang", "lang.invoke", "lang.reflect", "net", "io", "nio", "util", "util.concurrent",
    "util.concurrent.atomic",
)  # fmt: skip
JAVA = (
    "java",
    *(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in OPENED),
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
)

FLINK_ADDRESSES = """
jobmanager.rpc.address: 127.0.0.1
jobmanager.bind-host: 127.0.0.1
rest.address: 127.0.0.1
rest.bind-address: 127.0.0.1
taskmanager.host: 127.0.0.1
taskmanager.bind-host: 127.0.0.1
"""
# Memory is that of Flink's default, taskmanager.memory.process.size: 1728m, part by part: the
# scripts of Flink's distribution, which work it out, are not here.
FLINK_CONFIGURATION = f"""{FLINK_ADDRESSES}
jobmanager.rpc.port: {{rpc}}
rest.port: {{rest}}
taskmanager.numberOfTaskSlots: {{slots}}
taskmanager.cpu.cores: 1
taskmanager.memory.framework.heap.size: 128m
taskmanager.memory.framework.off-heap.size: 128m
taskmanager.memory.task.heap.size: 384m
taskmanager.memory.task.off-heap.size: 0m
taskmanager.memory.network.min: 128m
taskmanager.memory.network.max: 128m
taskmanager.memory.managed.size: 512m
taskmanager.memory.jvm-metaspace.size: 256m
taskmanager.memory.jvm-overhead.min: 192m
taskmanager.memory.jvm-overhead.max: 192m
taskmanager.network.sort-shuffle.min-buffers: 64
cluster.evenly-spread-out-slots: true
heartbeat.interval: 1000
heartbeat.timeout: 15000
restart-strategy.type: fixed-delay
restart-strategy.fixed-delay.attempts: 20
restart-strategy.fixed-delay.delay: 1 s
io.tmp.dirs: {{folder}}
"""


class Missing(Exception):  # noqa: N818 - a reason to skip, no error
    """A requirement of an engine is not installed.

    The text names it, and says what to do.
    """


class Engine(NamedTuple):
    """A running engine.

    Attributes:
      name: as the tests' markers name it.
      options: send a conversion to it, and name only the engine: no path, no recipe.
      folder: where its logs are.
      cluster: what else a test can do with it, if it is a cluster.
    """

    name: str
    options: tuple[str, ...]
    folder: Path
    cluster: FlinkCluster | None = None

    def workers(self) -> list[int]:
        """Returns the ids of the worker processes that it has started."""
        mark = f"--of={self.folder}".encode()
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if mark in path.read_bytes().split(b"\0"):
                    found.append(int(path.parent.name))
        return found

    def events(self) -> Iterator[Any]:
        """Yields what Spark has logged of its newest job.

        Its history server shows it. The last line may be unfinished; that of a job that has ended is its end.
        """
        newest = max((self.folder / EVENTS).glob("*/events_*"))
        return map(json.loads, _lines(newest)[:-1])

    def log_tails(self, lines: int = 60) -> str:
        """Returns the ends of its logs."""
        logs = sorted(self.folder.glob("*.log"))
        return "\n".join(f"== {log.name}\n" + "\n".join(_lines(log)[-lines:]) for log in logs)


def _lines(log: Path) -> list[str]:
    return log.read_text(errors="replace").splitlines()


def _need(path: Path, program: str, target: str) -> None:
    if not shutil.which(program):
        raise Missing(f"{program} is not installed.")
    if not path.exists():
        raise Missing(f"{path.relative_to(REPOSITORY)} is not there: 'make {target}' makes it.")


def free_ports(count: int) -> list[int]:
    """Returns free ports of the loopback interface."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for opened in sockets:
            opened.bind(("127.0.0.1", 0))
        return [opened.getsockname()[1] for opened in sockets]


class _Server:
    """A server process, whose children share its own process group."""

    def __init__(
        self, command: Sequence[str | Path], log: Path, path_first: Path | None = None
    ) -> None:
        environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
        if path_first:
            environment["PATH"] = f"{path_first}{os.pathsep}{environment['PATH']}"
        self.log = log
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                list(map(str, command)),
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                # Python looks for modules where it is started, and ours must not be found by
                # accident
                cwd=log.parent,
                env=environment,
            )

    def kill(self) -> None:
        """Ends it as a machine ends that loses its power."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def pause(self) -> None:
        """Stops it, as a machine that hangs."""
        os.killpg(self.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Continues it after ``pause``."""
        os.killpg(self.process.pid, signal.SIGCONT)

    def stop(self) -> None:
        """Ends it, first in peace."""
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=5)
        self.kill()

    def wait_for(self, is_ready: Callable[[], bool], what: str) -> None:
        """Waits until it is ready.

        Raises:
          RuntimeError: it has ended, or is not ready in time; its log is in the message.
        """
        end = time.monotonic() + START_SECS
        while not is_ready():
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{what} did not start.\n" + "\n".join(_lines(self.log)[-40:]))
            time.sleep(0.2)


@contextlib.contextmanager
def _serving(
    command: Sequence[str | Path],
    log: Path,
    port: int,
    path_first: Path | None = None,
    host: str = "127.0.0.1",
) -> Iterator[None]:
    """Runs a server until the block ends.

    The block begins when the port answers.
    """
    server = _Server(command, log, path_first)
    try:
        server.wait_for(lambda: _answers(port, host), log.stem)
        yield
    finally:
        server.stop()


def _answers(port: int, host: str = "127.0.0.1") -> bool:
    with socket.socket() as opened:
        return opened.connect_ex((host, port)) == 0


def _job_server(
    jar: Path, master: Sequence[str], folder: Path, ports: Sequence[int], *properties: str
) -> list[str | Path]:
    job, artifact, expansion = map(str, ports)
    ports_of = ["--job-port", job, "--artifact-port", artifact, "--expansion-port", expansion]
    if jar == SPARK_JOB_SERVER:
        (folder / EVENTS).mkdir()
        # The file of a rolling log keeps its name when the job ends.
        log = ("enabled=true", "rolling.enabled=true", f"dir={folder / EVENTS}")
        properties = (*properties, *(f"spark.eventLog.{given}" for given in log))
    java = [*JAVA, "-Xmx1g", *(f"-D{given}" for given in properties)]
    return [*java, "-jar", jar, *master, *ports_of, "--artifacts-dir", folder / "artifacts"]


@contextlib.contextmanager
def prism(folder: Path) -> Iterator[Engine]:
    """Prism, with workers that are threads of ours."""
    if not PRISM.exists():
        _need(PRISM, "go", "prism")
    port, web = free_ports(2)
    command = [PRISM, f"--job_port={port}", f"--web_port={web}", "--log_kind=text"]
    with _serving(command, folder / "prism.log", port):
        options = (
            "--runner=PrismRunner",
            f"--job_endpoint=localhost:{port}",
            "--environment_type=LOOPBACK",
        )
        yield Engine("prism", options, folder)


@contextlib.contextmanager
def _in_job_server(
    name: str, jar: Path, master: Sequence[str], folder: Path, *more: str
) -> Iterator[Engine]:
    """An engine inside Beam's job server, with workers in our threads."""
    _need(jar, "java", f"{name}-jars")
    ports = free_ports(3)
    command = _job_server(jar, master, folder, ports)
    with _serving(command, folder / f"{name}-job-server.log", ports[0]):
        runner, endpoint = f"--runner={name.title()}Runner", f"--job_endpoint=localhost:{ports[0]}"
        yield Engine(name, (runner, endpoint, "--environment_type=LOOPBACK", *more), folder)


def flink(folder: Path) -> contextlib.AbstractContextManager[Engine]:
    """The Flink inside Beam's job server."""
    (folder / "config.yaml").write_text(FLINK_ADDRESSES)
    master = ("--flink-master", "[local]", "--flink-conf-dir", str(folder))
    return _in_job_server("flink", FLINK_JOB_SERVER, master, folder, "--parallelism=2")


def spark(folder: Path) -> contextlib.AbstractContextManager[Engine]:
    """The Spark inside Beam's job server."""
    return _in_job_server("spark", SPARK_JOB_SERVER, ("--spark-master-url", "local[2]"), folder)


@contextlib.contextmanager
def fnapi(folder: Path) -> Iterator[Engine]:
    """Beam's local runner, with two worker processes."""
    options = (
        "--runner=FnApiRunner",
        "--direct_num_workers=2",
        "--direct_running_mode=multi_processing",
    )
    yield Engine("fnapi", options, folder)


@contextlib.contextmanager
def worker_pool(
    folder: Path, environment: Path = Path(sys.executable).parent
) -> Iterator[tuple[str, ...]]:
    """A pool that starts worker processes; yields the options that name it.

    Args:
      folder: for its log.
      environment: folder with the ``python`` that runs the workers: the pool takes the one that it
        finds first.
    """
    (port,) = free_ports(1)
    command = [
        sys.executable,
        "-m",
        "apache_beam.runners.worker.worker_pool_main",
        f"--service_port={port}",
    ]
    with _serving(command, folder / "worker-pool.log", port, environment):
        yield "--environment_type=EXTERNAL", f"--environment_config=localhost:{port}"


class FlinkCluster:
    """A JobManager, TaskManagers in their own processes, and the address for queries.

    Each of these processes has at most 512 MB of Java's heap.
    """

    def __init__(self, folder: Path, slots: int) -> None:
        rpc, self.rest = free_ports(2)
        self.folder = folder
        self.configuration = folder / "conf"
        self.configuration.mkdir()
        text = FLINK_CONFIGURATION.format(rpc=rpc, rest=self.rest, folder=folder, slots=slots)
        (self.configuration / "config.yaml").write_text(text)
        self.job_manager = self._start(
            "entrypoint.StandaloneSessionClusterEntrypoint", "job-manager", "512m"
        )
        self.task_managers: dict[str, _Server] = {}

    def _start(self, main: str, name: str, memory: str, *options: str) -> _Server:
        command = [
            *JAVA,
            f"-Xmx{memory}",
            "-cp",
            f"{FLINK_CLUSTER}/*",
            f"org.apache.flink.runtime.{main}",
        ]
        return _Server(
            [*command, "--configDir", self.configuration, *options], self.folder / f"{name}.log"
        )

    def add_task_manager(self) -> None:
        """Starts one more TaskManager, and waits until the JobManager knows it."""
        name = f"task-manager-{len(self.task_managers) + 1}"
        server = self._start(
            "taskexecutor.TaskManagerRunner", name, "512m", f"-Dtaskmanager.resource-id={name}"
        )
        self.task_managers[name] = server
        server.wait_for(lambda: name in self._known(), name)

    def _known(self) -> list[str]:
        try:
            return [known["id"] for known in self.ask("/taskmanagers")["taskmanagers"]]
        except OSError:
            return []

    def ask(self, path: str) -> Any:
        """Returns an answer of the JobManager's REST interface."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.rest}{path}", timeout=10) as answer:
            return json.load(answer)

    def wait(self) -> None:
        """Waits until the JobManager answers."""
        self.job_manager.wait_for(lambda: _answers(self.rest), "job-manager")

    def stop(self) -> None:
        """Ends all of its processes."""
        for server in (*self.task_managers.values(), self.job_manager):
            server.stop()


@contextlib.contextmanager
def flink_cluster(folder: Path, task_managers: int = 2, slots: int = 2) -> Iterator[Engine]:
    """A Flink cluster of one JobManager and some TaskManagers.

    It comes with a job server, and its TaskManagers start the worker processes.
    """
    _need(FLINK_JOB_SERVER, "java", "flink-jars")
    _need(FLINK_CLUSTER, "java", "flink-jars")
    job, artifact, expansion = free_ports(3)
    cluster = FlinkCluster(folder, slots)
    try:
        cluster.wait()
        for _ in range(task_managers):
            cluster.add_task_manager()
        master = ["--flink-master", f"127.0.0.1:{cluster.rest}"]
        server = _job_server(FLINK_JOB_SERVER, master, folder, (job, artifact, expansion))
        with _serving(server, folder / "flink-job-server.log", job):
            options = (
                "--runner=FlinkRunner",
                f"--job_endpoint=localhost:{job}",
                *_processes(folder),
                f"--parallelism={task_managers}",
            )
            yield Engine("flink_cluster", options, folder, cluster)
    finally:
        cluster.stop()


def _processes(folder: Path) -> tuple[str, ...]:
    """Returns the options for worker processes on the engine's machine.

    Several TaskManagers cannot share a pool: they number their workers alike, and the first one
    that ends stops the other's workers.
    """
    starter = folder / "start_worker.sh"
    worker = f'exec {shlex.quote(sys.executable)} {START_WORKER} --of={folder} "$@" >>{folder}/workers.log 2>&1'
    starter.write_text(f"#!/bin/sh\n{worker}\n")
    starter.chmod(0o755)
    return (
        "--environment_type=PROCESS",
        f"--environment_config={json.dumps({'command': str(starter)})}",
    )


@contextlib.contextmanager
def spark_cluster(folder: Path, *properties: str) -> Iterator[Engine]:
    """A standalone Spark cluster with two workers of one core.

    It comes with a job server, and its executors start the worker processes.

    Args:
      folder: for logs and files.
      *properties: of Spark, such as ``spark.speculation=true``.
    """
    _need(SPARK_JOB_SERVER, "java", "spark-jars")
    home = folder / "spark"
    home.mkdir()
    (home / "jars").symlink_to(SPARK_JOB_SERVER.parent / "lib")
    master, web, job, artifact, expansion = free_ports(5)
    deploy = [*JAVA, "-cp", f"{home}/jars/*", "-Xmx512m"]
    environment = {
        "SPARK_HOME": str(home),
        "SPARK_SCALA_VERSION": "2.12",
        "SPARK_LOCAL_DIRS": str(folder),
    }
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ, environment))
        where = _places("127.0.0.1", master, web)
        start = [*deploy, "org.apache.spark.deploy.master.Master", *where]
        stack.enter_context(_serving(start, folder / "spark-master.log", master))
        for number in (1, 2):
            port, page = free_ports(2)
            host = f"127.0.0.{number}"  # Spark runs a task twice on two hosts only
            start = [
                *deploy,
                "org.apache.spark.deploy.worker.Worker",
                *_places(host, port, page),
                *("--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"work{number}")),
                f"spark://127.0.0.1:{master}",
            ]
            log = folder / f"spark-worker-{number}.log"
            stack.enter_context(_serving(start, log, port, host=host))
        ports = (job, artifact, expansion)
        where = ["--spark-master-url", f"spark://127.0.0.1:{master}"]
        server = _job_server(SPARK_JOB_SERVER, where, folder, ports, *properties)
        stack.enter_context(_serving(server, folder / "spark-job-server.log", job))
        endpoint = f"--job_endpoint=localhost:{job}"
        yield Engine(
            "spark_cluster", ("--runner=SparkRunner", endpoint, *_processes(folder)), folder
        )


def _places(host: str, port: int, page: int) -> list[str]:
    """Returns where a part of Spark listens, and where its page is."""
    return ["--host", host, "--port", str(port), "--webui-port", str(page)]


STARTERS = {
    "fnapi": fnapi, "prism": prism, "flink": flink, "flink_cluster": flink_cluster, "spark": spark,
    "spark_cluster": spark_cluster,
}  # fmt: skip


def main() -> None:
    """Starts a Flink cluster, prints the options, and ends it when interrupted."""
    folder = Path(tempfile.mkdtemp(prefix="flink-cluster-"))
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with flink_cluster(folder) as engine, contextlib.suppress(KeyboardInterrupt):
            assert engine.cluster
            where = f"http://127.0.0.1:{engine.cluster.rest}, logs in {folder}"
            sys.stdout.write(f"Flink is up: {where}. Ctrl-C ends it. Convert with\n")
            sys.stdout.write(
                f"  beam-pipelines convert RECIPE --output DIR {shlex.join(engine.options)}\n"
            )
            sys.stdout.flush()
            signal.pause()
    except Missing as missing:
        sys.exit(f"error: {missing}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
