# bmcd for production: installed from this repository, compiled at build, run by a user who is not root.
#   docker build -t bmcd .
#   docker run --rm -v "$PWD/data:/data" bmcd fit clicks.csv -o model.bmcd --model tastes
# See docs/production.md.
ARG PYTHON=3.12
FROM python:${PYTHON}-slim

WORKDIR /opt/bmcd
COPY pyproject.toml README.md LICENSE ./
COPY src src
# Such as [serve], or [baselines,serve].
ARG EXTRAS=""
RUN pip install --no-cache-dir --disable-pip-version-check ".${EXTRAS}"

# Kernels compiled in advance. "generic" lets them run on other machines than the one that builds the image; leave it out
# if both are the same, for code that is made for that processor.
ENV NUMBA_CACHE_DIR=/var/cache/bmcd NUMBA_CPU_NAME=generic
COPY scripts/precompile.sh scripts/
RUN useradd --uid 10001 --no-create-home bmcd \
    && install -d -o bmcd -g bmcd /var/cache/bmcd /data
USER bmcd
RUN sh scripts/precompile.sh && bmcd doctor

WORKDIR /data
ENTRYPOINT ["bmcd"]
CMD ["--help"]
