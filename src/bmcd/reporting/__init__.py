"""The HTML report about a model, and the model card.

* `report.py`: `bmcd.report`, from the arguments to the file.
* `choices.py`: what a report is about: clicks, users, k, baselines.
* `context.py`, `changes.py`: every number, computed once before anything is written.
* `figures.py`: the figures, drawn by `bmcd.plots`, as SVG.
* `wording.py`: sentences that depend on the numbers.
* `templates/`: the page, with one file per section. `page.py` escapes everything that is put into a template.
* `card.py`: the model card.

To add a figure, draw it in `bmcd.plots`, list it in `figures.py` and show it in the template of its section.
"""
