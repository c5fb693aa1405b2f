"""Which random stream a move of this room uses: no two moves share one. The other samplers' lie below 200."""

VISITS = 200
COLLAPSED = 201  # + PASS_STRIDE * pass
PASS_STRIDE = 256
RATES = 202
CONSENSUS = 203
SCALE = 204
SHAPE = 205
RATE_OF_RATES = 206
START = 207
