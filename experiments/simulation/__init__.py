"""The paper's simulation study: 20 data sets, BMCD and collaborative filtering, next 5 and next 10.

`plan` says how large the study is and what its tasks are, `measure` does them, `tables` and `figures` show what
they gave, and `page` puts it all beside the paper's own numbers, which are in expected.json.
"""

from experiments.simulation.page import reproduce_simulation

__all__ = ["reproduce_simulation"]
