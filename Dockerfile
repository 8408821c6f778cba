# hepm serve: docker compose --file compose.serve.yaml up --detach --wait (docs/use/serve.md#in-docker)
FROM python:3.13-alpine AS build
COPY pyproject.toml README.md LICENSE /hepm/
COPY hepm /hepm/hepm
# What runs needs neither pip nor the tests of its libraries. Compiled here, as the root of the file system is read-only.
RUN python -m venv --without-pip /opt/hepm \
    && pip --python /opt/hepm/bin/python install --no-cache-dir --no-compile --only-binary :all: --no-binary hepm "/hepm[serve,neo4j]" \
    && find /opt/hepm -type d -name tests -prune -exec rm -rf {} + \
    && /opt/hepm/bin/python -m compileall -q /opt/hepm

FROM python:3.13-alpine
COPY --from=build /opt/hepm /opt/hepm
# Others than this machine are served, so that HEPM_TOKEN is needed. A hepm.toml in /data replaces this one.
RUN adduser -D -H -u 10001 hepm \
    && install -d -o hepm -g hepm /data \
    && install -d /etc/xdg/hepm \
    && printf '[serve]\nhost = "0.0.0.0"\n' > /etc/xdg/hepm/hepm.toml
ENV PATH=/opt/hepm/bin:$PATH HOME=/data HEPM_STORE=/data/memory.hepm XDG_CONFIG_HOME=/etc/xdg PYTHONDONTWRITEBYTECODE=1
USER 10001
WORKDIR /data
VOLUME /data
EXPOSE 8765
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8765/health', timeout=4)"]
ENTRYPOINT ["hepm"]
CMD ["serve"]
