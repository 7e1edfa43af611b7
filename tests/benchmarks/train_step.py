#!/usr/bin/python3
"""One training step of the preset `small` in torch, on one thread, as train_step_benchmark.cpp takes it: forward,
backward and AdamW on SEQUENCES sequences of TOKENS tokens. Prints tokens per second (of the median step, in processor
time) and the process's peak memory in bytes.
"""
import resource
import statistics
import sys
import time

import torch
import torch.nn.functional as F

LAYERS, HIDDEN, HEADS, KV_HEADS, HEAD_DIM = 4, 384, 6, 2, 64
EXPERTS, TOP_K, EXPERT_FF, VOCAB = 16, 4, 384, 2048
THETA, EPS = 10000.0, 1e-6
SEQUENCES, TOKENS = 16, 128


class Norm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = torch.nn.Parameter(torch.ones(HIDDEN))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS) * self.gain


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = torch.nn.Linear(HIDDEN, (HEADS + 2 * KV_HEADS) * HEAD_DIM, bias=False)
        self.output = torch.nn.Linear(HEADS * HEAD_DIM, HIDDEN, bias=False)
        frequencies = THETA ** (-torch.arange(0, HEAD_DIM, 2) / HEAD_DIM)
        angles = torch.arange(TOKENS)[:, None] * frequencies
        self.cosines, self.sines = angles.cos(), angles.sin()
        self.mask = torch.full((TOKENS, TOKENS), -torch.inf).triu(1)

    def rotate(self, x):
        real, imaginary = x.chunk(2, -1)
        return torch.cat([real * self.cosines - imaginary * self.sines,
                          imaginary * self.cosines + real * self.sines], -1)

    def forward(self, x):
        heads = self.qkv(x).view(SEQUENCES, TOKENS, HEADS + 2 * KV_HEADS, HEAD_DIM).transpose(1, 2)
        q, k, v = heads.split([HEADS, KV_HEADS, KV_HEADS], 1)
        # The queries of a key head lie one below the other, so that keys and values are not copied.
        q = self.rotate(q).reshape(SEQUENCES, KV_HEADS, HEADS // KV_HEADS * TOKENS, HEAD_DIM)
        scores = (q * HEAD_DIM ** -0.5) @ self.rotate(k).transpose(2, 3)
        scores = scores.view(SEQUENCES, HEADS, TOKENS, TOKENS) + self.mask
        p = torch.softmax(scores, -1).view(SEQUENCES, KV_HEADS, -1, TOKENS)
        out = (p @ v).view(SEQUENCES, HEADS, TOKENS, HEAD_DIM).transpose(1, 2)
        return self.output(out.reshape(-1, HEADS * HEAD_DIM))


class Experts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.router = torch.nn.Linear(HIDDEN, EXPERTS, bias=False)
        self.gate_up = torch.nn.ModuleList(torch.nn.Linear(HIDDEN, 2 * EXPERT_FF, bias=False) for _ in range(EXPERTS))
        self.down = torch.nn.ModuleList(torch.nn.Linear(EXPERT_FF, HIDDEN, bias=False) for _ in range(EXPERTS))

    def forward(self, x):
        chosen = torch.softmax(self.router(x), -1).topk(TOP_K, -1)
        gates = chosen.values / chosen.values.sum(-1, keepdim=True)
        order = chosen.indices.flatten().argsort()  # copies by expert
        counts = chosen.indices.flatten().bincount(minlength=EXPERTS).tolist()
        y = torch.zeros_like(x)
        pieces = zip((order // TOP_K).split(counts), gates.flatten()[order].split(counts))
        for expert, (tokens, weights) in enumerate(pieces):
            gate, up = self.gate_up[expert](x.index_select(0, tokens)).chunk(2, -1)
            y.index_add_(0, tokens, self.down[expert](F.silu(gate) * up) * weights[:, None])
        return y


class Policy(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(VOCAB, HIDDEN)
        self.layers = torch.nn.ModuleList(
            torch.nn.ModuleList([Norm(), Attention(), Norm(), Experts()]) for _ in range(LAYERS))
        self.norm = Norm()
        self.head = torch.nn.Linear(HIDDEN, VOCAB, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens.flatten())
        for attention_norm, attention, experts_norm, experts in self.layers:
            x = x + attention(attention_norm(x))
            x = x + experts(experts_norm(x))
        return self.head(self.norm(x.view(SEQUENCES, TOKENS, HIDDEN)[:, :-1].reshape(-1, HIDDEN)))


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    policy = Policy()
    with torch.no_grad():
        for weights in policy.parameters():
            if weights.dim() > 1:
                weights.normal_(0, 0.02)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.0, foreach=True)
    tokens = torch.randint(VOCAB, (SEQUENCES, TOKENS))
    steps = int(sys.argv[1])
    seconds = []
    for _ in range(steps + 1):
        start = time.process_time()
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(policy(tokens), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        seconds.append(time.process_time() - start)
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    # The first step, in which memory is touched for the first time, does not count.
    print(f"{SEQUENCES * TOKENS / statistics.median(seconds[1:]):.1f} {peak_bytes}")


main()
