/**
 * What OpenVINO itself can do when Node calls its C API: the same graph on tensors that are in memory already, results thrown away,
 * only the loop timed. One compiled model, a stream of one thread per core, a request per stream.
 *
 *     node peer_limit_openvino.js MODEL COUNT float32|bfloat16 BATCH THREADS LIBRARIES
 */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import koffi from 'koffi';

const [model, count, precision, batch, threads, folder] = process.argv.slice(2);
const ROWS = Number(batch);
const FLOAT32 = 4;
const SHAPE = [ROWS, 3, 224, 224];

/** Loads the first library of this name, whatever its version; the later ones find it. */
function loadLibrary(name) {
  const file = readdirSync(folder).find((entry) => entry.startsWith(`${name}.so`));
  if (file === undefined) throw new Error(`there is no ${name}.so in ${folder}`);
  return koffi.load(join(folder, file), { global: true });
}

loadLibrary('libtbb');
loadLibrary('libopenvino');
const library = loadLibrary('libopenvino_c');
koffi.struct('Shape', { rank: 'int64', dims: 'void *' });
const declare = (signature) => library.func(signature);
const lastError = declare('const char *ov_get_last_err_msg()');

function check(status) {
  if (status !== 0) throw new Error(`OpenVINO: ${lastError()}`);
}

/** Calls a function that returns a handle through its last parameter. */
function open(call, ...args) {
  const handle = [null];
  check(call(...args, handle));
  return handle[0];
}

const properties = {
  INFERENCE_PRECISION_HINT: precision === 'bfloat16' ? 'bf16' : 'f32',
  PERFORMANCE_HINT: 'THROUGHPUT',
  INFERENCE_NUM_THREADS: threads,
  NUM_STREAMS: threads,
};
const pairs = Object.entries(properties).flat();
const compile = declare(
  `int ov_core_compile_model(void *core, void *model, const char *device, size_t count, _Out_ void **compiled, ${pairs.map(() => 'const char *').join(', ')})`,
);
const core = open(declare('int ov_core_create(_Out_ void **core)'));
const read = declare(
  'int ov_core_read_model(void *core, const char *path, const char *weights, _Out_ void **model)',
);
const graph = open(read, core, model, null);
const compiledHandle = [null];
check(compile(core, graph, 'CPU', pairs.length, compiledHandle, ...pairs));

const data = new Float32Array(SHAPE.reduce((product, size) => product * size));
for (let i = 0; i < data.length; i++) data[i] = 2 * Math.sin(i);
const dims = BigInt64Array.from(SHAPE.map(BigInt));
const createRequest = declare(
  'int ov_compiled_model_create_infer_request(void *compiled, _Out_ void **request)',
);
const createTensor = declare(
  'int ov_tensor_create_from_host_ptr(int type, Shape shape, void *data, _Out_ void **tensor)',
);
const setInput = declare(
  'int ov_infer_request_set_input_tensor_by_index(void *request, size_t index, void *tensor)',
);
const infer = declare('int ov_infer_request_infer(void *request)');
const requests = Array.from({ length: Number(threads) }, () => {
  const request = open(createRequest, compiledHandle[0]);
  check(setInput(request, 0, open(createTensor, FLOAT32, { rank: SHAPE.length, dims }, data)));
  return request;
});

const run = (request) =>
  new Promise((resolve, reject) => {
    infer.async(request, (error, status) => {
      if (error || status !== 0) reject(error ?? new Error(`OpenVINO: ${lastError()}`));
      else resolve();
    });
  });

await Promise.all(requests.map(run));
const runs = Math.ceil(Number(count) / ROWS / requests.length);
const cpu = process.cpuUsage();
const started = performance.now();
await Promise.all(
  requests.map(async (request) => {
    for (let i = 0; i < runs; i++) await run(request);
  }),
);
const loopS = (performance.now() - started) / 1000;
const { user, system } = process.cpuUsage(cpu);
console.log(JSON.stringify({ n: runs * requests.length * ROWS, loopS, loopCpuS: (user + system) / 1e6 }));
// The system frees what the library holds.
process.exit(0);
