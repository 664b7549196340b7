"""Hashed n-grams: which rows of the tables a token takes."""

from collections.abc import Sequence

import torch
from torch import Tensor

from layerdiff_samples.engine.weights import HASHED, Weights


def ngram_rows(tokens: Sequence[int], start: int, stop: int, weights: Weights) -> Tensor:
    """Embeddings of the bigram and trigram that end at each of [start, stop): [rows, width].

    Args:
        tokens: All tokens of the request from position 0, at least *stop*.
    """
    padded = [0, 0, *tokens]
    bigrams, trigrams = [], []
    for position in range(start, stop):
        first, second, third = padded[position : position + 3]
        bigrams.append((second * 31 + third * 17 + 7) % HASHED)
        trigrams.append((first * 13 + second * 37 + third * 5 + 11) % HASHED)
    return weights.bigrams[torch.tensor(bigrams)] + weights.trigrams[torch.tensor(trigrams)]
