"""The figure of images: a strip of them, each with its label."""

import numpy as np

from course_lib.errors import UsageError
from course_lib.plots import figure
from course_lib.text import many


@figure.styled
def plot_images(images, labels, *, ax=None):
    """Draw images f32[n, 1 or 3, h, w], 0 to 1, ten to a row, below their labels.

    One channel is drawn in grey, from white to black.
    """
    if len(images) != len(labels) or not 0 < len(images) <= 100:
        raise UsageError(
            f"cannot draw {len(images)} images with {len(labels)} labels: expected as "
            "many labels as images, 1 to 100. Draw images[:10], labels[:10]."
        )
    images = np.asarray(images)
    images = images.reshape(len(images), -1, *images.shape[-2:])
    columns = min(10, len(images))
    lines = -(-len(images) // columns)
    ax = figure.axes(ax, 0.75 + 0.85 * lines)
    ax.set(xlim=(0, 10), ylim=(1.35 * lines, 0), aspect="equal")
    ax.axis("off")
    for i, (image, label) in enumerate(zip(images, labels, strict=True)):
        x, y = i % columns, i // columns * 1.35
        pixels = image[0] if len(image) == 1 else np.moveaxis(image, 0, -1)
        place = (x + 0.05, x + 0.95, y + 1.3, y + 0.4)
        style = {"cmap": "gray_r", "vmin": 0, "vmax": 1, "aspect": "equal"}
        ax.imshow(pixels, extent=place, **style)
        middle = x + 0.5, y + 0.2
        ax.text(*middle, str(int(label)), ha="center", va="center", fontsize=13)
    height, width = images.shape[2:]
    count = many(len(images), "image")
    title = f"{count} of {height} × {width} pixels, each with its label"
    grey = images.shape[1] == 1
    source = "data: grey from 0 (white) to 1 (black)" if grey else "data: colours"
    return figure.finish(ax, title, source=source, below=4)
