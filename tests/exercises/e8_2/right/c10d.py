def commands():
    meet = "--rdzv-backend=c10d --rdzv-endpoint=node0:29500 --rdzv-id=job7"
    both = f"torchrun --nnodes=2 --nproc-per-node=4 {meet}"
    return {
        "A": "torchrun --standalone --nproc-per-node=4 train.py",
        "B": f"{both} train.py",
        "C": "mpirun --host node0:2,node1:2 --map-by ppr:2:node"
        " -x MASTER_ADDR=node0 -x MASTER_PORT=29500 python train.py",
        "D": "srun --nodes=2 --ntasks-per-node=4 --cpus-per-task=6 python train.py",
        "E": "srun --nodes=2 --ntasks-per-node=1 --cpus-per-task=24"
        f" {both} --max-restarts=3 train.py",
    }
