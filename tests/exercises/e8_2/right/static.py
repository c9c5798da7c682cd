def commands():
    return {
        "A": "torchrun --nproc_per_node 4 train.py",
        "B": "torchrun --nnodes 2 --nproc_per_node 4 --node_rank 1"
        " --master_addr node0 --master_port 29500 train.py",
        "C": "mpirun -np 4 -H node0:2,node1:2 -x MASTER_ADDR=node0"
        " -x MASTER_PORT=29500 python3 train.py",
        "D": "srun -N 2 -n 8 -c 6 python train.py",
        "E": "srun -N2 -n2 -c24 torchrun --nnodes 2 --nproc_per_node 4"
        " --max_restarts 3 --rdzv_id job7 --rdzv_backend c10d"
        " --rdzv_endpoint $MASTER_ADDR:$MASTER_PORT train.py",
    }
