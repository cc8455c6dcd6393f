"""What the peers with Pillow share: photos to tensors in torchvision's geometry, and features to .npy files."""
import os

import numpy
from PIL import Image

RESIZE, CROP = 232, 224
MEAN = numpy.array([0.485, 0.456, 0.406], numpy.float32)
STD = numpy.array([0.229, 0.224, 0.225], numpy.float32)


def list_photos(folder):
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder))]


def load(path):
    image = Image.open(path).convert('RGB')
    width, height = image.size
    if width <= height:
        width, height = RESIZE, int(RESIZE * height / width)
    else:
        width, height = int(RESIZE * width / height), RESIZE
    image = image.resize((width, height), Image.BILINEAR)
    left, top = round((width - CROP) / 2), round((height - CROP) / 2)
    pixels = numpy.asarray(image.crop((left, top, left + CROP, top + CROP)), numpy.float32)
    return ((pixels / 255 - MEAN) / STD).transpose(2, 0, 1)


def save(out, name, batches):
    """Writes one row per photo; dimensions of 1 after the channels are dropped, as tapir does."""
    rows = numpy.concatenate(batches)
    if rows.ndim > 2 and rows[0, 0].size == 1:
        rows = rows.reshape(rows.shape[:2])
    numpy.save(os.path.join(out, f'{name}.npy'), rows)
