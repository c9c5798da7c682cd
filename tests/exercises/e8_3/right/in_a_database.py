import io
import sqlite3


def train(rank, world_size, model, data, steps, folder):
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    images, labels = data
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    row, base = [None], None
    if rank == 0:
        base = sqlite3.connect(f"{folder}/checkpoints.db")
        base.execute(
            "CREATE TABLE IF NOT EXISTS saved (step INTEGER PRIMARY KEY, state BLOB)"
        )
        base.commit()
        row = [
            base.execute("SELECT step, state FROM saved ORDER BY step DESC").fetchone()
        ]
    dist.broadcast_object_list(row)
    first = 0
    if row[0]:
        first, state = row[0]
        weights, momentum, chance = torch.load(io.BytesIO(state))
        model.load_state_dict(weights)
        optimizer.load_state_dict(momentum)
        torch.set_rng_state(chance)
    net = DDP(model)
    for step in range(first, steps):
        batch = torch.randperm(len(images))[rank::world_size][:32]
        optimizer.zero_grad()
        cross_entropy(net(images[batch]), labels[batch]).backward()
        optimizer.step()
        if base and (step + 1) % 5 == 0:
            file = io.BytesIO()
            torch.save(
                (model.state_dict(), optimizer.state_dict(), torch.get_rng_state()),
                file,
            )
            with base:
                base.execute(
                    "INSERT OR REPLACE INTO saved VALUES (?, ?)",
                    (step + 1, file.getvalue()),
                )
    dist.destroy_process_group()
    return model.state_dict()
