# hint: [no step]
# same as: a_function
class ShardedAdamW:
    def __init__(self, parameters, lr, max_norm):
        self.adamw = torch.optim.AdamW([p for p in parameters if p.requires_grad], lr)
