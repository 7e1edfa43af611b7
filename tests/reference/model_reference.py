#!/usr/bin/python3
"""The policy of src/model once more, in plain torch operations and f64, as a judge that shares no code with it.

Writes model_<case>.txt beside itself: the weights, the input, and what the model must give for them (logits,
log-probabilities, loss, router load and the gradient of every tensor). tests/model/golden_test.cpp reads them.
"""
import math
import pathlib
import random

import torch

SCALE = 1024  # weights are whole numbers of 1/1024: exact in f32, and short in the file

# A router whose choice hangs on the last bits would choose otherwise in f32.
MARGIN_MIN = 1e-3

CASES = {
    # A dense layer first, a shared expert, two query heads per key, an untied head.
    "shared": dict(
        shape=dict(layers=3, dense_layers=1, hidden=16, heads=4, kv_heads=2, head_dim=4, experts=4, top_k=2,
                   expert_ff=6, shared_ff=5, dense_ff=10, vocab=11, tied_head=0, rope_theta=100.0, norm_eps=1e-6),
        lengths=[7, 1, 5], temperature=0.8, aux_coef=0.3, seed=5),
    # Experts in every layer, a key head for every query head, and the embedding as the head.
    "tied": dict(
        shape=dict(layers=2, dense_layers=0, hidden=16, heads=3, kv_heads=3, head_dim=6, experts=8, top_k=3,
                   expert_ff=4, shared_ff=0, dense_ff=0, vocab=13, tied_head=1, rope_theta=10000.0, norm_eps=1e-5),
        lengths=[4, 9], temperature=1.0, aux_coef=0.0, seed=2),
}


def tensor_shapes(s):
    """Name, rows and columns of every tensor, as src/model/parameters.hpp lists them."""
    q_width, kv_width = s["heads"] * s["head_dim"], s["kv_heads"] * s["head_dim"]
    yield "embedding", s["vocab"], s["hidden"]
    for layer in range(s["layers"]):
        name = f"layers.{layer}."
        yield name + "attention_norm", 1, s["hidden"]
        yield name + "attention.qkv", q_width + 2 * kv_width, s["hidden"]
        yield name + "attention.output", s["hidden"], q_width
        yield name + "mlp_norm", 1, s["hidden"]
        if layer < s["dense_layers"]:
            yield name + "dense.gate_up", 2 * s["dense_ff"], s["hidden"]
            yield name + "dense.down", s["hidden"], s["dense_ff"]
            continue
        yield name + "router", s["experts"], s["hidden"]
        if s["shared_ff"]:
            yield name + "shared.gate_up", 2 * s["shared_ff"], s["hidden"]
            yield name + "shared.down", s["hidden"], s["shared_ff"]
        yield name + "experts.gate_up", s["experts"] * 2 * s["expert_ff"], s["hidden"]
        yield name + "experts.down", s["experts"] * s["hidden"], s["expert_ff"]
    yield "final_norm", 1, s["hidden"]
    if not s["tied_head"]:
        yield "head", s["vocab"], s["hidden"]


def draw_numerator(numbers, name):
    if name.endswith("norm"):
        return SCALE + numbers.randint(-300, 300)
    spread = 900 if name.endswith("router") or name == "embedding" else 450
    return numbers.randint(-spread, spread)


def rms_norm(x, gain, eps):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) * gain


def rotate(x, theta):
    """x[token][head][dim]: the two halves of a head are the real and imaginary parts of dim / 2 numbers."""
    tokens, _, dim = x.shape
    frequencies = theta ** (-2.0 * torch.arange(dim // 2, dtype=x.dtype) / dim)
    angles = torch.arange(tokens, dtype=x.dtype)[:, None, None] * frequencies
    real, imaginary = x.split(dim // 2, -1)
    return torch.cat([real * angles.cos() - imaginary * angles.sin(), imaginary * angles.cos() + real * angles.sin()], -1)


def attention(x, w, name, s):
    """One sequence x[token][hidden]."""
    tokens = x.shape[0]
    q_width, kv_width = s["heads"] * s["head_dim"], s["kv_heads"] * s["head_dim"]
    q, k, v = (x @ w[name + "qkv"].T).split([q_width, kv_width, kv_width], -1)
    q = rotate(q.reshape(tokens, s["heads"], s["head_dim"]), s["rope_theta"])
    k = rotate(k.reshape(tokens, s["kv_heads"], s["head_dim"]), s["rope_theta"])
    v = v.reshape(tokens, s["kv_heads"], s["head_dim"])
    future = torch.ones(tokens, tokens).triu(1).bool()
    results = []
    for head in range(s["heads"]):
        kv_head = head * s["kv_heads"] // s["heads"]
        scores = q[:, head] @ k[:, kv_head].T / math.sqrt(s["head_dim"])
        results.append(torch.softmax(scores.masked_fill(future, -math.inf), -1) @ v[:, kv_head])
    return torch.cat(results, -1) @ w[name + "output"].T


def swiglu(x, gate_up, down):
    gate, up = (x @ gate_up.T).chunk(2, -1)
    return (gate * torch.sigmoid(gate) * up) @ down.T


def experts(x, w, name, s, loads, balances):
    probabilities = torch.softmax(x @ w[name + "router"].T, -1)
    descending = probabilities.sort(-1, descending=True).values
    margin = (descending[:, s["top_k"] - 1] - descending[:, s["top_k"]]).min().item()
    assert margin > MARGIN_MIN, f"{name}: two experts are only {margin} apart; choose another seed"
    chosen = probabilities.topk(s["top_k"], -1)
    gates = chosen.values / chosen.values.sum(-1, keepdim=True)
    gate_up = w[name + "experts.gate_up"].reshape(s["experts"], -1, s["hidden"])
    down = w[name + "experts.down"].reshape(s["experts"], s["hidden"], -1)
    rows = []
    for token in range(x.shape[0]):
        rows.append(sum(gates[token, k] * swiglu(x[token], gate_up[e], down[e])
                        for k, e in enumerate(chosen.indices[token].tolist())))
    load = torch.bincount(chosen.indices.flatten(), minlength=s["experts"])
    loads.append(load.tolist())
    fractions = load.to(x.dtype) / load.sum()
    balances.append(s["experts"] * (fractions * probabilities.mean(0)).sum())
    return torch.stack(rows)


def run(w, sequences, s):
    """Logits of all tokens, and by layer with experts: copies of each expert, and the balancing loss."""
    eps, loads, balances = s["norm_eps"], [], []
    x = w["embedding"][torch.tensor(sum(sequences, []))]
    lengths = [len(sequence) for sequence in sequences]
    for layer in range(s["layers"]):
        name = f"layers.{layer}."
        normed = rms_norm(x, w[name + "attention_norm"], eps)
        x = x + torch.cat([attention(piece, w, name + "attention.", s) for piece in normed.split(lengths)])
        normed = rms_norm(x, w[name + "mlp_norm"], eps)
        if layer < s["dense_layers"]:
            x = x + swiglu(normed, w[name + "dense.gate_up"], w[name + "dense.down"])
            continue
        x = x + experts(normed, w, name, s, loads, balances)
        if s["shared_ff"]:
            x = x + swiglu(normed, w[name + "shared.gate_up"], w[name + "shared.down"])
    head = w["embedding"] if s["tied_head"] else w["head"]
    return rms_norm(x, w["final_norm"], eps) @ head.T, loads, balances


def make(case, file):
    s, numbers = case["shape"], random.Random(case["seed"])
    numerators = {name: [draw_numerator(numbers, name) for _ in range(rows * columns)]
                  for name, rows, columns in tensor_shapes(s)}
    w = {name: (torch.tensor(numerators[name], dtype=torch.float64) / SCALE).reshape(rows, columns).requires_grad_()
         for name, rows, columns in tensor_shapes(s)}
    sequences = [[numbers.randrange(s["vocab"]) for _ in range(length)] for length in case["lengths"]]
    logits, loads, balances = run(w, sequences, s)

    # Two positions of three are scored, with factors as advantages could be.
    rows = [row for row in range(logits.shape[0]) if row % 3 != 1]
    targets = [numbers.randrange(s["vocab"]) for _ in rows]
    factors = [numbers.randint(-SCALE, SCALE) / SCALE for _ in rows]
    log_probs = torch.log_softmax(logits[rows] / case["temperature"], -1)[range(len(rows)), targets]
    loss = (torch.tensor(factors, dtype=torch.float64) * log_probs).sum()
    balance = case["aux_coef"] * sum(balances)
    (loss + balance).backward()

    def line(name, values, form="{}"):
        file.write(" ".join([name] + [form.format(value) for value in values]) + "\n")

    def numbers_line(name, tensor):
        line(name, tensor.detach().flatten().tolist(), "{:.9g}")

    for key, value in s.items():
        line("shape." + key, [value])
    line("tokens", sum(sequences, []))
    line("offsets", [sum(case["lengths"][:i]) for i in range(len(sequences) + 1)])
    line("rows", rows)
    line("targets", targets)
    line("factors", factors)
    line("temperature", [case["temperature"]])
    line("aux_coef", [case["aux_coef"]])
    line("load", sum(loads, []))
    numbers_line("logits", logits)
    numbers_line("log_probs", log_probs)
    numbers_line("loss", loss)
    for name in w:
        line("weight." + name, numerators[name])
    for name in w:
        numbers_line("gradient." + name, w[name].grad)


for case_name, given in CASES.items():
    with open(pathlib.Path(__file__).with_name(f"model_{case_name}.txt"), "w", encoding="ascii") as output:
        make(given, output)
