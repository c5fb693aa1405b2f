"""The paper's experiments, rebuilt from nothing: `bmcd reproduce simulation` and `bmcd reproduce case-study`.

`tasks` runs what takes long and keeps every result, `document` writes tables and figures. A study only says what
its tasks are, and makes tables of their results.
"""
