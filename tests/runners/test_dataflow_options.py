"""The parts for Dataflow: options, run_dataflow.sh, the image and the template."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from launch import FLAGS, command_of

from beam_pipelines.cli.main import cli
from beam_pipelines.cli.options import split_arguments
from beam_pipelines.core.errors import RecipeError
from beam_pipelines.runners.options import check_options

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECIPE = "examples/flights/recipe.yaml"
NEEDED = [
    RECIPE, "--output", "gs://bucket/out", "--project", "my-project", "--temp", "gs://bucket/t/",
]  # fmt: skip
IMAGE = ["--image", "europe-docker.pkg.dev/my-project/images/beam-pipelines:1"]
JOB = [
    "--runner=DataflowRunner",
    "--project=my-project",
    "--region=us-central1",
    "--temp_location=gs://bucket/t",
    "--sdk_container_image=image",
]


def run_dataflow(
    *arguments: str, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs the script, which prints its commands and runs none of them."""
    variables = {
        name: value for name, value in os.environ.items() if name != "CLOUDSDK_COMPUTE_REGION"
    }
    command = ["bash", "run_dataflow.sh", *arguments]
    return subprocess.run(
        command,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env=variables | (environment or {}),
    )


def test_script_prints_the_whole_command():
    """The script prints the whole command from four arguments and an image.

    It passes options for Beam on.
    """
    run = run_dataflow(*NEEDED, *IMAGE, "--print", "--", "--subnetwork=net")
    words = run.stdout.split()
    assert run.returncode == 0, run.stderr
    assert words[1:6] == ["-m", "beam_pipelines", "convert", RECIPE, "--output=gs://bucket/out"]
    assert {
        "--runner=DataflowRunner",
        "--region=us-central1",
        "--job_name=beam-pipelines-recipe",
    } <= set(words)
    assert {"--staging_location=gs://bucket/t/staging", "--labels=tool=beam-pipelines"} <= set(
        words
    )
    assert {"--experiments=use_runner_v2", "--experiments=shuffle_mode=service"} <= set(words)
    assert {
        "--machine_type=n2-standard-4",
        "--max_num_workers=20",
        "--sdk_location=container",
    } <= set(words)
    assert f"--sdk_container_image={IMAGE[1]}" in words
    assert words[-1] == "--subnetwork=net"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--flexrs"], "--flexrs_goal=COST_OPTIMIZED"),
        (["--overwrite"], "--overwrite"),
        (["--no_wait"], "--no_wait_until_finish"),
        (["--labels", "team=ads,stage=test"], "--labels=team=ads --labels=stage=test"),
        (["--region", "europe-west4"], "--region=europe-west4"),
        (["--job_name", "nightly"], "--job_name=nightly"),
    ],
)
def test_script_knows_choices(arguments, expected):
    """Each choice becomes its option of Dataflow or of ours.

    Without the choice the option is absent.
    """
    assert expected in run_dataflow(*NEEDED, *IMAGE, *arguments, "--print").stdout
    assert expected not in run_dataflow(*NEEDED, *IMAGE, "--print").stdout


def test_script_takes_the_region_of_the_environment():
    """The region that gcloud's variable names goes before the default."""
    run = run_dataflow(
        *NEEDED, *IMAGE, "--print", environment={"CLOUDSDK_COMPUTE_REGION": "asia-east1"}
    )
    assert "--region=asia-east1" in run.stdout


def test_script_builds_an_image_or_wheels():
    """With --build the script builds and pushes the image before the job.

    Without an image it builds and ships three wheels, the reader's first: workers install them in
    this order.
    """
    lines = run_dataflow(*NEEDED, *IMAGE, "--build", "--print").stdout.splitlines()
    assert [line.split()[:2] for line in lines[:2]] == [["docker", "build"], ["docker", "push"]]
    assert f"--build-arg IMAGE={IMAGE[1]}" in lines[0]
    lines = run_dataflow(*NEEDED, "--print").stdout.splitlines()
    assert "-m pip wheel" in lines[0]
    assert lines[0].split()[-3:] == [str(ROOT / "reader"), str(ROOT), str(ROOT / "plugins")]
    shipped = re.findall(r"--extra_package=\S*/(beam_pipelines\w*)-", lines[1])
    assert shipped == ["beam_pipelines_reader", "beam_pipelines", "beam_pipelines_plugins"]
    assert "sdk_container_image" not in lines[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (NEEDED[1:], "found no recipe"),
        (NEEDED[:-2], "found no --temp"),
        (["absent.yaml", *NEEDED[1:]], "absent.yaml: there is no such file"),
        ([*NEEDED, "second.yaml"], "found a second recipe"),
        ([*NEEDED, "--output", "out"], "expected a gs:// URL"),
        ([*NEEDED, "--output", "gs://bucket/"], "expected a folder in the bucket"),
        ([*NEEDED, "--temp", "s3://bucket/t"], "expected a gs:// URL"),
        ([*NEEDED, "--staging", "staging"], "expected a gs:// URL"),
        ([*NEEDED, "--project", "My Project"], "expected a project's id"),
        ([*NEEDED, "--region", "us-central1-a"], "no zone"),
        ([*NEEDED, "--region"], "expected a value"),
        ([*NEEDED, "--region", ""], "expected a value"),
        ([*NEEDED, "--region", "--flexrs"], "expected a value"),
        ([*NEEDED, "--machine", "big"], "expected a machine type"),
        ([*NEEDED, "--max_workers", "0"], "expected a number above 0"),
        ([*NEEDED, "--labels", "A=b"], "expected name=value"),
        ([*NEEDED, "--job_name", "9"], "beginning with a letter"),
        ([*NEEDED, "--regoin", "x"], "unknown option '--regoin'"),
        ([*NEEDED, "--wheel", "absent.whl"], "expected a .whl file"),
        ([*NEEDED, "--build"], "found --build without --image"),
        ([*NEEDED, *IMAGE, "--wheel", "README.md"], "expected one of them"),
        ([*NEEDED, "--data", "gs://b/x=examples"], "found --data without --dry-run"),
    ],
)
def test_script_refuses_what_would_fail_an_hour_later(arguments, message):
    """The script refuses a wrong or missing argument with exit status 2.

    It says what it expected.
    """
    run = run_dataflow(*arguments, "--print")
    assert run.returncode == 2
    assert message in run.stderr
    assert run.stdout == ""


def test_script_takes_wheels(tmp_path):
    """Given wheels go to the workers, in one order only."""
    reader, full, plugins = (
        tmp_path / f"{name}-1.0-py3-none-any.whl"
        for name in ("beam_pipelines_reader", "beam_pipelines", "beam_pipelines_plugins")
    )
    for wheel in (reader, full, plugins):
        wheel.touch()
    for wheels in ([reader, full], [reader, full, plugins]):
        given = [part for wheel in wheels for part in ("--wheel", str(wheel))]
        run = run_dataflow(*NEEDED, *given, "--print")
        assert " ".join(f"--extra_package={wheel}" for wheel in wheels) in run.stdout
        assert "pip wheel" not in run.stdout
    for wheels in ([full], [reader], [full, reader], [reader, plugins, full], [reader, plugins]):
        given = [part for wheel in wheels for part in ("--wheel", str(wheel))]
        run = run_dataflow(*NEEDED, *given, "--print")
        assert run.returncode == 2
        assert "expected those of beam-pipelines-reader, beam-pipelines and" in run.stderr


def test_script_has_no_faults_that_shellcheck_knows():
    """Shellcheck finds nothing."""
    shellcheck = pathlib.Path(sys.executable).with_name("shellcheck")
    run = subprocess.run([shellcheck, "run_dataflow.sh"], cwd=ROOT, capture_output=True, text=True)
    assert run.stdout == ""
    assert run.returncode == 0


@pytest.mark.parametrize(
    ("without", "more", "message"),
    [
        ("--project", [], "--project: found none"),
        ("--region", [], "--region: found none"),
        ("--temp_location", [], "--temp_location: found none"),
        ("--temp_location", ["--temp_location=/tmp"], "--temp_location: found /tmp"),
        ("nothing", ["--staging_location=here"], "--staging_location: found here"),
        ("--sdk_container_image", [], "found nothing that brings beam-pipelines to the workers"),
        ("--sdk_container_image", ["--sdk_container_image=a/beam_python3.1_sdk:2"], "expected Python 3."),
    ],
)  # fmt: skip
def test_options_of_dataflow_are_checked(monkeypatch, without, more, message):
    """Options that Dataflow or its workers cannot use are refused."""
    monkeypatch.delenv("CLOUDSDK_COMPUTE_REGION", raising=False)
    flags = [flag for flag in JOB if not flag.startswith(without)] + more
    with pytest.raises(RecipeError, match=re.escape(message)):
        check_options(PipelineOptions(flags), {"--output": "gs://bucket/out"})


def test_paths_of_this_machine_are_refused_all_at_once():
    """Each path is named that workers cannot see."""
    paths = {"--output": "out", "sources.a.path": "gs://bucket/a.csv", "sources.b.path": "b.csv"}
    with pytest.raises(RecipeError) as refused:
        check_options(PipelineOptions(JOB), paths)
    assert [line.split(":")[0] for line in str(refused.value).splitlines()] == [
        "--output",
        "sources.b.path",
    ]
    check_options(PipelineOptions(["--runner=FlinkRunner"]), paths)


def test_no_wait_needs_a_job_that_goes_on(tmp_path, capsys):
    """``--no_wait`` is refused for a job on this machine.

    Such a job would end with the command.
    """
    from beam_pipelines.cli import main as command_line

    (tmp_path / "a.csv").write_text("n\n1\n")
    line = f"convert {tmp_path}/a.csv --output {tmp_path}/out --no_wait_until_finish"
    assert command_line.run(line.split()) == 2
    assert "without a --runner whose jobs go on" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def dockerfile() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile, in order: name, arguments."""
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in lines]


def test_image_has_the_versions_of_the_project():
    """The image has the project's versions of Python and Beam.

    These are the ones in constraints.txt and in the tests.
    """
    beam = re.search(r"^apache-beam==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    arguments = dict(
        value.split("=", 1) for name, value in dockerfile() if name == "ARG" and "=" in value
    )
    assert arguments["BEAM_IMAGE"] == f"apache/beam_python3.11_sdk:{beam[1]}"
    assert "python311-template-launcher-base:" in arguments["LAUNCHER_IMAGE"]
    assert not arguments["LAUNCHER_IMAGE"].endswith(":latest")
    assert re.search(r"python3\.11 ", (ROOT / "Makefile").read_text())


def test_image_has_the_wheels_and_both_entries():
    """The image is Beam's with our wheels by the project's constraints.

    It keeps Beam's entry and names the template's.
    """
    instructions = dockerfile()
    starts = [index for index, (name, _) in enumerate(instructions) if name == "FROM"]
    last = instructions[starts[-1] :]
    assert last[0] == ("FROM", "${BEAM_IMAGE}")
    install = next(value for name, value in last if name == "RUN" and "pip install" in value)
    assert "--constraint /wheels/constraints.txt" in install
    assert '/wheels/beam_pipelines_reader-*.whl "${wheel}[s3]"' in install
    assert ("COPY", "--from=build /wheels /wheels") in last
    assert last[-1] == ("ENTRYPOINT", '["/opt/apache/beam/boot"]')
    variables = dict(value.split("=", 1) for name, value in last if name == "ENV")
    copied = [value.split()[-2:] for name, value in last if name == "COPY"]
    assert ["dataflow/launch.py", variables["FLEX_TEMPLATE_PYTHON_PY_FILE"]] in copied
    binary = "/opt/google/dataflow/python_template_launcher"
    assert ("COPY", f"--from=launcher {binary} {binary}") in last


def test_image_is_built_of_files_that_are_there():
    """The Dockerfile copies files of the repository that .dockerignore lets pass."""
    allowed = [
        line[1:]
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    ]
    sources = [
        source
        for name, value in dockerfile()
        if name == "COPY" and "--from" not in value
        for source in value.split()[:-1]
    ]
    assert {"beam_pipelines", "reader", "constraints.txt", "dataflow/launch.py"} <= set(sources)
    assert [
        source for source in sources if not (ROOT / source).exists() or source not in allowed
    ] == []


def parameters() -> dict[str, dict]:
    """The parameters of the Flex Template, by name."""
    return {
        item["name"]: item
        for item in json.loads((ROOT / "dataflow/metadata.json").read_text())["parameters"]
    }


def test_template_asks_for_what_the_command_takes():
    """Each parameter is the recipe, a `convert` option or one of Beam's."""
    ours = {
        name.removeprefix("--") for option in cli.commands["convert"].params for name in option.opts
    }
    for name, parameter in parameters().items():
        options = ["--runner=DataflowRunner", f"--{name}=x"]
        assert name in {"recipe", *ours} or split_arguments(options, {}) == ([], options)
        assert {"label", "helpText", "regexes", "paramType", "isOptional"} <= set(parameter)
    assert [name for name, parameter in parameters().items() if not parameter["isOptional"]] == [
        "recipe",
        "output",
    ]
    assert {
        option.name for option in cli.commands["convert"].params if option.name in FLAGS
    } == set(FLAGS)


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("recipe", ["gs://bucket/a/recipe.yaml", "gs://my.bucket/r.yml"], ["recipe.yaml", "gs://bucket/r.txt", "s3://bucket/r.yaml"]),
        ("output", ["gs://bucket/out", "gs://bucket/a/b/"], ["gs://bucket/", "out", "gs://bucket"]),
        ("overwrite", ["true", "false"], ["yes", ""]),
        ("date", ["2024-06-15"], ["15.6.2024", "2024-6-15"]),
        ("baseline", ["gs://bucket/out"], ["out"]),
        ("environment", ["SERVING"], [""]),
        ("sdk_container_image", ["europe-docker.pkg.dev/p/i/b:1"], ["an image"]),
    ],
)  # fmt: skip
def test_template_checks_its_parameters(name, good, bad):
    """The patterns of a parameter take what is right, and nothing else."""
    patterns = parameters()[name]["regexes"]
    assert [
        value for value in good if not all(re.search(pattern, value) for pattern in patterns)
    ] == []
    assert [value for value in bad if all(re.search(pattern, value) for pattern in patterns)] == []


def test_launcher_turns_parameters_into_our_command_line():
    """The launcher turns parameters into our command line.

    It keeps true flags and drops false ones, and workers run the launcher's own image.
    """
    given = [
        "--recipe=gs://b/r.yaml",
        "--output=gs://b/out",
        "--overwrite=true",
        "--template_location=gs://b/t",
    ]
    ours = [
        "convert",
        "gs://b/r.yaml",
        "--output=gs://b/out",
        "--overwrite",
        "--template_location=gs://b/t",
    ]
    image = {"BEAM_PIPELINES_IMAGE": "i"}
    assert command_of(given, {}) == ours
    assert command_of(given, image) == [
        *ours,
        "--sdk_container_image=i",
        "--sdk_location=container",
    ]
    assert command_of([*given, "--sdk_container_image=j"], image) == [
        *ours,
        "--sdk_container_image=j",
    ]
    assert "--overwrite" not in command_of([*given[:2], "--overwrite=false"], {})
    with pytest.raises(ValueError, match="found no --recipe"):
        command_of(given[1:], {})
    with pytest.raises(ValueError, match="expected true or false"):
        command_of([*given[:1], "--overwrite=1"], {})
