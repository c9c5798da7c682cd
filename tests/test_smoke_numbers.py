"""The eight numbers of lesson 02 with which learners try a loop of their own."""

from tests import lesson_code

WEIGHTS = "0.9472, 0.9440, 0.9527, 0.9687, 0.9570, 0.9343, 0.9411, 0.9186"


def test_the_loop_of_the_text_ends_with_the_weights_of_the_text():
    assert WEIGHTS in lesson_code.cells("02")["golden-text"]
    loop = lesson_code.block("02", "golden-text")
    names = {}
    exec("import torch\nfrom torch import nn\n" + loop, names)
    weights = names["model"].weight.flatten().tolist()
    assert ", ".join(f"{weight:.4f}" for weight in weights) == WEIGHTS
