# The image of all daemons, of the egress proxy and of agents' containers:
#   docker build -t svc-host:0.1.0 .
# docs/containers.md says what is in it. Both base images can be replaced, for example by copies in your own registry; the
# builder needs npm and apt, the base needs apt.
ARG BASE=debian:13.1-slim
ARG BUILDER=node:26.10.0-trixie-slim

FROM ${BUILDER} AS build
RUN command -v strip >/dev/null \
 || { apt-get update && apt-get install -y --no-install-recommends binutils && rm -rf /var/lib/apt/lists/*; }
WORKDIR /build
COPY . .
# Compiles without type checks, which CI makes. The image has one Node, the one of package-lock.json; symbols, headers and
# manuals are half of its size. Everything is one step because a layer with the development packages would take longer to
# store than to install again.
RUN npm ci --no-audit --no-fund --cache /tmp/npm \
 && node_modules/.bin/tsc -p tsconfig.build.json \
 && npm prune --omit=dev --no-audit --no-fund --offline --cache /tmp/npm \
 && (cd node_modules && rm -rf .bin .package-lock.json node-*/include node-*/share node-*/*.md && strip node-*/bin/node) \
 && find node_modules -type f '(' -name '*.map' -o -name '*.[cm]ts' -o -name '*.ts' -o -name '*.md' ')' \
    ! -iname 'license*' -delete \
 && find node_modules -depth -type d -empty -delete \
 && mkdir -p /image/opt/svc /image/usr/local/bin \
 && mv bin dist packages products package.json CHANGELOG.md LICENSE node_modules /image/opt/svc/ \
 && cd /image/usr/local/bin \
 && ln -s ../../../opt/svc/bin/svc.js svc \
 && ln -s ../../../opt/svc/bin/egress-proxy.js egress-proxy \
 && ln -s ../../../opt/svc/node_modules/node-*/bin/node node \
 && node --version && rm -rf /build /tmp/npm

FROM ${BASE}
# More programs for agents, for example --build-arg PACKAGES="git python3".
ARG PACKAGES=
RUN missing= \
 && for package in ca-certificates curl bubblewrap libatomic1 ${PACKAGES}; do \
      dpkg -s "$package" >/dev/null 2>&1 || missing="$missing $package"; \
    done \
 && if [ -n "$missing" ]; then \
      apt-get update && apt-get install -y --no-install-recommends $missing && rm -rf /var/lib/apt/lists/* /var/cache/apt/*; \
    fi \
 && groupadd --gid 60000 svc \
 && useradd --uid 60000 --gid svc --no-create-home --home-dir /tmp --shell /bin/sh svc \
 && install -d -o svc -g svc -m 700 /data \
 && find / -xdev -type f -perm /6000 -exec chmod a-s {} +
COPY --from=build /image/ /
ENV SVC_DATA_DIR=/data
# The owner of an instance's files, see AGENT_UID; never root.
USER 60000:60000
EXPOSE 8080
HEALTHCHECK --interval=30s --timeout=10s --start-period=15s \
  CMD ["curl", "-fsS", "--noproxy", "*", "-o", "/dev/null", "http://127.0.0.1:8080/health"]
ENTRYPOINT ["svc"]
CMD ["help"]
