# attnd in a container: the server, the command-line client for health checks,
# and the Debian libraries they link to.  Runs as an unprivileged user and
# writes nothing, so a read-only root file system is fine.
#
#   make image
#   docker run -p 50051:50051 -p 9464:9464 attnd:dev
#
# Pin BASE by digest for a build that can be repeated:
#   --build-arg BASE=docker.io/library/debian@sha256:... --build-arg BASE_DIGEST=sha256:...
ARG BASE=docker.io/library/debian:bookworm-slim

FROM ${BASE} AS build
COPY deploy/packages.txt deploy/install-packages.sh /src/deploy/
RUN /src/deploy/install-packages.sh build && rm -rf /var/lib/apt/lists/*
COPY . /src
RUN cmake -S /src -B /build -G Ninja -DCMAKE_BUILD_TYPE=Release \
      -DATTND_TESTS=OFF -DCMAKE_INSTALL_PREFIX=/usr/local \
      --log-level=WARNING \
 && cmake --build /build --target attnd attnctl \
 && DESTDIR=/out cmake --install /build --component programs --strip \
 && install -D -m 644 /src/deploy/attnd.yaml /out/etc/attnd/attnd.yaml

FROM ${BASE}
ARG BASE
ARG BASE_DIGEST=unknown
ARG VERSION=0.1.0
ARG REVISION=unknown
ARG SOURCE=unknown
ARG CREATED=1970-01-01T00:00:00Z
LABEL org.opencontainers.image.title="attnd" \
      org.opencontainers.image.description="Continuous-time attention over gRPC" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.base.name="${BASE}" \
      org.opencontainers.image.base.digest="${BASE_DIGEST}"
COPY deploy/packages.txt deploy/install-packages.sh deploy/sbom.sh /tmp/deploy/
# The bill of materials: what the image holds, read by scanners from its place.
RUN /tmp/deploy/install-packages.sh runtime \
 && mkdir -p /usr/share/attnd \
 && /tmp/deploy/sbom.sh "${VERSION}" "${REVISION}" "${CREATED}" \
      >/usr/share/attnd/sbom.spdx.json \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/log/apt \
      /var/log/dpkg.log /tmp/deploy
COPY --from=build /out/ /
# 50051: gRPC.  9464: metrics and probes over HTTP.
EXPOSE 50051 9464
USER 65532:65532
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 \
  CMD ["attnctl", "health"]
ENTRYPOINT ["attnd"]
CMD ["--config", "/etc/attnd/attnd.yaml"]
