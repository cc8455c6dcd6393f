export default {
  logLevel: 'warn',
  build: { ssr: 'app.js', outDir: 'out/vite' },
  ssr: { noExternal: true, external: ['onnxruntime-node', 'sharp', 'onnx-proto', 'protobufjs'] },
};
