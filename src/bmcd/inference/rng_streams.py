"""Which random stream a move uses: no two moves share one. The paper's sampler has its own, from 100 on."""

TAU = 1
LABELS = 2
ALPHA = 3
REDRAW = 4
RHO_PRIOR = 5
RHO_SWAPS = 6  # + 16 * round
RELABEL = 7  # + 16 * round
HIT_AND_RUN = 8  # + 16 * round
ROUND_STRIDE = 16
REPLICATE = 9  # and 10; after the draws, for clicks like those that were seen
