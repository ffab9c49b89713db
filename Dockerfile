# Millrace as an image: compiled, with what it needs to run and nothing else; no root, nothing written outside /var/lib/millrace and /tmp.
#   docker build -t millrace .
#   docker run --rm millrace --help
# Your own pipelines: mount them over /warehouse/pipelines, or `millrace init` writes a repository with an image of its own.
ARG NODE_IMAGE=node:26-bookworm-slim

FROM ${NODE_IMAGE} AS build
WORKDIR /millrace
COPY package.json package-lock.json .npmrc ./
COPY tools ./tools
RUN npm ci --no-audit --no-fund
COPY . .
# tools/optional stays, so the image has what only some need, too (buckets, Parquet, traces, assistants). Its own Node.js stands in for a checkout's.
RUN npm run build && npm prune --omit=dev --no-audit --no-fund \
  && rm -rf node_modules/node-linux-* node_modules/.bin/node node_modules/@millrace && find node_modules -type d -empty -delete

FROM ${NODE_IMAGE}
LABEL org.opencontainers.image.title="Millrace" \
  org.opencontainers.image.description="Web-analytics reports and keyword research in your own PostgreSQL" \
  org.opencontainers.image.licenses="Apache-2.0"
# One pool of memory for all threads: less stays taken.
ENV NODE_ENV=production MILLRACE_HOME=/var/lib/millrace MALLOC_ARENA_MAX=1
RUN install -d -o node -g node -m 0700 /var/lib/millrace
COPY --from=build /millrace/node_modules /millrace/node_modules
COPY --from=build /millrace/dist /millrace/dist
COPY --from=build /millrace/package.json /millrace/LICENSE /millrace/CHANGELOG.md /millrace/
COPY bin /millrace/bin
COPY pipelines /warehouse/pipelines
WORKDIR /warehouse
USER 1000:1000
VOLUME /var/lib/millrace
EXPOSE 7433
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s CMD ["node", "/millrace/bin/healthcheck.js"]
ENTRYPOINT ["node", "/millrace/bin/millrace.js"]
CMD ["schedule"]
