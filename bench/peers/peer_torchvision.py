"""torchvision: create_feature_extractor and a DataLoader, with the transforms that belong to the weights IMAGENET1K_V2.

python peer_torchvision.py STATE_DICT PHOTOS OUT BATCH THREADS [--workers N] [--channels-last]
"""
import argparse
import json
import os

import numpy
from PIL import Image
from torchvision_here import torch, torchvision
from torchvision.models.feature_extraction import create_feature_extractor

parser = argparse.ArgumentParser()
parser.add_argument('state_dict')
parser.add_argument('photos')
parser.add_argument('out')
parser.add_argument('batch', type=int)
parser.add_argument('threads', type=int)
parser.add_argument('--workers', type=int, default=0)
parser.add_argument('--channels-last', action='store_true')


class Folder(torch.utils.data.Dataset):
    def __init__(self, folder, transform):
        self.paths = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
        self.transform = transform

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return self.transform(Image.open(self.paths[index]).convert('RGB'))


def main():
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    model = torchvision.models.resnet50(weights=None)
    model.load_state_dict(torch.load(options.state_dict, weights_only=True))
    extractor = create_feature_extractor(model.eval(), {'layer4': 'layer4', 'avgpool': 'avgpool'})
    layout = torch.channels_last if options.channels_last else torch.contiguous_format
    extractor = extractor.to(memory_format=layout)
    folder = Folder(options.photos, torchvision.models.ResNet50_Weights.IMAGENET1K_V2.transforms())
    loader = torch.utils.data.DataLoader(folder, batch_size=options.batch, num_workers=options.workers)
    layer4, avgpool = [], []
    with torch.inference_mode():
        for batch in loader:
            features = extractor(batch.contiguous(memory_format=layout))
            layer4.append(features['layer4'].contiguous())
            avgpool.append(features['avgpool'].flatten(1).contiguous())
    numpy.save(os.path.join(options.out, 'layer4.npy'), torch.cat(layer4).numpy())
    numpy.save(os.path.join(options.out, 'avgpool.npy'), torch.cat(avgpool).numpy())
    print(json.dumps({'n': len(folder)}))


if __name__ == '__main__':
    main()
