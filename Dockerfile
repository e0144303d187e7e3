# Image of Dataflow's workers, and at the same time launcher of the Flex Template that dataflow/metadata.json describes.
#
#   docker build --tag IMAGE --build-arg IMAGE=IMAGE . && docker push IMAGE
#
# `run_dataflow.sh --image IMAGE --build` does that. Beam, Python and every package are those of constraints.txt, with which the tests run.
# TensorFlow comes along, as tensorflow-transform asks for it; workers load it only to write a serving graph, once a job, or for a
# recipe's own preprocessing_fn.
ARG BEAM_IMAGE=apache/beam_python3.11_sdk:2.77.0
ARG LAUNCHER_IMAGE=gcr.io/dataflow-templates-base/python311-template-launcher-base:20230622_RC00

FROM ${LAUNCHER_IMAGE} AS launcher

FROM ${BEAM_IMAGE} AS build
# The compiler is for the native functions; without one the wheel would be built without them.
RUN apt-get update && apt-get install --yes --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY pyproject.toml MANIFEST.in README.md LICENSE constraints.txt ./
COPY beam_pipelines beam_pipelines
COPY reader reader
COPY plugins plugins
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels ./reader . ./plugins

FROM ${BEAM_IMAGE}
COPY --from=build /wheels /wheels
COPY constraints.txt /wheels/constraints.txt
RUN wheel="$(ls /wheels/beam_pipelines-*.whl)" && pip install --no-cache-dir --constraint /wheels/constraints.txt /wheels/beam_pipelines_reader-*.whl "${wheel}[s3]" /wheels/beam_pipelines_plugins-*.whl && rm -rf /wheels

# The launcher of Flex Templates runs this file with the template's parameters as flags.
COPY --from=launcher /opt/google/dataflow/python_template_launcher /opt/google/dataflow/python_template_launcher
COPY dataflow/launch.py /template/launch.py
ENV FLEX_TEMPLATE_PYTHON_PY_FILE=/template/launch.py

# The name that this image is pushed under: a job launched from the template runs its workers from it.
ARG IMAGE
ENV BEAM_PIPELINES_IMAGE=${IMAGE}

# As in Beam's image: what Dataflow starts on its workers.
ENTRYPOINT ["/opt/apache/beam/boot"]
