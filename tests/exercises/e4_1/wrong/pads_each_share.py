# mistake: A rank that is short repeats a sample of its own. The padding belongs at the
#   end of the whole list, before it is dealt.
def shard_indices(num_samples, rank, world_size):
    own = list(range(rank, num_samples, world_size))
    wanted = -(-num_samples // world_size)
    if len(own) < wanted:
        own += own[: wanted - len(own)]
    return own
