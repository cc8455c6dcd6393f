/** Pictures that are loaded one by one, as feeds. */
import type { LoadedImage } from '../images/transform/load-pixels.js';
import type { Transform } from '../images/transform/transform.js';
import { encodeFloat16 } from '../../onnx/tensor/float16.js';
import { fillFeed, isShared } from '../../onnx/tensor/image-feed.js';
import { makeTensor, nameTensor, type NamedTensor } from '../../onnx/tensor/tensor.js';
import type { FeedPlan } from './feed-plan.js';

/** How one picture is loaded: in the order of axes that the model takes, with one row; of several crops, the one in the centre. */
export function pictureTransform({ processor, isLast }: FeedPlan): Transform {
  return processor.transform.with({ layout: isLast ? 'nhwc' : 'nchw', crops: 'center' });
}

/** The feed of a picture that was loaded with {@link pictureTransform}, as often as a fixed batch wants it. */
export function feedOfPicture(plan: FeedPlan, image: LoadedImage): NamedTensor {
  const rows = plan.multiple ?? 1;
  const [feed] = plan.feedsOf(
    Array.from({ length: rows }, () => image),
    rows,
  );
  if (!feed || !isShared(feed)) throw new Error('a picture has one feed, which is made of its pixels');
  if (plan.takesPixels) return fillFeed(feed);
  const { data } = image.toTensor();
  const repeated = new Float32Array(rows * data.length);
  for (let row = 0; row < rows; row++) repeated.set(data, row * data.length);
  const tensor =
    feed.dtype === 'float16'
      ? makeTensor('float16', feed.dims, encodeFloat16(repeated))
      : makeTensor('float32', feed.dims, repeated);
  return nameTensor(feed.name, tensor);
}
