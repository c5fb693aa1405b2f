"""The random stream of each move: no two moves share one.

The number stands for the purpose of a stream, see `bmcd.rng`.
"""

# The default sampler.
TAU = 1
LABELS = 2
ALPHA = 3
REDRAW = 4
RHO_PRIOR = 5
RHO_SWAPS = 6  # + 16 * round
RELABEL = 7  # + 16 * round
HIT_AND_RUN = 8  # + 16 * round
ROUND_STRIDE = 16
REPLICATE = 9  # and 10; after the draws, for replicated clicks

# The paper's sampler: from 100 on.
PAPER_TAU = 100  # the stream's "user" is 0
PAPER_CONSENSUS = 101  # "user" is the number of the cluster
PAPER_ALPHA = 102  # "user" is the number of the cluster
PAPER_USER = 103  # label and ranking together: with swaps one block of four numbers is all that a user needs

# The tastes: from 200 on.
TASTE_VISITS = 200
TASTE_COLLAPSED = 201  # + PASS_STRIDE * pass
PASS_STRIDE = 256
TASTE_RATES = 202
TASTE_CONSENSUS = 203
TASTE_SCALE = 204
TASTE_SHAPE = 205
TASTE_RATE_OF_RATES = 206
TASTE_START = 207
