def deal(cards, hands):
    piles = [[] for _ in range(hands)]
    for number, card in enumerate(cards):
        piles[number % hands].append(card)
    return piles


def shard_indices(num_samples, rank, world_size):
    cards = list(range(num_samples))
    while len(cards) % world_size:
        cards.append(cards[len(cards) - num_samples])
    return tuple(deal(cards, world_size)[rank])
