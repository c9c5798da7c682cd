"""One colour-blind-safe table of colours, by role and by rank.

The hues are those of Okabe and Ito, "Color Universal Design" (2008),
https://jfly.uni-koeln.de/color/.
"""

# neighbours differ in lightness too, so that the roles survive a grey print: for that
# the pink is lighter than theirs
ROLE_COLORS = {
    "forward": "#56b4e9",
    "backward": "#0072b2",
    "optimizer": "#009e73",
    "other compute": "#dda8c8",
    "communicate": "#d55e00",
    "wait": "#f0e442",
}
# fmt: off
RANK_COLORS = (
    "#0072b2", "#e69f00", "#009e73", "#cc79a7",
    "#56b4e9", "#d55e00", "#f0e442", "#666666",
)
# fmt: on
# by the role that makes them: backward gradients, the optimizer its state, forward
# activations, these lighter than there so that all four differ in a grey print
MEMORY_COLORS = {
    "parameters": "#e69f00",
    "gradients": "#0072b2",
    "optimizer state": "#009e73",
    "activations": "#9fd4f2",
}
DARK = "#333333"  # of lines that bound something


def rank_color(rank):
    """Return the colour "#rrggbb" of a rank or device: 8 differ, then they repeat.

    A device such as "cuda:1" counts as 1, "cuda" as 0. As a background it goes with
    `text_color`; as text on white, yellow is too light.
    """
    if isinstance(rank, str):
        index = rank.rpartition(":")[2]
        rank = int(index) if index.isdecimal() else 0
    elif not hasattr(rank, "__index__") or rank < 0:
        raise ValueError(
            f"cannot colour rank {rank!r}: expected 0 or more, or a device as 'cuda:1'."
        )
    return RANK_COLORS[rank % len(RANK_COLORS)]


def role(kind, name=""):
    """Return the role of an event of a timeline, a key of `ROLE_COLORS`."""
    if kind in ("communicate", "wait"):
        return kind
    if kind != "compute":
        raise ValueError(
            f"cannot colour an event of kind {kind!r}: "
            "expected 'compute', 'communicate' or 'wait'."
        )
    words = ("backward", "forward", "optimizer")
    return next((word for word in words if word in name.lower()), "other compute")


def luminance(color):
    """Return the luminance of "#rrggbb", 0 for black to 1 for white (WCAG 2.1)."""
    shares = (c / 255 for c in bytes.fromhex(color[1:]))
    red, green, blue = (
        s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def edge(color):
    """Return the outline of a mark "#rrggbb": white, or dark where white is lost.

    A mark needs 3 to 1 against its surface (WCAG 2.1, 1.4.11); a light one gets it from
    a dark shade of its own.
    """
    if 1.05 / (luminance(color) + 0.05) >= 3:
        return "#ffffff"
    shares = bytes.fromhex(color[1:])
    return "#" + bytes(round(0.42 * share) for share in shares).hex()


def text_color(background):
    """Return black or white, which reads better on "#rrggbb": at least 4.5 to 1."""
    # equal contrast with both: (l + 0.05)² = 0.05 × 1.05
    return "#000000" if luminance(background) > 0.179 else "#ffffff"
