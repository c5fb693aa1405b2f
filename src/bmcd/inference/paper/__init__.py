"""The paper's Algorithm 2 for every distance: moves, iteration, log Z."""
