def culprits():
    """Ranks and lines in two lists."""
    ranks, lines = [0, 3, 4, 2], [13, 10, 11, 11]
    return {letter: [rank, line] for letter, rank, line in zip("ABCD", ranks, lines)}
