// Without webpack's command, which needs a newer Node than this package.
import webpack from 'webpack';

const config = {
  mode: 'production',
  target: 'node20',
  entry: './app.js',
  output: { path: `${import.meta.dirname}/out/webpack`, filename: 'app.cjs' },
  externals: ['onnxruntime-node', 'sharp', 'onnx-proto', 'protobufjs'],
  externalsType: 'commonjs',
};
webpack(config, (error, stats) => {
  if (error) throw error;
  if (stats.hasErrors() || stats.hasWarnings()) throw new Error(stats.toString('errors-warnings'));
});
