def commands():
    """What launchers read from variables, and a program for each machine after a :"""
    told = "-x MASTER_ADDR=node0 -x MASTER_PORT=29500"
    return {
        "A": "PET_NPROC_PER_NODE=4 torchrun train.py",
        "B": "export PET_NNODES=2 PET_NODE_RANK=1 PET_MASTER_ADDR=node0;"
        " torchrun --nproc-per-node=4 -m train",
        "C": f"mpirun -n 2 --host node0:2 {told} python train.py"
        f" : -n 2 --host node1:2 {told} python train.py",
        "D": "SRUN_CPUS_PER_TASK=6 SLURM_NTASKS_PER_NODE=4 srun -N 2 python train.py",
        "E": "PET_NNODES=2 PET_RDZV_BACKEND=c10d PET_MAX_RESTARTS=3 srun -N2 -n2 -c24"
        " env PET_RDZV_ID=job7 PET_RDZV_ENDPOINT=node0:29500"
        " torchrun --nproc-per-node=4 --no-python python train.py",
    }
