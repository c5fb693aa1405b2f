"""The paper's case study on public clicks, or on your own: `bmcd reproduce case-study`.

NRK's clicks are not public, so its protocol is run on others: of each user some clicks are removed at random, and
each method recommends as many items. `data` prepares clicks, `plan` says what is run, `fits` are the tasks that
take long, `choice` decides the numbers of clusters, `study` holds all that was found on one data set; `tables`,
`figures`, `words` and `page` show it, and `expected.json` has the paper's own numbers.
"""

from experiments.case_study.reproducing import reproduce_case_study

__all__ = ["reproduce_case_study"]
