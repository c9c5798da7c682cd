"""The eight numbers of lesson 02 with which learners try a loop of their own."""

import re

import nbformat

from tests.test_lessons import ROOT

LESSON = ROOT / "notebooks/02_gradient_accumulation.ipynb"
WEIGHTS = "0.9472, 0.9440, 0.9527, 0.9687, 0.9570, 0.9343, 0.9411, 0.9186"


def test_the_loop_of_the_text_ends_with_the_weights_of_the_text():
    cells = nbformat.read(LESSON, as_version=4).cells
    [text] = [cell.source for cell in cells if cell.id == "golden-text"]
    assert WEIGHTS in text
    [loop] = re.findall(r"```python\n(.*?)```", text, re.S)
    names = {}
    exec("import torch\nfrom torch import nn\n" + loop, names)
    weights = names["model"].weight.flatten().tolist()
    assert ", ".join(f"{weight:.4f}" for weight in weights) == WEIGHTS
