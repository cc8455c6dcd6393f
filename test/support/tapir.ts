/** All entries of the package in one. */
export * from 'onnx-tapir';
export * from 'onnx-tapir/parameters';
export * from 'onnx-tapir/zoo';
export * from 'onnx-tapir/precision';
export * from 'onnx-tapir/stages';
export * from 'onnx-tapir/gradients';
export * from 'onnx-tapir/train';
export * from 'onnx-tapir/explain';
export * from 'onnx-tapir/features';
export * from 'onnx-tapir/pages';
export * from 'onnx-tapir/serve';
