# The image that `egress-proxy run` uses, for the proxy and, without --image, for the workload:
#   npm pack && docker build -f docker/egress-proxy.Dockerfile -t egress-proxy:latest .
FROM node:26-trixie-slim

RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates curl git \
 && rm -rf /var/lib/apt/lists/*

# Without the Node that the package would bring: the image has one.
COPY svc-*.tgz /tmp/
RUN npm install --global --omit=optional /tmp/svc-*.tgz \
 && npm cache clean --force \
 && rm /tmp/svc-*.tgz

USER node
EXPOSE 3128
ENTRYPOINT ["egress-proxy"]
CMD ["proxy", "serve"]
