"""The default sampler, for the footrule: its moves, its sweep, and the next items given draws."""
