def resolve_rank(env):
    table = [
        ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
        ("JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_LOCAL_RANK"),
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
        ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
        ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"),
    ]
    for names in table:
        if names[2] in env:
            if not all(name in env for name in names):
                raise ValueError(f"not all of {names} are set")
            return tuple(int(env[name]) for name in names)
    raise ValueError("no launcher has started this process")
