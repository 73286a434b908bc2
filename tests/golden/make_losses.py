#!/usr/bin/env python3
"""Prints the losses that test_targets.c expects: those of PyTorch (made with 2.15, in double precision).

A linear layer of 6 inputs and 3 outputs is trained for six steps of SGD with one batch of all 16 samples. The seventh
loss is that of the weights after the last step.
"""
import torch

COUNT, INPUTS, OUTPUTS = 16, 6, 3
x = torch.tensor([[((7 * i + 5 * j * j + 3 * i * j) % 17 - 8) / 4 for j in range(INPUTS)] for i in range(COUNT)],
                 dtype=torch.float64)
wide = torch.tensor([[((5 * i + 3 * k) % 11 - 5) / 2 for k in range(OUTPUTS)] for i in range(COUNT)],
                    dtype=torch.float64)
probable = torch.tensor([[((5 * i + 3 * k) % 9) / 8 for k in range(OUTPUTS)] for i in range(COUNT)],
                        dtype=torch.float64)
for name, loss_of, targets in (("absolute", torch.nn.L1Loss(), wide), ("Huber", torch.nn.HuberLoss(), wide),
                               ("Huber, 0.25", torch.nn.HuberLoss(delta=0.25), wide),
                               ("binary cross-entropy", torch.nn.BCEWithLogitsLoss(), probable)):
    w = torch.tensor([[((4 * k + 3 * j) % 7 - 3) / 8 for j in range(INPUTS)] for k in range(OUTPUTS)],
                     dtype=torch.float64, requires_grad=True)
    b = torch.zeros(OUTPUTS, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([w, b], lr=0.25)
    losses = []
    for _ in range(7):
        optimizer.zero_grad()
        loss = loss_of(x @ w.T + b, targets)
        loss.backward()
        losses.append(f"{loss.item():.9f}")
        optimizer.step()
    print(name, ", ".join(losses))

# The cross-entropy with a weight for each class, in steps of 16 samples.
labels = torch.tensor([(i * i + i // 3) % OUTPUTS for i in range(COUNT)])
w = torch.tensor([[((4 * k + 3 * j) % 7 - 3) / 8 for j in range(INPUTS)] for k in range(OUTPUTS)],
                 dtype=torch.float64, requires_grad=True)
b = torch.zeros(OUTPUTS, dtype=torch.float64, requires_grad=True)
optimizer = torch.optim.SGD([w, b], lr=0.25)
loss_of = torch.nn.CrossEntropyLoss(weight=torch.tensor([0.5, 3, 1.25], dtype=torch.float64))
losses = []
for _ in range(7):
    optimizer.zero_grad()
    loss = loss_of(x @ w.T + b, labels)
    loss.backward()
    losses.append(f"{loss.item():.9f}")
    optimizer.step()
print("class weights", ", ".join(losses))
print("their last loss without weights", f"{torch.nn.CrossEntropyLoss()(x @ w.T + b, labels).item():.9f}")
