# bmcd for production: installed from this repository, compiled at build, run by a user who is not root.
#   docker build -t bmcd .
#   docker run --rm -v "$PWD/data:/data" bmcd fit clicks.csv -o model.bmcd
#   docker run --rm -p 8000:8000 -v "$PWD/data:/data:ro" -e BMCD_SERVE_KEY bmcd serve model.bmcd --host 0.0.0.0
# See docs/production.md.
FROM python:3.12.12-slim-bookworm

WORKDIR /opt/bmcd
COPY pyproject.toml requirements.lock README.md LICENSE ./
COPY src src
# Such as [baselines,serve]; the versions of what the lock does not name are then the latest.
ARG EXTRAS="[serve]"
RUN pip install --no-cache-dir --disable-pip-version-check -c requirements.lock ".${EXTRAS}"

# Kernels compiled in advance. "generic" lets them run on other machines than the one that builds the image; leave it out
# if both are the same, for code that is made for that processor.
ENV NUMBA_CACHE_DIR=/var/cache/bmcd NUMBA_CPU_NAME=generic
COPY scripts/precompile.sh scripts/healthcheck.sh scripts/installed_size.py scripts/
RUN useradd --uid 10001 --no-create-home bmcd \
    && install -d -o bmcd -g bmcd /var/cache/bmcd /data
USER bmcd
RUN sh scripts/precompile.sh && bmcd doctor

WORKDIR /data
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --retries=3 CMD ["sh", "/opt/bmcd/scripts/healthcheck.sh"]
ENTRYPOINT ["bmcd"]
CMD ["--help"]
