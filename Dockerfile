# The service: docker run --read-only --tmpfs /tmp -p 8000:8000 -v "$PWD/models:/models:ro" onnx-tapir --model /models/resnet50.onnx --return avgpool=embedding
FROM node:22-bookworm-slim AS build
WORKDIR /package
COPY . .
RUN npm ci --ignore-scripts && npm run build && npm pack --pack-destination /tmp

FROM node:22-bookworm-slim
WORKDIR /app
COPY --from=build /tmp/onnx-tapir-*.tgz /tmp/
RUN npm install --ignore-scripts --omit=dev --no-audit --no-fund /tmp/onnx-tapir-*.tgz \
  && rm -r /tmp/onnx-tapir-*.tgz /root/.npm \
  # Of onnxruntime-node, the binaries of other systems.
  && find node_modules/onnxruntime-node/bin -mindepth 2 -maxdepth 2 ! -name linux -exec rm -r {} + \
  && find node_modules/onnxruntime-node/bin/*/linux -mindepth 1 -maxdepth 1 ! -name "$(node -p process.arch)" -exec rm -r {} +
USER node
ENV NODE_ENV=production
EXPOSE 8000
HEALTHCHECK --interval=10s --start-period=30s \
  CMD ["node", "-e", "fetch('http://127.0.0.1:8000/health/live').then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["node", "node_modules/onnx-tapir/dist/lib/bin.cjs", "serve", "--host", "0.0.0.0", "--set", "cache=off"]
