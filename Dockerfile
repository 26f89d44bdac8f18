# SPDX-License-Identifier: Apache-2.0
# A small image with the command ocibridge, for init containers and jobs:
#
#   docker build --tag ocibridge .
#   buildah build --timestamp 0 --tag ocibridge .
#
# With buildah, the same checkout on the same base gives the same digest, so pin the base too, for instance with
# --build-arg PYTHON=docker.io/library/python@sha256:...
# The dependencies are those of the groups image, image-EXTRA and image-build of pyproject.toml, version by version.
ARG PYTHON=python:3.13-slim

FROM ${PYTHON} AS build
# Where wheels come from, if not from PyPI, such as --index-url ..., for networks that do not reach it.
ARG PIP_OPTIONS=""
# Optional parts of ocibridge to put in as well: dask, for mirror jobs on a Dask cluster.
ARG EXTRAS=""
# 1980-01-01: an archive cannot say an earlier time. The order of sets must not get into compiled files.
ENV SOURCE_DATE_EPOCH=315532800 PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=1
ENV PIP_NO_DEPS=1 PIP_ONLY_BINARY=:all: PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY ocibridge ocibridge
RUN python3 -c 'import sys, tomllib; groups = tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]; \
        open("/build.txt", "w").write("\n".join(groups["image-build"])); \
        names = ["image", *(f"image-{extra}" for extra in sys.argv[1:])]; \
        open("/image.txt", "w").write("\n".join(line for name in names for line in groups[name]))' $EXTRAS \
    && python3 -m pip install $PIP_OPTIONS --target /build-tools --requirement /build.txt \
    && PYTHONPATH=/build-tools python3 -m pip wheel --no-build-isolation --wheel-dir /built . \
    && python3 -m venv --without-pip /opt/ocibridge \
    && python3 -m pip --python /opt/ocibridge/bin/python3 install $PIP_OPTIONS --no-compile \
        --requirement /image.txt /built/*.whl \
    && python3 -m pip --python /opt/ocibridge/bin/python3 check
# Compiled here, as the root file system is read-only later; without the times of the sources, which differ.
RUN /opt/ocibridge/bin/python3 -m compileall -q --invalidation-mode unchecked-hash /opt/ocibridge/lib

FROM ${PYTHON}
LABEL org.opencontainers.image.title="ocibridge" \
      org.opencontainers.image.description="The lossless two-way bridge between model archives and OCI registries" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/ocibridge /opt/ocibridge
ENV PATH=/opt/ocibridge/bin:$PATH PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
ENTRYPOINT ["/opt/ocibridge/bin/ocibridge"]
