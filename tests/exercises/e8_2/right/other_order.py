def commands():
    return {
        "E": """srun --cpus-per-task 24 --ntasks-per-node 1 \\
  bash -c 'torchrun --rdzv-endpoint "${MASTER_ADDR}:${MASTER_PORT}" \\
  --rdzv-backend c10d --rdzv-id job7 --max-restarts 3 \\
  --nproc-per-node gpu --nnodes $SLURM_NNODES train.py'""",
        "D": "srun -c6 --label --ntasks=8 --ntasks-per-node=4 python -u ./train.py",
        "C": "MASTER_ADDR=node0 MASTER_PORT=29500 mpiexec -n 4 --bind-to none"
        " --host node0,node0,node1,node1 -x MASTER_ADDR -x MASTER_PORT python train.py",
        "B": "OMP_NUM_THREADS=6 torchrun --rdzv-id=job7 --nnodes=2:2"
        " --nproc-per-node=gpu --rdzv-endpoint=node0:29500"
        " --rdzv-backend=c10d train.py",
        "A": "python -m torch.distributed.run --nnodes=1 --nproc-per-node=gpu train.py",
    }
