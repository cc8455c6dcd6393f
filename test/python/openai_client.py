"""Asks a service for vectors with Python's OpenAI client: openai_client.py URL PHOTO [TEXT ...]

Needs the package openai. Fails if a vector is not of length 1, differs between encodings, or a refusal has another form.
"""
import base64
import math
import sys

import openai

url, photo, *texts = sys.argv[1:]
client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
model = client.models.list().data[0].id
with open(photo, "rb") as file:
    image = "data:image/jpeg;base64," + base64.b64encode(file.read()).decode()


def embed(items, **options):
    reply = client.embeddings.create(model=model, input=items, **options)
    assert [one.index for one in reply.data] == list(range(len(reply.data)))
    for one in reply.data:
        assert math.isclose(math.hypot(*one.embedding), 1, abs_tol=1e-5), one.index
    return [one.embedding for one in reply.data]


def same(left, right):
    return all(math.isclose(a, b, abs_tol=1e-6) for x, y in zip(left, right, strict=True) for a, b in zip(x, y, strict=True))


items = [image, {"image": image}, *texts]
vectors = embed(items)
assert same(vectors, embed(items, encoding_format="float"))
assert vectors[0] == vectors[1]
assert same(vectors[:1], embed(image))

refused = [
    (openai.BadRequestError, "input", dict(input=[])),
    (openai.BadRequestError, "input.0", dict(input=[[1, 2]])),
    (openai.BadRequestError, "dimensions", dict(input=image, dimensions=len(vectors[0]) + 1)),
    (openai.BadRequestError, "input.1", dict(input=[image, {"image": "AAAA"}])),
    (openai.NotFoundError, "model", dict(input=image, model="other")),
]
for kind, param, options in refused:
    try:
        client.embeddings.create(**{"model": model, **options})
    except openai.APIStatusError as error:
        assert type(error) is kind and error.param == param, error
    else:
        raise AssertionError(f"not refused: {options}")
print(f"openai {openai.__version__}: {len(vectors)} vectors of {len(vectors[0])}, {len(refused)} refusals")
