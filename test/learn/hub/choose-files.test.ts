/** The files of a model, in the layouts of Transformers.js, Immich, Qdrant and single exports. */
import { describe, expect, it } from 'vitest';
import { chooseModelFile, listCompanions, listWeightFiles } from '../../../src/learn/hub/choose-files.js';
import { formatReference, parseRepositoryReference } from '../../../src/learn/hub/repository-reference.js';

const VARIANTS = ['', '_bnb4', '_fp16', '_int8', '_q4', '_q4f16', '_quantized', '_uint8'];
const CLIP = ['text_model', 'model', 'vision_model'].flatMap((stem) =>
  VARIANTS.map((variant) => `onnx/${stem}${variant}.onnx`),
);
const IMMICH = ['textual/model.onnx', 'visual/model.onnx', 'visual/fp16/model.onnx', 'visual/model.armnn'];

function choose(names: readonly string[], part = ''): string {
  return chooseModelFile(names, parseRepositoryReference(`hf:o/r${part}`)).name;
}

describe('chooseModelFile', () => {
  it.each([
    [CLIP, '', 'onnx/vision_model.onnx'],
    [CLIP, '#fp16', 'onnx/vision_model_fp16.onnx'],
    [CLIP, '#float16', 'onnx/vision_model_fp16.onnx'],
    [CLIP, '#q8', 'onnx/vision_model_quantized.onnx'],
    [CLIP, '#q4f16', 'onnx/vision_model_q4f16.onnx'],
    [CLIP, '#fp32', 'onnx/vision_model.onnx'],
    [CLIP, '#onnx/text_model.onnx', 'onnx/text_model.onnx'],
    [IMMICH, '', 'visual/model.onnx'],
    [IMMICH, '#fp16', 'visual/fp16/model.onnx'],
    [['model.onnx', 'other.onnx'], '', 'model.onnx'],
    [['export.onnx', 'export_fp16.onnx'], '', 'export.onnx'],
    [['onnx/encoder_model.onnx', 'onnx/decoder_model.onnx'], '', 'onnx/encoder_model.onnx'],
    [['onnx/vision_encoder.onnx', 'onnx/prompt_encoder_mask_decoder.onnx'], '', 'onnx/vision_encoder.onnx'],
  ])('of %j, %s', (names, part, expected) => {
    expect(choose(names, part)).toBe(expected);
  });

  it.each([
    [['a.onnx', 'b.onnx'], '', 'OPTION_INVALID'],
    [['model.onnx', 'onnx/model.onnx'], '', 'OPTION_INVALID'],
    [['onnx/model_fp16.onnx'], '', 'NAME_NOT_FOUND'],
    [['onnx/text_model.onnx'], '', 'NAME_NOT_FOUND'],
    [['model.safetensors'], '', 'NAME_NOT_FOUND'],
    [['onnx/model.onnx'], '#q4', 'NAME_NOT_FOUND'],
  ])('not of %j, %s', (names, part, code) => {
    expect(() => choose(names, part)).toThrow(expect.objectContaining({ code }));
  });
});

describe('what belongs to a model', () => {
  it('is its weights, not those of other models', () => {
    const data = [
      'onnx/model.onnx_data',
      'onnx/model.onnx_data_1',
      'onnx/model.onnx.data',
      'onnx/model.data',
    ];
    const others = [
      'onnx/model_fp16.onnx_data',
      'model.onnx_data',
      'onnx/model.onnx_data.md5',
      'onnx/x.data',
    ];
    expect(listWeightFiles([...others, ...data], 'onnx/model.onnx')).toEqual(data);
  });

  it('is its configurations and tokenizer, in its folder and those above', () => {
    const own = [
      'config.json',
      'visual/preprocess_cfg.json',
      'visual/model.onnx.names.json',
      'tokenizer.json',
    ];
    const others = ['textual/tokenizer.json', 'textual/config.json', 'generation_config.json', 'README.md'];
    expect(listCompanions([...own, ...others], 'visual/model.onnx')).toEqual(own);
  });
});

describe('a reference', () => {
  it.each([
    ['hf:o/r', { repository: 'o/r', revision: 'main', file: undefined, variant: undefined }],
    ['hf:gpt2@v1.0', { repository: 'gpt2', revision: 'v1.0' }],
    ['hf:o/r@refs/pr/3#onnx/model.onnx', { revision: 'refs/pr/3', file: 'onnx/model.onnx' }],
    ['hf:o/r#q4', { file: undefined, variant: 'q4' }],
  ])('%s', (text, expected) => {
    const reference = parseRepositoryReference(text);
    expect(reference).toMatchObject(expected);
    expect(formatReference(reference)).toBe(text);
  });

  it('states a file or a variant once', () => {
    expect(() => parseRepositoryReference('hf:o/r#q4', { variant: 'fp16' })).toThrow(/without "#"/);
    expect(() => parseRepositoryReference('hf:o/r', { file: 'a.onnx', variant: 'q4' })).toThrow(/left out/);
    expect(() => parseRepositoryReference('hf:o/r', { variant: '../x' })).toThrow(/"variant"/);
  });
});
