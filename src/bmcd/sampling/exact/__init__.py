"""The default sampler: its moves, its sweep, and probabilities given a draw. Knows the footrule only."""
