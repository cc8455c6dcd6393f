import commonjs from '@rollup/plugin-commonjs';
import json from '@rollup/plugin-json';
import nodeResolve from '@rollup/plugin-node-resolve';

export default {
  input: 'app.js',
  external: /^(onnxruntime-node|sharp|onnx-proto|protobufjs)/,
  plugins: [nodeResolve({ preferBuiltins: true }), commonjs(), json()],
  output: { dir: 'out/rollup', format: 'es' },
};
