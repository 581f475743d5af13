"""Does attention sharpen as a small Transformer learns its task?

kymograph run examples/attention_entropy.py --n-seeds 10
kymograph figure attention-kymograph

Attention entropy by layer, while the network learns to copy a token, and with random targets.
"""

import torch
from torch import Tensor, nn

import kymograph as ky

TOKENS, LENGTH = 16, 12


class Transformer(nn.Module):
    """A stack of attention layers that predicts a token."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.embed, self.position = nn.Embedding(TOKENS, width), nn.Parameter(torch.randn(LENGTH, width) * 0.3)
        self.attend = nn.ModuleList(nn.MultiheadAttention(width, 4, batch_first=True) for _ in range(layers))
        self.norm = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))
        self.head = nn.Linear(width, TOKENS)

    def forward(self, tokens: Tensor) -> Tensor:
        """Returns the logits at the last position, shape (batch, tokens)."""
        h = self.embed(tokens) + self.position
        for attend, norm in zip(self.attend, self.norm, strict=True):
            n = norm(h)
            h = h + attend(n, n, n, need_weights=False)[0]
        return self.head(h[:, -1])


@ky.study(
    name="attention",
    question="Does attention sharpen as the task is learned?",
    arms={"copy": {}, "random": {"random": True}},
    headlines={"loss": "final loss"},
    series=[ky.SeriesDisplay("attention_entropy", "Entropy of attention", "nats", log=False,
                             forms=("kymograph", "profile"), options={"sites": "layer"})],
)  # fmt: skip
def attention_study(run: ky.ActiveRun, *, random: bool = False, layers: int = 3, steps: int = 400) -> dict:
    """Trains the network to copy the token that the last one points to; the arm ``random`` has random targets."""
    with run.seeded("init"):
        model = Transformer(32, layers)
    optimizer = torch.optim.Adam(model.parameters(), 0.003)
    run.watch(model, optimizer, every=5, level=["attention_entropy"])
    for _ in run.steps(steps):
        tokens = torch.randint(0, TOKENS, (128, LENGTH))
        tokens[:, -1] %= LENGTH - 1  # the position to look at
        target = torch.randint(0, TOKENS, (128,)) if random else tokens.gather(1, tokens[:, -1:])[:, 0]
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(tokens), target)
        loss.backward()
        optimizer.step()
        run.log(loss=loss)
    return {"loss": loss.item()}
