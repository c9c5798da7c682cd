def resolve_rank(env):
    if "LOCAL_RANK" in env:
        keys = "RANK", "WORLD_SIZE", "LOCAL_RANK"
    elif "JSM_NAMESPACE_LOCAL_RANK" in env:
        start = "JSM_NAMESPACE_"
        keys = start + "RANK", start + "SIZE", start + "LOCAL_RANK"
    elif "OMPI_COMM_WORLD_LOCAL_RANK" in env:
        start = "OMPI_COMM_WORLD_"
        keys = start + "RANK", start + "SIZE", start + "LOCAL_RANK"
    elif "MPI_LOCALRANKID" in env:
        keys = "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"
    elif "SLURM_LOCALID" in env:
        keys = "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"
    else:
        raise ValueError("no rank")
    try:
        return [int(env[key]) for key in keys]
    except KeyError as error:
        raise ValueError(f"{error} is missing") from None
