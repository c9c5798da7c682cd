def commands():
    host = "--rdzv-endpoint=node0:29500"
    c10d = f"torchrun --nnodes=2 --nproc=4 --rdzv-backend=c10d {host} --rdzv-id=job7"
    commands = dict(zip("AB", ("torchrun --standalone --nproc=4 train.py", c10d)))
    commands["B"] += " train.py"
    commands["C"] = (
        "mpirun -np 4 --host node0:4,node1:4 --map-by node --mca btl tcp,self"
        " env MASTER_ADDR=node0 MASTER_PORT=29500 python train.py"
    )
    commands["D"] = "srun --ntasks=8 --cpus-per-task=6 python train.py"
    commands["E"] = (
        f"srun --nodes=2 --cpus-per-task=24 {c10d} --max-restarts=3 train.py"
    )
    return commands
