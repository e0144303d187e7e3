#!/usr/bin/env bash
# Runs a recipe on Google Cloud Dataflow: checks the arguments, fills in sane defaults, builds what the workers need, prints the
# command and runs it. docs/runners.md says what was tested, and how.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: run_dataflow.sh RECIPE --output gs://BUCKET/PATH --project PROJECT --temp gs://BUCKET/PATH [options] [-- options for beam-pipelines and Beam]

  RECIPE             a recipe, here or at a gs:// URL; its sources are gs:// URLs
  --output URL       where the dataset goes
  --project NAME     the Google Cloud project that runs the job, and pays for it
  --temp URL         for temporary files

What the workers run (without either: Beam's own image, and three wheels are built here and installed by each worker when it starts):
  --image IMAGE      a container image with beam-pipelines in it
  --build            build IMAGE from the Dockerfile and push it first
  --wheel FILE       install this wheel instead of those built here; give it two or three times: beam-pipelines-reader,
                     beam-pipelines, and beam-pipelines-plugins for its formats

Options, with their defaults:
  --region REGION    us-central1, or what CLOUDSDK_COMPUTE_REGION says
  --staging URL      the temporary folder's /staging
  --job_name NAME    beam-pipelines-<recipe's file name>
  --machine TYPE     n2-standard-4
  --max_workers N    20; workers come and go with the load
  --labels A=B,…     tool=beam-pipelines
  --flexrs           start within six hours, for less money
  --overwrite        replace a dataset that is there
  --no_wait          return when the job is submitted
  --dry-run          submit to a server on this machine that speaks Dataflow's interface, with an emulated storage; nothing leaves the machine
  --data URL=FOLDER  in a dry run: files that are to be in the emulated storage, such as gs://bucket/raw=sample; may be repeated
  --print            print the commands, run none
TEXT
}

fail() {
  echo "run_dataflow.sh: $1" >&2
  echo "See: run_dataflow.sh --help" >&2
  exit 2
}

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
recipe="" output="" project="" temp="" image="" staging="" job_name=""
region="${CLOUDSDK_COMPUTE_REGION:-us-central1}" machine="n2-standard-4" max_workers="20" labels="tool=beam-pipelines"
build=false flexrs=false overwrite=false no_wait=false dry_run=false print_only=false
data=()
wheels=()

while [[ $# -gt 0 ]]; do
  case "$1" in
    --help | -h) usage; exit 0 ;;
    --build) build=true; shift ;;
    --flexrs) flexrs=true; shift ;;
    --overwrite) overwrite=true; shift ;;
    --no_wait) no_wait=true; shift ;;
    --dry-run) dry_run=true; shift ;;
    --print) print_only=true; shift ;;
    --) shift; break ;;
    --output | --project | --temp | --image | --wheel | --region | --staging | --job_name | --machine | --max_workers | --labels | --data)
      [[ $# -ge 2 ]] || fail "$1: expected a value behind it."
      [[ "$2" != --* && -n "$2" ]] || fail "$1: found '$2', expected a value."
      case "$1" in
        --data) data+=("$2") ;;
        --wheel) wheels+=("$2") ;;
        *) printf -v "${1#--}" '%s' "$2" ;;
      esac
      shift 2
      ;;
    -*) fail "found the unknown option '$1'. Options for Beam go behind a '--'." ;;
    *)
      [[ -z "$recipe" ]] || fail "found a second recipe, '$1', expected one."
      recipe="$1"
      shift
      ;;
  esac
done
extra=("$@")

[[ -n "$recipe" ]] || fail "found no recipe, expected one."
[[ "$recipe" == gs://* || -f "$recipe" ]] || fail "$recipe: there is no such file."
for name in output project temp; do
  [[ -n "${!name}" ]] || fail "found no --$name, expected one."
done
staging="${staging:-${temp%/}/staging}"
for name in output temp staging; do
  [[ "${!name}" =~ ^gs://[a-z0-9][-_.a-z0-9]+[a-z0-9](/.*)?$ ]] ||
    fail "--$name: found '${!name}', expected a gs:// URL: workers cannot see a path of this machine."
done
[[ "$output" =~ ^gs://[^/]+/.*[^/] ]] || fail "--output: found '$output', expected a folder in the bucket."
[[ "$project" =~ ^([a-z0-9.-]+:)?[a-z][-a-z0-9]{4,28}[a-z0-9]$ ]] ||
  fail "--project: found '$project', expected a project's id: 6 to 30 lower case letters, digits and '-'."
[[ "$region" =~ ^[a-z]+-[a-z]+[0-9]+$ ]] || fail "--region: found '$region', expected a region such as us-central1, no zone."
[[ "$machine" =~ ^[a-z][a-z0-9]*-[-a-z0-9]+$ ]] || fail "--machine: found '$machine', expected a machine type such as n2-standard-4."
[[ "$max_workers" =~ ^[1-9][0-9]*$ ]] || fail "--max_workers: found '$max_workers', expected a number above 0."
if [[ ${#wheels[@]} -gt 0 ]]; then
  [[ -z "$image" ]] || fail "found --wheel and --image, expected one of them: the image has the wheels in it."
  for wheel in "${wheels[@]}"; do
    [[ -f "$wheel" && "$wheel" == *.whl ]] || fail "--wheel: found '$wheel', expected a .whl file that is there."
  done
  # A worker installs one after the other, and finds those that the next needs in no index.
  [[ ${#wheels[@]} -ge 2 && ${#wheels[@]} -le 3 && "${wheels[0]##*/}" == beam_pipelines_reader-* && "${wheels[1]##*/}" == beam_pipelines-* &&
    "${wheels[2]:-beam_pipelines_plugins-}" == *beam_pipelines_plugins-* ]] ||
    fail "--wheel: found ${wheels[*]}, expected those of beam-pipelines-reader, beam-pipelines and, for its formats, beam-pipelines-plugins, in this order."
fi
if $build; then [[ -n "$image" ]] || fail "found --build without --image, expected the name to push it under."; fi
if ! $dry_run; then [[ ${#data[@]} -eq 0 ]] || fail "found --data without --dry-run, expected both or neither."; fi

# Dataflow's own rule for job names: lower case letters, digits and '-', beginning with a letter, ending with a letter or digit.
file="${recipe##*/}"
slug="$(printf '%s' "${file%.*}" | tr '[:upper:]' '[:lower:]' | tr -c 'a-z0-9' '-')"
while [[ "$slug" == *- ]]; do slug="${slug%-}"; done
job_name="${job_name:-beam-pipelines-$slug}"
[[ "$job_name" =~ ^[a-z]([-a-z0-9]*[a-z0-9])?$ ]] ||
  fail "--job_name: found '$job_name', expected lower case letters, digits and '-', beginning with a letter."

IFS=',' read -ra pairs <<<"$labels"
for pair in "${pairs[@]}"; do
  [[ "$pair" =~ ^[a-z][-_a-z0-9]*=[-_a-z0-9]*$ ]] ||
    fail "--labels: found '$pair', expected name=value in lower case letters, digits, '-' and '_'."
done

# The interpreter of the project's environment if there is one, so that what is submitted is what is tested.
python="${PYTHON:-python3}"
if [[ -z "${PYTHON:-}" && -x "$here/.venv/bin/python" ]]; then python="$here/.venv/bin/python"; fi

show() {
  printf '%q ' "$@"
  echo
}

perform() {
  show "$@"
  if ! $print_only; then "$@"; fi
}

if $build && ! $dry_run; then
  perform docker build --tag "$image" --build-arg "IMAGE=$image" "$here"
  perform docker push "$image"
elif $build; then
  echo "# In a dry run the image is not built:"
  show docker build --tag "$image" --build-arg "IMAGE=$image" "$here"
fi
if [[ -z "$image" && ${#wheels[@]} -eq 0 ]]; then
  version="$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' "$here/beam_pipelines/core/version.py")"
  perform "$python" -m pip wheel --quiet --no-deps --wheel-dir "$here/dist" "$here/reader" "$here" "$here/plugins"
  for name in beam_pipelines_reader beam_pipelines beam_pipelines_plugins; do
    built=("$here/dist/$name-$version"-*.whl)
    wheels+=("${built[-1]}")
  done
fi

command=(
  "$python" -m beam_pipelines convert "$recipe" "--output=$output"
  --runner=DataflowRunner
  "--project=$project"
  "--region=$region"
  "--temp_location=$temp"
  "--staging_location=$staging"
  "--job_name=$job_name"
  "--machine_type=$machine"
  --autoscaling_algorithm=THROUGHPUT_BASED
  "--max_num_workers=$max_workers"
  --experiments=use_runner_v2
  --experiments=shuffle_mode=service
)
# Python has to be the same minor version here and on the workers: Beam's own image is chosen by ours.
if [[ -n "$image" ]]; then
  command+=("--sdk_container_image=$image" --sdk_location=container)
else
  for wheel in "${wheels[@]}"; do command+=("--extra_package=$wheel"); done
fi
for pair in "${pairs[@]}"; do command+=("--labels=$pair"); done
if $flexrs; then command+=(--flexrs_goal=COST_OPTIMIZED); fi
if $overwrite; then command+=(--overwrite); fi
if $no_wait || $dry_run; then command+=(--no_wait_until_finish); fi
command+=(${extra[@]+"${extra[@]}"})

if $dry_run; then
  placed=()
  for item in ${data[@]+"${data[@]}"}; do placed+=("--data=$item"); done
  perform "$python" "$here/dataflow/dry_run.py" ${placed[@]+"${placed[@]}"} -- "${command[@]}"
else
  perform "${command[@]}"
fi
