class NoRank(ValueError):
    pass


NAMES = {
    "LOCAL_RANK": "RANK WORLD_SIZE",
    "JSM_NAMESPACE_LOCAL_RANK": "JSM_NAMESPACE_RANK JSM_NAMESPACE_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK": "OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE",
    "MPI_LOCALRANKID": "PMI_RANK PMI_SIZE",
    "SLURM_LOCALID": "SLURM_PROCID SLURM_STEP_NUM_TASKS",
}


def resolve_rank(env):
    local = next((name for name in NAMES if name in env), None)
    if local is None:
        raise NoRank
    rank, size = (env.get(name) for name in NAMES[local].split())
    if rank is None or size is None:
        raise NoRank
    return int(rank), int(size), int(env[local])
