def resolve_rank(env):
    def read(prefix, size="SIZE"):
        return prefix + "RANK", prefix + size, prefix + "LOCAL_RANK"

    rows = [read("", "WORLD_SIZE"), read("JSM_NAMESPACE_"), read("OMPI_COMM_WORLD_")]
    rows.append(("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"))
    rows.append(("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"))
    there = [row for row in rows if env.get(row[2]) is not None]
    values = [env.get(name) for name in there[0]] if there else [None]
    if None in values:
        raise ValueError(f"no rank in {sorted(env)}")
    rank, size, local = map(int, values)
    return torch.tensor(rank).item(), size, local
