"""The paper's case study on public clicks, or on your own.

NRK's clicks are not public, so the paper's protocol is run on others: some clicks of each user are removed at
random, and each method recommends as many items. `data` prepares the clicks, `choice` decides the numbers of
clusters, and `forecasts` asks whether probabilities are right; `forecast_tables` and `forecast_words` show that.
"""

from experiments.case_study.study import CaseStudy

__all__ = ["CaseStudy"]
