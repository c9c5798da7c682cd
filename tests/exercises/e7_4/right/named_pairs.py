from collections import namedtuple

Place = namedtuple("Place", "rank line")


def culprits():
    found = {"D": Place(rank=2, line=11), "C": Place(rank=4, line=11)}
    found |= {"B": Place(3, 10)}
    found["A"] = Place(0, 13)
    return found
