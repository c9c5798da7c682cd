def commands():
    """Open MPI's own list of variables, short forms of options, a tab in a line."""
    meet = "--rdzv_backend c10d --rdzv_endpoint node0:29500 --rdzv_id job7"
    variables = "'MASTER_ADDR=node0;MASTER_PORT=29500'"
    return {
        "A": "torchrun --stand --nproc_per=4 train.py",
        "B": f"torchrun --nnodes=2 --nproc-per-node=4 {meet} train.py",
        "C": f"mpirun -np 4 -npernode 2 -H node0:4,node1:4"
        f" --mca mca_base_env_list {variables} python train.py",
        "D": "srun --ntasks-per-node=4 --cpus-per-task=6 python train.py",
        "E": "srun --ntasks-per-node=1 \\\n\t--cpus-per-task=24 torchrun --nnodes=2"
        f" --nproc-per-node=4 --max-restarts=3 {meet} train.py",
    }
