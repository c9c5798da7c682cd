# run by: python
# says: Attempting to deserialize object on a CUDA device
import io
from unittest import mock

import torch

file = io.BytesIO()
# what a machine with a GPU writes
with mock.patch("torch.serialization.location_tag", lambda storage: "cuda:0"):
    torch.save(torch.ones(2), file)
file.seek(0)
print(torch.load(file, map_location="cpu"))
file.seek(0)
torch.load(file)
