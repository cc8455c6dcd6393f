"""torchvision: create_feature_extractor and a DataLoader, with the transforms that belong to the weights IMAGENET1K_V2.

python peer_torchvision.py CHECKPOINT PHOTOS OUT BATCH THREADS NAMES [--workers N] [--channels-last] [--bfloat16]

CHECKPOINT: a file that state_dict.py or export_untrained.py wrote. NAMES: the nodes to return, with commas between them.
"""
import argparse
import json

from pillow_features import Image, list_photos, save
from torchvision_here import torch, torchvision
from torchvision.models.feature_extraction import create_feature_extractor

parser = argparse.ArgumentParser()
parser.add_argument('checkpoint')
parser.add_argument('photos')
parser.add_argument('out')
parser.add_argument('batch', type=int)
parser.add_argument('threads', type=int)
parser.add_argument('names')
parser.add_argument('--workers', type=int, default=0)
parser.add_argument('--channels-last', action='store_true')
parser.add_argument('--bfloat16', action='store_true')


class Folder(torch.utils.data.Dataset):
    def __init__(self, folder, transform):
        self.paths = list_photos(folder)
        self.transform = transform

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return self.transform(Image.open(self.paths[index]).convert('RGB'))


def main():
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    names = options.names.split(',')
    checkpoint = torch.load(options.checkpoint, weights_only=True)
    model = torchvision.models.get_model(checkpoint['architecture'], weights=None)
    model.load_state_dict(checkpoint['state_dict'])
    extractor = create_feature_extractor(model.eval(), names)
    layout = torch.channels_last if options.channels_last else torch.contiguous_format
    extractor = extractor.to(memory_format=layout)
    folder = Folder(options.photos, torchvision.models.ResNet50_Weights.IMAGENET1K_V2.transforms())
    loader = torch.utils.data.DataLoader(folder, batch_size=options.batch, num_workers=options.workers)
    batches = {name: [] for name in names}
    # Autocast keeps the weights that it has converted as long as it is on: for all batches.
    with torch.inference_mode(), torch.autocast('cpu', torch.bfloat16, enabled=options.bfloat16):
        for batch in loader:
            features = extractor(batch.contiguous(memory_format=layout))
            for name in names:
                batches[name].append(features[name].float().contiguous().numpy())
    for name in names:
        save(options.out, name, batches[name])
    print(json.dumps({'n': len(folder)}))


if __name__ == '__main__':
    main()
