#!/usr/bin/env bash
# Runs a recipe on Google Cloud Dataflow: checks the arguments, fills in sane defaults, prints the command and runs it.
#
# What is tested: the arguments, their defaults and the printed command (tests/test_repository.py). What is not: a job on
# Dataflow itself, which needs a cloud project. Nor does this script build a worker image: name one that has
# beam-pipelines installed with --image.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: run_dataflow.sh RECIPE --output gs://BUCKET/PATH --project PROJECT --temp gs://BUCKET/PATH --image IMAGE [options] [-- options for beam-pipelines and Beam]

  RECIPE             a recipe; its sources are paths that workers can read (gs://…)
  --output URL       where the dataset goes
  --project NAME     the Google Cloud project that runs the job, and pays for it
  --temp URL         for temporary files
  --image IMAGE      container image of the workers, with beam-pipelines installed

Options, with their defaults:
  --region REGION    us-central1
  --staging URL      the temporary folder's /staging
  --job_name NAME    beam-pipelines-<recipe's file name>
  --machine TYPE     n2-standard-4
  --max_workers N    20; workers come and go with the load
  --labels A=B,…     tool=beam-pipelines
  --flexrs           start within six hours, for less money
  --overwrite        replace a dataset that is there
  --dry-run          print the command, do not run it
TEXT
}

fail() {
  echo "run_dataflow.sh: $1" >&2
  echo "See: run_dataflow.sh --help" >&2
  exit 2
}

recipe="" output="" project="" temp="" image="" staging="" job_name=""
region="us-central1" machine="n2-standard-4" max_workers="20" labels="tool=beam-pipelines"
flexrs=false overwrite=false dry_run=false

while [[ $# -gt 0 ]]; do
  case "$1" in
    --help | -h) usage; exit 0 ;;
    --flexrs) flexrs=true; shift ;;
    --overwrite) overwrite=true; shift ;;
    --dry-run) dry_run=true; shift ;;
    --) shift; break ;;
    --output | --project | --temp | --image | --region | --staging | --job_name | --machine | --max_workers | --labels)
      [[ $# -ge 2 ]] || fail "$1: expected a value behind it."
      [[ "$2" != --* && -n "$2" ]] || fail "$1: found '$2', expected a value."
      printf -v "${1#--}" '%s' "$2"
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
for name in output project temp image; do
  [[ -n "${!name}" ]] || fail "found no --$name, expected one."
done
staging="${staging:-${temp%/}/staging}"
for name in output temp staging; do
  [[ "${!name}" == gs://?* ]] || fail "--$name: found '${!name}', expected a gs:// URL: workers cannot see a path of this machine."
done
[[ "$max_workers" =~ ^[1-9][0-9]*$ ]] || fail "--max_workers: found '$max_workers', expected a number above 0."

# Dataflow's own rule for job names: lower case letters, digits and '-', beginning with a letter, ending with a letter or digit.
file="${recipe##*/}"
slug="$(printf '%s' "${file%.*}" | tr '[:upper:]' '[:lower:]' | tr -c 'a-z0-9' '-')"
while [[ "$slug" == *- ]]; do slug="${slug%-}"; done
job_name="${job_name:-beam-pipelines-$slug}"
[[ "$job_name" =~ ^[a-z]([-a-z0-9]*[a-z0-9])?$ ]] ||
  fail "--job_name: found '$job_name', expected lower case letters, digits and '-', beginning with a letter."

command=(
  beam-pipelines convert "$recipe" "--output=$output"
  --runner=DataflowRunner
  "--project=$project"
  "--region=$region"
  "--temp_location=$temp"
  "--staging_location=$staging"
  "--job_name=$job_name"
  "--sdk_container_image=$image"
  --sdk_location=container
  "--machine_type=$machine"
  --autoscaling_algorithm=THROUGHPUT_BASED
  "--max_num_workers=$max_workers"
)
IFS=',' read -ra pairs <<<"$labels"
for pair in "${pairs[@]}"; do
  [[ "$pair" =~ ^[a-z][-_a-z0-9]*=[-_a-z0-9]*$ ]] ||
    fail "--labels: found '$pair', expected name=value in lower case letters, digits, '-' and '_'."
  command+=("--labels=$pair")
done
if $flexrs; then command+=(--flexrs_goal=COST_OPTIMIZED); fi
if $overwrite; then command+=(--overwrite); fi
command+=(${extra[@]+"${extra[@]}"})

printf '%q ' "${command[@]}"
echo
if ! $dry_run; then exec "${command[@]}"; fi
