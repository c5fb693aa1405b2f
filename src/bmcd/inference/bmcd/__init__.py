"""The default sampler: its moves, its sweep, and what a draw says of the next items. Knows only the footrule."""
